"""Read the configured servers, each by itself: a wrong one costs itself, and is listed with its reason."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from deep_core.plugin_api import suggest, visible

from .places import McpFile, programs_of
from .variables import expand, variables_in

__all__ = ["FoundServer", "ServerConfig", "ServerStatus", "find_servers", "read_server"]

ServerStatus = Literal["ready", "disabled", "blocked", "invalid", "shadowed"]
Transport = Literal["stdio", "http", "sse"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
TYPES: Mapping[str, Transport] = {
    "stdio": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
    "streamable_http": "http",
    "sse": "sse",
}
_STDIO, _REMOTE = ("command", "args", "env", "cwd"), ("url", "headers")
_COMMON, _OURS = ("type", "disabled"), ("prefix", "trust_annotations")


@dataclass(frozen=True)
class ServerConfig:
    """How to reach one server, with variables as they were written.

    Attributes:
        name: of the server.
        transport: `stdio` starts a program; `http` (streamable) and `sse` connect to `url`.
        command: the program.
        args: its arguments.
        env: variables added to the few that a program gets (PATH, HOME, …).
        cwd: its working directory; None for the one of this process.
        url: of the server.
        headers: of every request.
        prefix: whether names of tools begin with the server's; None for the plugin's option.
        trust_annotations: whether to believe what the server says of its tools; None for the plugin's option.
        variables: whether `${VAR}` is replaced; False if the texts are final.
        folder: of the file that has it, whose trust covers programs; "" if no trust does.
        programs: those below `folder` that it starts, as they were trusted: path -> digest.
    """

    name: str
    transport: Transport
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    prefix: bool | None = None
    trust_annotations: bool | None = None
    variables: bool = True
    folder: str = ""
    programs: Mapping[str, str] = field(default_factory=dict[str, str])

    @cached_property
    def digest(self) -> str:
        """A digest of what decides which program or address answers, the programs of a trusted file included."""
        parts = [self.name, self.transport, self.command, [*self.args], {**self.env}, self.cwd, self.url]
        parts += [{**self.headers}, *([{**self.programs}] if self.programs else [])]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def target(self) -> str:
        """The program or address for people, without values of variables, of `env` and of headers."""
        if self.transport == "stdio":
            return visible(" ".join([self.command, *self.args]))
        return visible(re.sub(r"//[^/@]*@", "//***@", self.url).partition("?")[0])

    @property
    def takes_login(self) -> bool:
        """Whether `deep mcp login` is for it: a server at an address, without a header `Authorization` of its own."""
        return self.transport != "stdio" and "authorization" not in map(str.lower, self.headers)

    def expanded(self, environ: Mapping[str, str]) -> ServerConfig:
        """Return a copy with the values of variables.

        Raises:
            UnsetVariable: a variable is not set, and has no default.
        """
        if not self.variables:
            return self

        def values(texts: Mapping[str, str]) -> Mapping[str, str]:
            return {key: expand(text, environ) for key, text in texts.items()}

        return ServerConfig(
            self.name,
            self.transport,
            expand(self.command, environ),
            tuple(expand(arg, environ) for arg in self.args),
            values(self.env),
            None if self.cwd is None else expand(self.cwd, environ),
            expand(self.url, environ),
            values(self.headers),
            self.prefix,
            self.trust_annotations,
            folder=self.folder,
            programs=self.programs,
        )

    def changed_programs(self) -> list[str]:
        """Return the programs that are not what was trusted when the file was read."""
        if not self.folder:
            return []
        entry = {"command": self.command, "args": [*self.args], "env": self.env, "cwd": self.cwd}
        now = programs_of(entry, Path(self.folder))
        return sorted(path for path in {*now, *self.programs} if now.get(path) != self.programs.get(path))

    def secrets(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return values that no message may show, longest first: of `env`, of headers and of variables."""
        texts = [self.command, *self.args, self.cwd or "", self.url, *self.env.values(), *self.headers.values()]
        found = {environ.get(name, "") for text in texts for name in variables_in(text) if self.variables}
        for text in (*self.env.values(), *self.headers.values()):
            try:
                value = expand(text, environ) if self.variables else text
            except ValueError:
                continue
            found |= {value, *value.split()}
        return tuple(sorted((text for text in found if len(text) >= 6), key=len, reverse=True))


@dataclass(frozen=True)
class FoundServer:
    """One configured server.

    Attributes:
        name: as it was written.
        source: a file's path, or `configuration`.
        status: `ready`: its tools are used; `disabled` by its own key; `blocked`: its file is not trusted; `invalid`;
            `shadowed`: a stronger source has a server of this name.
        reason: why it is not ready, and what to type. For a ready server, what of its entry is not used.
        config: how to reach it; None unless it is ready or disabled.
    """

    name: str
    source: str
    status: ServerStatus
    reason: str = ""
    config: ServerConfig | None = None


def find_servers(
    options: Mapping[str, Any], files: Sequence[McpFile], contributed: Sequence[FoundServer] = ()
) -> list[FoundServer]:
    """Return every configured server, strongest source first.

    Args:
        options: `servers` of the plugin's options.
        files: the `.mcp.json` files, strongest first.
        contributed: servers that plugins bring, the weakest.
    """
    found: list[FoundServer] = []
    taken: dict[str, str] = {}
    of_files = (server for file in files for server in _of_file(file))
    for server in (*_of_options(options), *of_files, *contributed):
        if server.status != "blocked" and server.name in taken:
            reason = f"{taken[server.name]} has a server of this name"
            server = FoundServer(server.name, server.source, "shadowed", reason)
        elif server.status != "blocked":  # an untrusted file cannot hide a server
            taken[server.name] = server.source
        found.append(server)
    return found


