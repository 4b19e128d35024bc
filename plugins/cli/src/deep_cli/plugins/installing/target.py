"""Detect where plugins are installed: the environment that runs `deep`, and the tool that may change it.

Looks at files that the tools leave (`uv-receipt.toml`, `pipx_metadata.json`, `EXTERNALLY-MANAGED`), for programs
(pip, uv, pipx), and writes a file to see whether it may.
"""

from __future__ import annotations

import importlib.machinery
import os
import site
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deep_core.plugin_api import find_program

__all__ = ["Kind", "Target", "detect", "write_problem"]

Kind = Literal["uv-tool", "pipx", "temporary", "managed", "pip", "uv", "bare"]
"""Which tool changes the environment.

`uv-tool`: made by `uv tool install`. `pipx`: made by `pipx install`. `temporary`: made by uvx, `uv run --with` or
`pipx run` for one run, in a cache. `managed`: the system's (PEP 668). `pip`: has pip. `uv`: has no pip, but uv is on
the PATH. `bare`: has neither.
"""
RECEIPT = "uv-receipt.toml"
PIPX = "pipx_metadata.json"
CACHE_TAG = "CACHEDIR.TAG"


@dataclass(frozen=True)
class Target:
    """The environment that runs `deep`.

    Attributes:
        kind: the tool that changes it.
        prefix: its folder.
        python: its interpreter.
        site: its site directory.
        program: uv or pipx, if `kind` needs it; "" if it is not on the PATH.
        problem: why it is not writable, "" if it is.
        own: whether `site` is the user's, where pip installs if the environment is not writable.
    """

    kind: Kind
    prefix: Path
    python: str
    site: Path
    program: str = ""
    problem: str = ""
    own: bool = False

    @property
    def changeable(self) -> bool:
        """Whether `deep plugins install` can change it."""
        if self.problem or self.kind in ("temporary", "managed", "bare"):
            return False
        return self.kind == "pip" or bool(self.program)

    def __str__(self) -> str:
        if self.own:
            return f"your own site directory, {self.site}"
        what = {
            "uv-tool": f"the uv tool {self.prefix.name}",
            "pipx": f"the pipx environment {self.prefix.name}",
            "temporary": "an environment that a tool made for one run",
            "managed": "the system's Python",
            "pip": "an environment with pip",
            "uv": "an environment without pip, changed by uv",
            "bare": "an environment without pip",
        }[self.kind]
        return f"{what}, {self.prefix}"


def detect() -> Target:
    """Detect the environment of this process. Starts no process; makes and removes one temporary file."""
    prefix, folder = Path(sys.prefix).resolve(), Path(sysconfig.get_path("purelib"))
    kind, problem = _kind(prefix), write_problem(folder) or ""
    # pip would install into a virtual environment that sees the system's packages, but uninstall none of those.
    own = kind == "pip" and bool(problem) and bool(site.ENABLE_USER_SITE) and sys.prefix == sys.base_prefix
    if own:
        folder = Path(site.getusersitepackages())
        problem = write_problem(folder) or ""
    program_name = {"uv-tool": "uv", "uv": "uv", "pipx": "pipx"}.get(kind)
    program = (find_program(program_name) or "") if program_name else ""
    return Target(kind, prefix, sys.executable, folder, program, problem, own)


def _kind(prefix: Path) -> Kind:
    if _in_cache(prefix) or ((prefix / PIPX).is_file() and prefix.parent.name != "venvs"):
        return "temporary"
    if (prefix / RECEIPT).is_file():
        return "uv-tool"
    if (prefix / PIPX).is_file():
        return "pipx"
    # As pip reads PEP 668: the file applies to the system's environment only, never to a virtual one.
    if sys.prefix == sys.base_prefix and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file():
        return "managed"
    if _has_pip():
        return "pip"
    return "uv" if find_program("uv") else "bare"


def _in_cache(prefix: Path) -> bool:
    """Whether uv made it for one run, below its cache, which has the tag of cache folders."""
    return _is_uv_environment(prefix) and any((parent / CACHE_TAG).is_file() for parent in prefix.parents)


def _is_uv_environment(prefix: Path) -> bool:
    try:
        lines = (prefix / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(line.partition("=")[0].strip() == "uv" for line in lines)


def _has_pip() -> bool:
    """Whether `python -P -m pip` would find pip, ignoring the current directory."""
    here = os.getcwd()
    path = [entry for entry in sys.path if entry and os.path.realpath(entry) != here]
    return importlib.machinery.PathFinder.find_spec("pip", path) is not None


def write_problem(folder: Path) -> str | None:
    """Why a folder (or the parent it would be created in) is not writable, or None.

    Tries it: permission bits do not show a read-only mount, and root ignores them.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"{folder} is not writable ({error.strerror})"
