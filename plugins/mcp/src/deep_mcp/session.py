"""A session that a server's odd replies cannot break: each part by itself, before the library reads it.

The library reads a reply as a whole. One tool without a schema would cost a server all of its tools
(QwenLM/Qwen-Agent#536), and one part of a result without a type the whole result.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import Any, cast

import mcp_types as types
from fastmcp.client.transports.base import VersionAwareClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import methods
from pydantic import ValidationError

__all__ = ["RAW", "Session", "quiet_logs", "read_raw"]

RAW = "deep.raw"
"""In the metadata of a result: the result as the server sent it."""
TRIES = 20
"""Places in a line at which an answer may begin."""
NOTE: ContextVar[Callable[[str], None] | None] = ContextVar("deep_mcp_note", default=None)
"""Where what a server prints is noted, and what the libraries log of it, in the tasks of its connection."""
LISTS: Mapping[str, tuple[str, type[types.Result]]] = {
    "tools/list": ("tools", types.ListToolsResult),
    "prompts/list": ("prompts", types.ListPromptsResult),
    "resources/list": ("resources", types.ListResourcesResult),
    "resources/templates/list": ("resourceTemplates", types.ListResourceTemplatesResult),
}
WHOLE: Mapping[str, str] = {"tools/call": "content", "prompts/get": "messages", "resources/read": "contents"}
"""Results that this package reads itself: the library gets an empty one with the original in its metadata."""
SPARE = ("outputSchema", "annotations", "icons", "execution", "_meta", "title", "description", "arguments", "size")
"""What an item of a list can do without."""


class Session(VersionAwareClientSession):
    """A session over a transport's streams.

    Args:
        read_stream: of the transport.
        write_stream: of the transport.
    """

    def __init__(self, read_stream: Any, write_stream: Any, **settings: Any) -> None:
        note = NOTE.get() or _ignore
        self.left_out: list[str] = []
        """What of the lists was left out, each with its reason."""
        super().__init__(dispatcher=_Dispatcher(_Reader(read_stream, note), write_stream, self), **settings)

    async def validate_tool_result(self, name: str, result: Any) -> None:
        """Do nothing: a result that is not as its tool said is still what the model reads."""


class _Dispatcher(JSONRPCDispatcher[Any]):
    """Mends results before they are read."""

    def __init__(self, read_stream: Any, write_stream: Any, session: Session) -> None:
        super().__init__(read_stream, write_stream)
        self._owner = session

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        """Send a request, and repair its result."""
        raw: Any = await super().send_raw_request(method, params, opts, **more)
        if method in WHOLE and raw.get("resultType") in (None, "complete"):
            kept = {key: raw[key] for key in ("resultType", "ttlMs", "cacheScope") if key in raw}
            return {**kept, WHOLE[method]: [], "_meta": {RAW: raw}}
        if method in LISTS:
            version = self._owner.protocol_version or "2025-11-25"
            return mend_list(method, version, raw, self._owner.left_out.append)
        if method in ("initialize", "server/discover"):
            return mend_greeting(raw)
        return raw


def mend_list(method: str, version: str, raw: dict[str, Any], left_out: Callable[[str], None]) -> dict[str, Any]:
    """Return a list without the items that cannot be read."""
    key, model = LISTS[method]

    def fault(candidate: dict[str, Any]) -> str:
        try:
            methods.validate_server_result(method, version, candidate)
        except KeyError:
            pass
        except ValidationError as error:
            return _first(error)
        try:
            model.model_validate(candidate, by_name=False)
        except ValidationError as error:
            return _first(error)
        return ""

    if not fault(raw):
        return raw
    rest = {name: value for name, value in raw.items() if name != key}
    for name in [name for name in rest if fault({name: rest[name], **_needed(rest, name), key: []})]:
        del rest[name]
    given: Any = raw.get(key)
    kept: list[Any] = []
    for item in cast("list[Any]", given) if isinstance(given, list) else ():
        why = fault({**rest, key: [item]})
        if why and isinstance(item, dict):
            table = cast("dict[str, Any]", item)
            spared = {name: value for name, value in table.items() if name not in SPARE}
            if not fault({**rest, key: [spared]}):
                # Back what is right by itself: a wrong icon must not cost a tool its description.
                good = [name for name in table if name in SPARE]
                good = [name for name in good if not fault({**rest, key: [{**spared, name: table[name]}]})]
                item, why = {**spared, **{name: table[name] for name in good}}, ""
        if why:
            left_out(f"{_name_of(item)}: {why}")
        else:
            kept.append(item)
    if not isinstance(given, list):
        left_out(f"the list of {key}: it is no list")
    return {**rest, key: kept}


def _needed(rest: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What later versions require beside the list, each of which is judged with the others."""
    return {key: rest[key] for key in ("resultType", "ttlMs", "cacheScope") if key in rest and key != name}


