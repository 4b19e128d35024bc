"""Add servers to a `.mcp.json`, and remove them, without changing anything else in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from deep_core import ConfigError

from .places import read_mcp_file

__all__ = ["add_server", "remove_server"]


def add_server(path: Path, name: str, entry: Mapping[str, Any]) -> bool:
    """Add a server.

    Returns:
        Whether the file is trusted now: the person who runs a command agrees with what it adds, and with no more.

    Raises:
        ValueError: the file has a server of this name, or cannot be read; the message says where.
        OSError: the file cannot be written.
    """

    def add(servers: dict[str, Any]) -> None:
        if name in servers:
            raise ValueError(f"{path} has a server {name!r}; deep mcp remove {name}")
        servers[name] = {**entry}

    return _edit(path, add)


def remove_server(path: Path, name: str) -> bool:
    """Remove a server. Returns and raises as `add_server`."""

    def remove(servers: dict[str, Any]) -> None:
        if name not in servers:
            raise ValueError(f"{path} has no server {name!r}")
        del servers[name]

    return _edit(path, remove)


def _edit(path: Path, change: Callable[[dict[str, Any]], None]) -> bool:
    data: Any = {}
    trusted = True
    if path.exists():
        try:
            file = read_mcp_file(path)
            trusted = file.is_trusted()
            data = json.loads(file.content.decode("utf-8-sig"))
        except (ConfigError, ValueError, RecursionError) as error:
            raise ValueError(f"{path} cannot be read ({error}); fix the file") from None
    servers: Any = cast("dict[str, Any]", data).setdefault("mcpServers", {}) if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        raise ValueError(f'{path} has no table "mcpServers"; fix the file')
    change(cast("dict[str, Any]", servers))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)
    if trusted:
        read_mcp_file(path).trust()
    return trusted
