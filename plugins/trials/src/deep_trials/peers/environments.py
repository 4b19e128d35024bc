"""Where the environment of a peer is, and how to make one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from ..errors import AgentNotFound, SuiteError

__all__ = ["DOJO", "HARBOR_AGENT", "PEERS", "PROCESS", "interpreter", "package_python"]

PEERS: Mapping[str, Sequence[str]] = {
    "bare": (),
    "deepagents": ("deepagents", "langchain-openai"),
    "pydantic-deep": ("pydantic-deep", "openai", "tiktoken"),
}
"""A peer -> what its environment needs. `bare` is Pydantic AI itself, which is here already."""
PROCESS = Path(__file__).with_name("process.py")
HARBOR_AGENT = Path(__file__).with_name("harbor_agent.py")
DOJO = Path(__file__).with_name("dojo.py")
FOLDER = Path(".peers")


def interpreter(peer: str) -> str:
    """Return the Python of a peer's environment, `.peers/NAME` of the current folder.

    Raises:
        AgentNotFound: there is none; the message has the command that makes it.
    """
    if not PEERS[peer]:
        return sys.executable
    python = _python(peer)
    if python is None:
        raise AgentNotFound(f"--agent {peer}: no environment. Make one: {_made_by(peer, PEERS[peer])}")
    return python


def package_python(package: str, suite: str) -> str:
    """Return the Python that has a suite's package: this one, or that of `.peers/PACKAGE`. It is not imported.

    Raises:
        SuiteError: there is none; the message has the command that makes it.
    """
    if find_spec(package) is not None:
        return sys.executable
    python = _python(package)
    if python is None:
        raise SuiteError(f"the suite {suite} runs {package}: {_made_by(package, (package,))}")
    return python


def _python(name: str) -> str | None:
    python = os.path.join(os.path.realpath(FOLDER / name), "bin", "python")
    return python if os.access(python, os.X_OK) else None


def _made_by(name: str, packages: Sequence[str]) -> str:
    folder = FOLDER / name
    return f"python3 -m venv {folder} && {folder}/bin/pip install {' '.join(packages)}"
