"""The peers, each in an environment of its own below `benchmarks/.peers`, installed as peers.txt pins it."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from benchmarks.measure import Contender

__all__ = ["CONTENDERS", "install"]

HERE = Path(__file__).resolve().parent
CONTENDERS = {
    "pydantic_deep": [("pydantic-deep", "pydantic_deep")],
    "deepagents": [("deepagents", "deepagents")],
    "harness": [("harness FileSystem", "harness:FILES"), ("harness Coder", "harness:CODER")],
}
"""Line of peers.txt -> its contenders: name in the table, module."""


def install() -> list[Contender]:
    """Make the environments that are not there yet or whose pin has changed."""
    out: list[Contender] = []
    for line in (HERE / "peers.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        peer, requirement = (part.strip() for part in line.split(":"))
        python = _environment(HERE / ".peers" / peer, requirement)
        version = requirement.partition("==")[2]
        out += [Contender(f"{name} {version}", module, str(python)) for name, module in CONTENDERS[peer]]
    return out


def _environment(folder: Path, requirement: str) -> Path:
    python, installed = folder / "bin" / "python", folder / "installed"
    if not installed.exists() or installed.read_text("utf-8") != requirement:
        print(f"installing {requirement}", flush=True)
        venv.EnvBuilder(clear=True, symlinks=True, with_pip=True).create(folder)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, requirement], check=True)
        installed.write_text(requirement, encoding="utf-8")
    return python
