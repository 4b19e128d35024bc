"""The peers, each in an environment of its own below `benchmarks/.peers`, installed as peers.txt pins it."""

from __future__ import annotations

import json
import subprocess
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Contender

__all__ = ["Environment", "install"]

HERE = Path(__file__).resolve().parent
CONTENDERS = {
    "pydantic_deep": {"pydantic-deep": "pydantic_deep"},
    "deepagents": {"deepagents": "deepagents"},
    "harness": {"harness FileSystem": "harness:FILES", "harness Coder": "harness:CODER"},
}
"""Line of peers.txt -> its contenders: name in the table, module."""
FLOORS = {"deepagents": "langchain_floor"}
"""Line of peers.txt -> the module of its floor, where that is not a bare agent of Pydantic AI."""
FRAMEWORKS = {"floor": ("Pydantic AI", "pydantic-ai-slim"), "langchain_floor": ("LangChain", "langchain")}
"""Module of a floor -> the framework, and its distribution."""
VERSIONS = """
import json, platform
from importlib.metadata import distributions
versions = {each.name: each.version for each in distributions()}
names = ("pydantic-ai-slim", "langchain", "langchain-core", "langgraph", "pydantic", "pydantic-core", "anyio")
python = f"{platform.python_implementation()} {platform.python_version()}"
normal = {name.replace("_", "-"): version for name, version in versions.items()}
print(json.dumps({"python": python, **{name: normal[name] for name in names if name in normal}}))
"""


@dataclass(frozen=True)
class Environment:
    """One environment with a peer.

    Attributes:
        requirement: what was installed.
        versions: of Python, and of the libraries that matter.
        contenders: its floor, then what is compared with that.
    """

    requirement: str
    versions: Mapping[str, str]
    contenders: Sequence[Contender]


def install() -> list[Environment]:
    """Make the environments that are missing or whose pin has changed."""
    lines = (HERE / "peers.txt").read_text("utf-8").splitlines()
    pins = (line.split(":") for line in lines if not line.startswith("#"))
    return [_installed(peer.strip(), requirement.strip()) for peer, requirement in pins]


def _installed(peer: str, requirement: str) -> Environment:
    python = _python(HERE / ".peers" / peer, requirement)
    asked = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True)
    versions: dict[str, str] = json.loads(asked.stdout)
    distribution, _, version = requirement.partition("==")
    module = FLOORS.get(peer, "floor")
    framework, library = FRAMEWORKS[module]
    floor = f"floor of {distribution} ({framework} {versions[library]})"
    named = [(floor, module), *((f"{name} {version}", module) for name, module in CONTENDERS[peer].items())]
    contenders = [Contender(name, module, str(python), floor=floor) for name, module in named]
    return Environment(requirement, versions, contenders)


def _python(folder: Path, requirement: str) -> Path:
    python, installed = folder / "bin" / "python", folder / "installed"
    if not installed.exists() or installed.read_text("utf-8") != requirement:
        print(f"installing {requirement}", flush=True)
        venv.EnvBuilder(clear=True, symlinks=True, with_pip=True).create(folder)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, requirement], check=True)
        installed.write_text(requirement, encoding="utf-8")
    return python