def _of_options(options: Mapping[str, Any]) -> Iterator[FoundServer]:
    for name, entry in options.items():
        yield read_server(name, entry, "configuration", strict=True)


def _of_file(file: McpFile) -> Iterator[FoundServer]:
    source = str(file.path)
    try:
        content = file.read()
        data: Any = json.loads(content.content.decode("utf-8-sig"))
    except Exception as error:  # noqa: BLE001 - not readable, not UTF-8, not JSON, nested too deeply
        yield FoundServer(file.path.name, source, "invalid", f"{source}: {visible(str(error))}; fix the file")
        return
    servers: Any = cast("dict[str, Any]", data).get("mcpServers") if isinstance(data, dict) else None
    if not isinstance(servers, dict):
        yield FoundServer(file.path.name, source, "invalid", f'{source}: has no table "mcpServers"; fix the file')
        return
    blocked = not (file.trusted or content.is_trusted())
    for name, entry in cast("dict[str, Any]", servers).items():
        if blocked:
            what = "is not trusted, or it or a program that it starts has changed"
            reason = f"{source} {what}; read it, and if you agree: deep config trust {shlex.quote(source)}"
            yield FoundServer(visible(name), source, "blocked", reason)
        else:
            yield _trusted_with(read_server(name, entry, source, strict=False), file)


def _trusted_with(server: FoundServer, file: McpFile) -> FoundServer:
    """Note the programs that the trust of a project's file covers: they are compared again when the server starts."""
    config = server.config
    if config is None or config.transport != "stdio" or file.trusted:
        return server
    entry = {"command": config.command, "args": [*config.args], "env": config.env, "cwd": config.cwd}
    programs = programs_of(entry, file.path.parent)
    return replace(server, config=replace(config, folder=str(file.path.parent), programs=programs))


def read_server(name: str, entry: object, source: str, *, strict: bool = False, variables: bool = True) -> FoundServer:
    """Read one server.

    Args:
        name: its name.
        entry: its table.
        source: where it stands, for messages.
        strict: whether an unknown key is an error. Files of other programs have keys of theirs; those are ignored.
        variables: whether `${VAR}` in its texts is replaced.
    """
    where = f"{source}: server {visible(name)!r}"

    def invalid(why: str) -> FoundServer:
        return FoundServer(visible(name), source, "invalid", f"{where}: {why}")

    if not NAME.fullmatch(name):
        return invalid("a name has 1 to 40 letters, digits, _ and -; rename it")
    if not isinstance(entry, Mapping):
        return invalid("must be a table")
    table = {str(key): value for key, value in cast("Mapping[object, object]", entry).items()}
    known = (*_COMMON, *_STDIO, *_REMOTE, *(_OURS if strict else ()))
    unknown = [key for key in table if key not in known]
    if strict and unknown:
        return invalid(f"unknown key {unknown[0]!r}.{suggest(unknown[0], known)} Known: {', '.join(known)}")
    for key, is_right, expected in _CHECKS:
        if key in table and not is_right(table[key]):
            return invalid(f"{key} must be {expected}")
    given = table.get("type", "stdio" if "command" in table else "http")
    if given not in TYPES:
        return invalid(f"type {given!r} is not one of stdio, http, sse.{suggest(str(given), TYPES)}")
    transport = TYPES[str(given)]
    needed, other = ("command", "url") if transport == "stdio" else ("url", "command")
    if not table.get(needed):
        return invalid(f"a server of type {given} needs {needed!r}")
    if other in table:
        return invalid(f"a server of type {given} takes no {other!r}; remove one of them")
    if transport != "stdio" and not re.match(r"https?://|\$\{", str(table["url"])):
        return invalid("url must begin with https:// or http://")
    config = ServerConfig(
        name,
        transport,
        cast("str", table.get("command", "")),
        tuple(cast("list[str]", table.get("args", []))),
        MappingProxyType(cast("dict[str, str]", table.get("env", {}))),
        cast("str | None", table.get("cwd")),
        cast("str", table.get("url", "")),
        MappingProxyType(cast("dict[str, str]", table.get("headers", {}))),
        cast("bool | None", table.get("prefix") if strict else None),
        cast("bool | None", table.get("trust_annotations") if strict else None),
        variables,
    )
    if table.get("disabled"):
        return FoundServer(name, source, "disabled", f"{where}: disabled = true; remove it to use the server", config)
    try:
        config.expanded(os.environ)
    except ValueError as error:
        return invalid(str(error))
    ignored = f"ignored keys: {visible(', '.join(unknown))}" if unknown else ""
    return FoundServer(name, source, "ready", ignored, config)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, cast("Sequence[object]", value)))


def _is_table_of_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, cast("Mapping[object, object]", value).values()))


_CHECKS = (
    *((key, _is_text, "text") for key in ("type", "command", "url", "cwd")),
    ("args", _is_texts, "a list of texts"),
    *((key, _is_table_of_texts, "a table of texts") for key in ("env", "headers")),
    *((key, _is_switch, "true or false") for key in ("disabled", "prefix", "trust_annotations")),
)
