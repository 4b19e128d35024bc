"""Detect which tool changes the environment that runs `deep`, by the files that the tools leave in it."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from deep_core.plugin_api import find_program

__all__ = ["PIPX", "RECEIPT", "Kind", "Target", "detect"]

Kind = Literal["uv-tool", "pipx", "pip", "uv", "bare", "temporary"]
"""Which tool changes the environment.

`uv-tool`: uv; made by `uv tool install`. `pipx`: made by `pipx install`. `pip`: has pip. `uv`: has no pip, but uv is on
the PATH. `bare`: has neither. `temporary`: none; made by uvx, `uv run --with` or `pipx run` for one run, in a cache.
"""
RECEIPT = "uv-receipt.toml"
PIPX = "pipx_metadata.json"
WHAT = {
    "uv-tool": "the uv tool {}",
    "pipx": "the pipx environment {}",
    "pip": "an environment with pip",
    "uv": "an environment without pip, changed by uv",
    "bare": "an environment without pip",
    "temporary": "an environment that a tool made for one run",
}


@dataclass(frozen=True)
class Target:
    """The environment that runs `deep`.

    Attributes:
        kind: the tool that changes it.
        prefix: its folder.
        python: its interpreter.
        program: uv or pipx, if `kind` needs it; "" if it is not on the PATH.
    """

    kind: Kind
    prefix: Path
    python: str
    program: str = ""

    @property
    def obstacle(self) -> str:
        """Why `deep` cannot change it, and what to do; "" if it can."""
        if self.kind == "temporary":
            return f"deep runs in {self}. Install it permanently: uv tool install deep-cli --with PLUGIN"
        if self.kind == "bare":
            return f"{self.prefix} has no pip, and uv is not on the PATH. Type: {self.python} -m ensurepip"
        if self.kind == "pip" or self.program:
            return ""
        return f"{self} is changed by {self.kind.partition('-')[0]}, which is not on the PATH: add it"

    def __str__(self) -> str:
        return f"{WHAT[self.kind].format(self.prefix.name)}, {self.prefix}"


def detect() -> Target:
    """Detect the environment of this process; start no process, import nothing of the tools."""
    prefix = Path(sys.prefix).resolve()
    kind = _kind(prefix)
    name = {"uv-tool": "uv", "uv": "uv", "pipx": "pipx"}.get(kind)
    return Target(kind, prefix, sys.executable, (find_program(name) or "") if name else "")


def _kind(prefix: Path) -> Kind:
    is_pipx = (prefix / PIPX).is_file()
    if _in_uv_cache(prefix) or (is_pipx and prefix.parent.name != "venvs"):
        return "temporary"
    if (prefix / RECEIPT).is_file():
        return "uv-tool"
    if is_pipx:
        return "pipx"
    if _has_pip():
        return "pip"
    return "uv" if find_program("uv") else "bare"


def _in_uv_cache(prefix: Path) -> bool:
    try:
        settings = (prefix / "pyvenv.cfg").read_text(encoding="utf-8")
    except OSError:
        return False
    by_uv = any(line.partition("=")[0].strip() == "uv" for line in settings.splitlines())
    return by_uv and any((parent / "CACHEDIR.TAG").is_file() for parent in prefix.parents)


def _has_pip() -> bool:
    """Whether `python -P -m pip` would find pip, ignoring the current folder."""
    here = os.getcwd()
    path = [entry for entry in sys.path if entry and os.path.realpath(entry) != here]
    return importlib.machinery.PathFinder.find_spec("pip", path) is not None
