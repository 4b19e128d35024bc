"""Find the `.mcp.json` of the project and the user's `mcp.json`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deep_core.plugin_api import ConfigFile, user_file

__all__ = ["McpFile", "find_files", "user_mcp_file"]

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
        return ConfigFile.read(self.path)


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
