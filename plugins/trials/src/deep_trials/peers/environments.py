"""Where the environment of a peer is, and how to make one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import AgentNotFound

__all__ = ["PEERS", "PROCESS", "interpreter"]

PEERS: Mapping[str, Sequence[str]] = {
    "bare": (),
    "deepagents": ("deepagents", "langchain-openai"),
    "pydantic-deep": ("pydantic-deep", "openai", "tiktoken"),
}
"""A peer -> what its environment needs. `bare` is Pydantic AI itself, which is here already."""
PROCESS = Path(__file__).with_name("process.py")
FOLDER = Path(".peers")


def interpreter(peer: str) -> str:
    """Return the Python of a peer's environment, `.peers/NAME` of the current folder.

    Raises:
        AgentNotFound: there is none; the message has the command that makes it.
    """
    if not PEERS[peer]:
        return sys.executable
    folder = FOLDER / peer
    python = folder / "bin" / "python"
    if not os.access(python, os.X_OK):
        raise AgentNotFound(
            f"--agent {peer}: no environment. Make one: python3 -m venv {folder} && {folder}/bin/pip install "
            f"{' '.join(PEERS[peer])}"
        )
    return os.path.join(os.path.realpath(folder), "bin", "python")
