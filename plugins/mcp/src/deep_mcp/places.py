"""Find the `.mcp.json` of the project and the user's `mcp.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from deep_core.plugin_api import ConfigFile, user_file

from .variables import expand

__all__ = ["McpFile", "find_files", "programs_of", "read_mcp_file", "user_mcp_file"]

MOST_BYTES = 1_000_000
"""Of one file."""


@dataclass(frozen=True)
class McpFile:
    """One file with servers.

    Attributes:
        path: of the file.
        trusted: whether it counts whatever its content is.
    """

    path: Path
    trusted: bool = False

    def read(self) -> ConfigFile:
        """Read the file. Raises ConfigError if it cannot be read, and ValueError if it is too large."""
        if self.path.is_file() and self.path.stat().st_size > MOST_BYTES:
            raise ValueError(f"has more than {MOST_BYTES:,} bytes")
        return read_mcp_file(self.path)


def read_mcp_file(path: Path) -> ConfigFile:
    """Read a file with servers. Its trust covers the programs below its folder that it starts.

    Raises:
        ConfigError: it cannot be read.
    """
    file = ConfigFile.read(path)
    started = {name: programs for name, entry in entries_of(file) if (programs := programs_of(entry, path.parent))}
    starts = sha256(json.dumps(started, sort_keys=True).encode()).hexdigest() if started else ""
    return file._replace(starts=starts)


def entries_of(file: ConfigFile) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the names and tables of servers in a file; none in one that is not a file of servers."""
    try:
        servers: Any = json.loads(file.content.decode("utf-8-sig"))["mcpServers"]
        return [(str(name), entry) for name, entry in servers.items() if isinstance(entry, Mapping)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def programs_of(entry: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return the programs below a folder that a server's table starts: path -> digest."""
    given: list[Any] = [entry.get("command")]
    for more in (entry.get("args"), entry.get("env")):
        given += cast("Sequence[Any]", more) if isinstance(more, list | tuple) else ()
        given += cast("Mapping[str, Any]", more).values() if isinstance(more, Mapping) else ()
    cwd = entry.get("cwd")
    words = [_expanded(text) for text in given if isinstance(text, str)]
    from .programs import programs_below  # only who has a server needs it

    return programs_below(folder, words, _expanded(cwd) if isinstance(cwd, str) else None)


def _expanded(text: str) -> str:
    try:
        return expand(text, os.environ)
    except ValueError:  # a variable that is not set: the server does not start
        return text


def user_mcp_file() -> Path:
    """Return the user's file, beside the user's `config.toml`."""
    return user_file().with_name("mcp.json")


def find_files() -> list[McpFile]:
    """Return the project's nearest file, then the user's.

    The search for `.mcp.json` begins in the current folder and ends at the folder that holds `.git`, at the home
    directory and at the root. The model may have written the project's file, so it counts only after `deep config
    trust`. That also holds for the user's file in a session whose folder contains it.
    """
    found: list[McpFile] = []
    here, home = Path.cwd().resolve(), Path.home().resolve()
    for folder in (here, *here.parents):
        if (path := folder / ".mcp.json").is_file():
            found.append(McpFile(path))
            break
        if (folder / ".git").exists() or folder == home:
            break
    user = user_mcp_file()
    if user.is_file():
        found.append(McpFile(user, trusted=not user.resolve().is_relative_to(here)))
    return found
