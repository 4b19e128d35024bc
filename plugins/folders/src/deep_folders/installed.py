"""The folders that installed distributions bring, by the file `agent_plugins.json` of their dist-info."""

from __future__ import annotations

import json
import os
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from deep_core.plugin_api import Candidate

from .agent_plugin import read_agent_plugin
from .folder import Folder, ServerEntry, entry_in
from .marker import MARKER

__all__ = ["folder_of"]

MOST_BYTES = 1_000_000


def folder_of(candidate: Candidate, data: Path) -> Folder:
    """Read the folder of a distribution; one that cannot be read is a folder with a problem."""
    name, marker = str(candidate.record.distribution), candidate.point.dist_info / MARKER
    source = f"{name} {candidate.record.version}"
    try:
        root, files = _inventory(marker, candidate)
        folder = read_agent_plugin(root, data / name.casefold(), files)
    except (OSError, ValueError) as error:
        why = f"{marker}: {error}; pip install --force-reinstall {name}"
        return Folder(name, "agent-plugin", candidate.point.dist_info, source=source, problem=why)
    return replace(folder, name=name, source=source, servers=tuple(map(_with_program, folder.servers)))


def _inventory(marker: Path, candidate: Candidate) -> tuple[Path, frozenset[str]]:
    """Return the root and the files that the marker names.

    Raises:
        OSError: the marker cannot be read.
        ValueError: it is not such a file, or names what its distribution did not install.
    """
    if marker.stat().st_size > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    data: Any = json.loads(marker.read_text(encoding="utf-8"))
    root: Any = cast("dict[str, Any]", data).get("root") if isinstance(data, dict) else None
    names: Any = cast("dict[str, Any]", data).get("files") if isinstance(data, dict) else None
    if not isinstance(root, str) or not isinstance(names, list):
        raise ValueError('it has no "root" and "files"')
    record, site = candidate.record, candidate.point.dist_info.parent.resolve()
    place = Path(site, root).resolve(strict=True)
    # Only an editable install's folder is outside of the site directory, and it is inside the project.
    within = Path(record.path) if record.editable and os.path.isabs(root) else site
    if not place.is_relative_to(within) or place == site:
        raise ValueError(f"its root {root} is not a folder that {record.distribution} installed")
    owned = None if within != site else _recorded(candidate.point.dist_info)
    files = frozenset(map(str, cast("list[object]", names)))
    for name in files:
        path = entry_in(place, name)
        if path is None or not path.is_file():
            raise ValueError(f"its file {name} does not exist")
        if owned is not None and (place / name).relative_to(site).as_posix() not in owned:
            raise ValueError(f"{record.distribution} did not install {name}")
    if "plugin.json" not in files:
        raise ValueError("its files do not include plugin.json")
    return place, files


def _recorded(dist_info: Path) -> frozenset[str] | None:
    """Return the distribution's files; None if a system package manager left RECORD out."""
    try:
        lines = (dist_info / "RECORD").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return frozenset(line.rsplit(",", 2)[0].strip('"') for line in lines)


def _with_program(server: ServerEntry) -> ServerEntry:
    """Use the environment's program of this name: the one beside this interpreter, which need not be on the PATH."""
    command = str(server.table.get("command", ""))
    path = Path(sysconfig.get_path("scripts"), command)
    return replace(server, table={**server.table, "command": str(path)}) if command and path.is_file() else server