def mend_greeting(raw: dict[str, Any]) -> dict[str, Any]:
    """Return what a server says of itself, without what cannot be read."""
    made = {**raw}
    if not isinstance(made.get("capabilities"), dict):
        made["capabilities"] = {}
    said = cast("dict[str, Any]", made["capabilities"])
    made["capabilities"] = {key: value for key, value in said.items() if isinstance(value, dict)}
    if "protocolVersion" in made:
        info = made.get("serverInfo")
        known = cast("dict[str, Any]", info) if isinstance(info, dict) else {}
        made["serverInfo"] = {key: value for key, value in known.items() if isinstance(value, str)}
        made["serverInfo"] = {"name": "", "version": "", **made["serverInfo"]}
    if not isinstance(made.get("instructions", ""), str):
        del made["instructions"]
    return made


def _name_of(item: Any) -> str:
    name: Any = None
    if isinstance(item, dict):
        name = cast("dict[str, Any]", item).get("name")
    return name if isinstance(name, str) and name else json.dumps(cast("Any", item), default=str)[:60]


def _first(error: ValidationError) -> str:
    """Return what is wrong, in one line."""
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(step) for step in each["loc"] if not isinstance(step, int))
        return f"{where}: {each['msg']}"
    return str(error).splitlines()[0]


def read_raw(result: Any) -> dict[str, Any]:
    """Return the result of a request as the server sent it."""
    meta: dict[str, Any] = result.meta or {}
    return meta.get(RAW, {})


def _ignore(line: str) -> None:
    """Note nothing: no client of ours opened the connection."""


class _Reader:
    """What a server sends. A line that is no message is noted; one that answers a request is its failure, at once."""

    def __init__(self, stream: Any, note: Callable[[str], None]) -> None:
        self._stream, self._note = stream, note

    @property
    def last_context(self) -> Any:
        """The context of who sent the last message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        """Return the next message."""
        while True:
            if (item := self._read(await self._stream.receive())) is not None:
                return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    def __aiter__(self) -> _Reader:
        return self

    async def __anext__(self) -> Any:
        while True:
            if (item := self._read(await self._stream.__anext__())) is not None:
                return item

    async def __aenter__(self) -> _Reader:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def _read(self, item: Any) -> Any:
        if not isinstance(item, ValidationError):
            return item
        line, message = _rejected(item)
        if (again := _read_again(line) or self._behind_words(line)) is not None:
            return again
        number = message.get("id")
        if "method" in message or not isinstance(number, int | str) or isinstance(number, bool):
            self._note(line)
            return None
        said: Any = message.get("error", message.get("result"))
        why = f"a malformed reply: {_first(item)}"
        if said is not None:  # what it says is what the model needs
            why += f"; it says {json.dumps(said, ensure_ascii=False)[:2_000]}"
        error = types.ErrorData(code=types.INTERNAL_ERROR, message=why)
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=error))

    def _behind_words(self, line: str) -> SessionMessage | None:
        """Read an answer behind a mark of UTF-8, or what a program printed and did not end: `Loading... {…}`.

        An answer only: what programs log of the requests that they got is no request.
        """
        for brace in islice(re.finditer("{", line), TRIES if '"jsonrpc"' in line else 0):
            try:
                message = types.jsonrpc_message_adapter.validate_json(line[brace.start() :], by_name=False)
            except ValueError:
                continue
            if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                return None
            self._note(line[: brace.start()])
            return SessionMessage(message)
        return None


def _read_again(line: str) -> SessionMessage | None:
    """Read a line with half of a surrogate pair, as a server writes that cuts a text; the SDK refuses all of it."""
    if "\\u" not in line:
        return None
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins halves that are a pair
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(whole, by_name=False))
    except (ValueError, RecursionError):
        return None


def _rejected(error: ValidationError) -> tuple[str, dict[str, Any]]:
    """Return the line that was no message, and its content if it is an object."""
    for each in error.errors(include_url=False):
        given: Any = each["input"]
        if isinstance(given, bytes):
            given = given.decode("utf-8", "replace")
        if isinstance(given, str) and each["type"] == "json_invalid":
            return given, {}
        if isinstance(given, dict) and len(each["loc"]) <= 2 and each["type"] == "missing":
            return json.dumps(given), cast("dict[str, Any]", given)
    return str(error.errors(include_url=False)[0]["input"]), {}


class _ToLog(logging.Filter):
    """Sends what the libraries log of a server to its log: a person's terminal is not the place."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let pass what is no server's of ours."""
        note = NOTE.get()
        if note is not None and "Failed to parse JSONRPC message" not in record.msg:  # the reader notes the line itself
            note(f"{record.name}: {record.getMessage()}")
        return note is None


_TO_LOG = _ToLog()


def quiet_logs() -> None:
    """Filter the loggers of the libraries, which are there once they are imported."""
    for name in [*logging.root.manager.loggerDict]:
        if name == "client" or name.startswith(("mcp.client", "mcp.shared", "fastmcp.client")):
            logging.getLogger(name).addFilter(_TO_LOG)
