"""Read a folder in the format Agent Plugins 1.0.0: `plugin.json`, `skills/`, `mcp.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from .folder import NAME, Folder, Note, ServerEntry, entry_in, read_text

__all__ = ["SCHEMA", "read_agent_plugin"]

SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
MCP_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"
TEXTS = ("version", "description", "homepage", "repository", "license")
FIELDS = ("$schema", "name", *TEXTS, "author", "keywords", "extensions")
AUTHOR = ("name", "email", "url")
STDIO, REMOTE = ("type", "command", "args", "env", "cwd"), ("type", "url", "headers")
RESERVED = ("PLUGIN_ROOT", "PLUGIN_DATA")
MOST_SKILLS = 500
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLACEHOLDER = re.compile(r"\$\{(PLUGIN_ROOT|PLUGIN_DATA)\}")


def read_agent_plugin(root: Path, data: Path, files: Collection[str] | None = None) -> Folder:
    """Read a folder.

    Args:
        root: the folder, resolved.
        data: the folder for what its servers keep.
        files: the files that belong to it; None for all.

    Raises:
        OSError: plugin.json cannot be read.
        ValueError: plugin.json is not one of version 1.0.0; the message says why.
    """
    notes: list[Note] = []
    manifest = _manifest(_inside(root, "plugin.json", files), notes)
    skills = _skills(root, files, notes)
    servers = _servers(root, data, files, notes)
    return Folder(
        name=manifest["name"],
        format="agent-plugin",
        root=root,
        version=manifest.get("version", ""),
        description=manifest.get("description", ""),
        skills=skills,
        servers=servers,
        notes=tuple(notes),
        data=data,
    )


def _inside(root: Path, name: str, files: Collection[str] | None) -> Path:
    path = entry_in(root, name)
    if path is None or (files is not None and name not in files):
        raise ValueError(f"there is no {name}")
    return path


def load_object(path: Path) -> dict[str, Any]:
    """Read a file with a JSON object. Raises ValueError if it is not one, OSError if it cannot be read."""
    try:
        data: object = json.loads(read_text(path))
    except RecursionError as error:
        raise ValueError(f"{path.name} is nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return cast("dict[str, Any]", data)


def _manifest(path: Path, notes: list[Note]) -> dict[str, Any]:
    data = load_object(path)
    if data.get("$schema") != SCHEMA:
        raise ValueError(f'plugin.json: "$schema" is {data.get("$schema")!r}; deep-folders reads {SCHEMA}')
    name = data.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"plugin.json: the name {name!r} is not 1 to 64 of a-z, 0-9, - and .")
    for key in TEXTS:
        if not isinstance(data.get(key, ""), str):
            raise ValueError(f"plugin.json: {key} is not text")
    author = data.get("author", {})
    if not _is_table_of_texts(author) or not set(author) <= set(AUTHOR):
        raise ValueError(f"plugin.json: author is not a table of {', '.join(AUTHOR)}")
    if not _is_texts(data.get("keywords", [])):
        raise ValueError("plugin.json: keywords is not a list of texts")
    extensions = data.get("extensions", {})
    if not isinstance(extensions, dict):
        notes.append(Note("ignored", "plugin.json: extensions", "it is not an object"))
    elif not all(isinstance(value, dict) for value in cast("dict[str, object]", extensions).values()):
        raise ValueError("plugin.json: an entry of extensions is not an object")
    notes += [Note("ignored", f"plugin.json: {key}", "unknown key") for key in data if key not in FIELDS]
    return data


def _skills(root: Path, files: Collection[str] | None, notes: list[Note]) -> tuple[Path, ...]:
    try:
        folder = entry_in(root, "skills")
    except ValueError as error:
        notes.append(Note("invalid", "skills", str(error)))
        return ()
    if folder is None:
        return ()
    if not folder.is_dir():
        notes.append(Note("invalid", "skills", "it is not a folder"))
        return ()
    found: list[Path] = []
    for name in sorted(path.name for path in folder.iterdir())[:MOST_SKILLS]:
        try:
            skill = entry_in(root, f"skills/{name}/SKILL.md")
        except ValueError as error:
            notes.append(Note("invalid", f"skills/{name}", str(error)))
            continue
        if skill is not None and skill.is_file() and (files is None or f"skills/{name}/SKILL.md" in files):
            found.append(folder / name)
    return tuple(found)


def _servers(root: Path, data: Path, files: Collection[str] | None, notes: list[Note]) -> tuple[ServerEntry, ...]:
    try:
        path = entry_in(root, "mcp.json")
        if path is None or (files is not None and "mcp.json" not in files):
            return ()
        content = load_object(path)
        if content.get("$schema") != MCP_SCHEMA:
            raise ValueError(f'mcp.json: "$schema" is {content.get("$schema")!r}, not {MCP_SCHEMA}')
        tables = content.get("mcpServers")
        if not isinstance(tables, dict) or set(content) != {"$schema", "mcpServers"}:
            raise ValueError('mcp.json: it has not exactly the keys "$schema" and "mcpServers"')
    except (OSError, ValueError) as error:
        notes.append(Note("invalid", "mcp.json", str(error)))
        return ()
    out: list[ServerEntry] = []
    for name, table in cast("dict[str, object]", tables).items():
        try:
            out.append(ServerEntry(name, _server(table, root, data), variables=False))
        except ValueError as error:
            notes.append(Note("invalid", f"mcp.json: server {name}", str(error)))
    return tuple(out)


def _server(entry: object, root: Path, data: Path) -> dict[str, Any]:
    """Check a server by the rules of the format, and fill in its paths."""
    if not isinstance(entry, dict):
        raise ValueError("it is not an object")
    table = cast("dict[str, Any]", entry)
    kind = table.get("type")
    if kind not in ("stdio", "streamable-http", "sse"):
        raise ValueError(f"its type is {kind!r}, not stdio, streamable-http or sse")
    known = STDIO if kind == "stdio" else REMOTE
    if unknown := [key for key in table if key not in known]:
        raise ValueError(f"a server of type {kind} has no key {unknown[0]!r}")
    return _stdio(table, root, data) if kind == "stdio" else _remote(table)


def _stdio(table: dict[str, Any], root: Path, data: Path) -> dict[str, Any]:
    command, env = table.get("command"), table.get("env", {})
    if not isinstance(command, str) or not command or "\0" in command:
        raise ValueError("command is not the name of a program")
    if not _is_texts(table.get("args", [])):
        raise ValueError("args is not a list of texts")
    if not _is_table_of_texts(env):
        raise ValueError("env is not an object of texts")
    if taken := [name for name in env if name.upper() in RESERVED]:
        raise ValueError(f"env must not set {taken[0]}")
    if command.startswith("./"):
        path = entry_in(root, command)
        if path is None or not path.is_file():
            raise ValueError(f"the folder has no program {command}")
        command = str(path)
    elif "/" in command or "\\" in command:
        raise ValueError("command is neither a bare name nor a path that begins with ./")
    roots = {"PLUGIN_ROOT": str(root), "PLUGIN_DATA": str(data)}

    def fill(text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: roots[match[1]], text)

    cwd = _cwd(table.get("cwd", "${PLUGIN_ROOT}"), fill, root, data)
    return {
        "type": "stdio",
        "command": command,
        "args": [fill(arg) for arg in table.get("args", [])],
        "env": {**{key: fill(text) for key, text in env.items()}, **roots},
        "cwd": cwd,
    }


def _cwd(cwd: object, fill: Any, root: Path, data: Path) -> str:
    if not isinstance(cwd, str):
        raise ValueError("cwd is not text")
    for start, base in (("${PLUGIN_ROOT}", root), ("${PLUGIN_DATA}", data), (".", root)):
        if (cwd == start and start != ".") or cwd.startswith(f"{start}/"):
            path = (root / fill(cwd)).resolve()
            if not path.is_relative_to(base.resolve()):
                raise ValueError(f"cwd {cwd} leads out of the folder")
            return str(path)
    raise ValueError("cwd must begin with ./, ${PLUGIN_ROOT} or ${PLUGIN_DATA}")


def _remote(table: dict[str, Any]) -> dict[str, Any]:
    url, headers = table.get("url"), table.get("headers", {})
    if not isinstance(url, str) or re.search(r"[\x00-\x20\x7f\\#]", url):
        raise ValueError("url is not an address without blanks and #")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"url: {error}") from None
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise ValueError("url does not begin with https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("url must not hold a user or a password")
    if parts.scheme.lower() == "http" and not _is_loopback(host):
        raise ValueError("http:// is for this machine only; use https://")
    if not _is_table_of_texts(headers):
        raise ValueError("headers is not an object of texts")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or re.search(r"[^\t\x20-\x7e\x80-\xff]", value):
            raise ValueError(f"the header {name!r} is not one of HTTP")
    if len({name.casefold() for name in headers}) < len(headers):
        raise ValueError("headers names one header twice")
    return {"type": table["type"], "url": url, "headers": dict(headers)}


def _is_loopback(host: str) -> bool:
    try:
        return host.casefold() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value))


def _is_table_of_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(item, str) for item in cast("Mapping[str, object]", value).values()
    )
