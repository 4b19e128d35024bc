"""Where answers of servers that are nearly a provider's are made right: at the HTTP client that reads them."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import httpx2

from deep_core.plugin_api import visible

from .ends import RequestFailed, garbled
from .model import INSIDE
from .nearly import WIDTH, Body, Wire, error_of, list_of_objects
from .nearly_anthropic import MESSAGES
from .nearly_openai import CHAT
from .nearly_responses import RESPONSES

if TYPE_CHECKING:
    from pydantic_ai.models import Model

__all__ = ["Repair", "repair"]

WIRES: Final[Mapping[str, Wire]] = {
    "AnthropicModel": MESSAGES,
    "OpenAIChatModel": CHAT,
    "OpenAIResponsesModel": RESPONSES,
}
"""A model class of Pydantic AI -> its protocol. Its subclasses for one provider read that one's own words."""
OFFICIAL: Final = r"(^|\.)(openai\.com|azure\.com|anthropic\.com)$"
"""Hosts of those whose protocols they are."""
MOST: Final = 100 << 20
"""Most bytes of an answer, or of an event, that are kept."""
STREAM: Final = rb"\s*(?:\xef\xbb\xbf)?(?:data|event|id|retry)?:"
"""How a stream begins whose type says something else."""
START: Final = 100
"""In as many bytes."""
DONE: Final = b"data: [DONE]\n\n"
UNREAD: Final = object()
BROKEN: Final = 500
"""The status of an answer that cannot be read: the server took the request on, so it is not down."""


@dataclass(frozen=True)
class Repair:
    """A hook of an HTTP client that repairs the answers of one protocol.

    Attributes:
        wire: the protocol.
        host: whose answers; None for all.
    """

    wire: Wire
    host: str | None = None

    async def __call__(self, message: httpx2.Request | httpx2.Response) -> None:
        """Ask for an answer that can be read line by line; repair one."""
        request = message if isinstance(message, httpx2.Request) else message.request
        # A client may serve others too, who have no guard.
        is_ours = self.host is None or (request.url.netloc.decode() == self.host and INSIDE.get())
        if not is_ours or request.method != "POST" or not request.url.path.endswith(self.wire.path):
            return
        if isinstance(message, httpx2.Request):
            message.headers["accept-encoding"] = "identity"
        elif message.is_success:
            asked, stream = _asked(request), _unpacked(message)
            if "event-stream" in message.headers.get("content-type", ""):
                message.stream = _Events(stream, aiter(stream), self.wire, str(asked.get("model")))
            else:
                await _make_right(message, stream, self.wire, asked)


def repair(model: Model[Any]) -> None:
    """Repair the answers that a model gets, unless its server is the one whose protocol it is."""
    named = next((cls.__name__ for cls in type(model).__mro__ if cls.__module__.startswith("pydantic_ai.")), "")
    wire, address = WIRES.get(named), urlsplit(model.base_url or "")
    http: object = getattr(getattr(model, "client", None), "_client", None)
    if wire is None or not isinstance(http, httpx2.AsyncClient) or re.search(OFFICIAL, address.hostname or ""):
        return
    mine = Repair(wire, address.netloc.rpartition("@")[2])
    for hooks in (http.event_hooks["request"], http.event_hooks["response"]):
        if mine not in hooks and Repair(wire) not in hooks:
            hooks.append(mine)


def _asked(request: httpx2.Request) -> Body:
    try:
        return json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):  # not ours
        return {}


class _Unpacked(httpx2.AsyncByteStream):
    """A body as its `content-encoding` says."""

    def __init__(self, packed: httpx2.Response) -> None:
        self._packed = packed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._packed.aiter_bytes():
                yield piece
        except httpx2.DecodingError as error:  # Anthropic's SDK passes it on, and the guard takes it for no end
            raise httpx2.RemoteProtocolError(str(error)) from error

    async def aclose(self) -> None:
        """Close it."""
        await self._packed.aclose()


def _unpacked(response: httpx2.Response) -> httpx2.AsyncByteStream:
    """Return the body of an answer: some proxies pack it though nobody asked for that."""
    stream = cast("httpx2.AsyncByteStream", response.stream)
    if response.headers.get("content-encoding", "identity") == "identity":
        return stream
    packed = httpx2.Response(200, headers=response.headers, stream=stream)
    for name in ("content-encoding", "content-length"):
        response.headers.pop(name, None)
    return _Unpacked(packed)


async def _make_right(response: httpx2.Response, stream: httpx2.AsyncByteStream, wire: Wire, asked: Body) -> None:
    """Repair an answer that is one JSON text, or a stream that is called something else."""
    read, pieces, model = bytearray(), aiter(stream), str(asked.get("model"))
    async for piece in pieces:
        is_begin = len(read) < START
        read += piece
        if is_begin and asked.get("stream") and re.match(STREAM, read):
            response.headers["content-type"] = "text/event-stream"
            response.stream = _Events(stream, _after(bytes(read), pieces), wire, model)
            return
        if len(read) > MOST:
            break
    await stream.aclose()
    content, kind = bytes(read), "application/json"
    body = _read(content) if len(content) <= MOST else UNREAD
    if not isinstance(body, dict):
        begins = visible(content[:WIDTH].decode(errors="replace")).strip() or "nothing"
        raise RequestFailed(model, garbled(f"it is no JSON object, but begins with {begins}"))
    said = cast("Body", body)
    has_any = wire.holds in said if wire.names else list_of_objects(said.get(wire.holds))
    error = error_of(said, wire.holds)
    if error is None and not has_any:  # the next answer may have some
        error = BROKEN, {"message": f"the server's answer has no {wire.holds}", "code": BROKEN}
    if error is not None:
        response.status_code, content = error[0], json.dumps(wire.error(*error)).encode()
    elif asked.get("stream"):
        kind = "text/event-stream"
        content = b"".join(_event(wire, each) for each in wire.pieces(said, model)) + (b"" if wire.names else DONE)
    elif (made := wire.whole(said, model)) != said:
        content = json.dumps(made).encode()
    for name in ("content-length", "transfer-encoding"):
        response.headers.pop(name, None)
    response.headers["content-type"] = kind
    response.stream = httpx2.ByteStream(content)


async def _after(first: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in pieces:
        yield piece


def _read(text: bytes) -> object:
    """Return the value of a JSON text; `UNREAD` for what is none."""
    try:
        return json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return UNREAD


def _event(wire: Wire, body: Body) -> bytes:
    name = f"event: {body['type']}\n" if wire.names else ""
    return f"{name}data: {json.dumps(body)}\n\n".encode()


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Return the name of a line, "" for a comment, and its value. An error may be a line of JSON alone."""
    text = line.strip()
    name, _, value = (b"data", b"", text) if text.startswith(b"{") else text.partition(b":")
    return name, value.strip()


class _Events(httpx2.AsyncByteStream):
    """The events of a stream, repaired.

    An event that cannot be read becomes an error of the server. The SDKs fail at it, at one without data, and at any
    after an `id`.

    Args:
        inner: the stream.
        pieces: what it holds.
        wire: its protocol.
        model: the model that was asked.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, pieces: AsyncIterator[bytes], wire: Wire, model: str) -> None:
        self._inner, self._pieces, self._wire, self._repair = inner, pieces, wire, wire.stream(model)
        self._ended = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        lines: list[bytes] = []
        """Of the event to come."""
        rest, size = bytearray(), 0
        async for piece in self._pieces:
            rest += piece
            size += len(piece)
            if size > MOST:
                yield self._unread("is too large")
                return
            if b"\n" not in piece and b"\r" not in piece:
                continue  # else a long line would be copied with each piece
            found = bytes(rest).splitlines(keepends=True)
            # After a carriage return, a line feed may follow in the next piece.
            rest = bytearray() if found[-1].endswith(b"\n") else bytearray(found.pop())
            out: list[bytes] = []
            for line in found:
                lines.append(line)
                if not line.strip():
                    out.append(self._made(lines))
                    lines = []
            size = sum(map(len, lines)) + len(rest)
            if any(out):
                yield b"".join(out)
        if lines or rest:
            yield self._made([*lines, bytes(rest) + b"\n\n"], is_last=True)
        if not self._ended:
            yield self._last()

    def _made(self, lines: list[bytes], *, is_last: bool = False) -> bytes:
        """Return what stands for the lines of an event."""
        lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
        fields = [_field(line) for line in lines]
        is_plain = {name for name, _ in fields} <= {b"", b"data", b"event"}
        names = [value.decode(errors="replace") for name, value in fields if name == b"event"]
        data = [value for name, value in fields if name == b"data" and value]
        if not data:
            return b"" if any(name for name, _ in fields) else b"".join(lines)  # comments stay
        whole = b"\n".join(data)
        texts = [whole] if len(data) == 1 or _read(whole) is not UNREAD else data  # some send no blank lines
        made = [self._repaired(text, names[-1] if names else "", is_last=is_last) for text in texts]
        if is_plain and len(made) == 1 and made[0][1] and (names or not self._wire.names):
            return b"".join(lines)
        return b"".join(text for text, _ in made)

    def _repaired(self, text: bytes, name: str, *, is_last: bool) -> tuple[bytes, bool]:
        """Return an event, and whether it was right.

        Args:
            text: its data.
            name: its name; "" for none.
            is_last: whether the stream ends in it, so that it may be cut.
        """
        if text.startswith(b"[DONE]"):
            self._ended, last = True, self._last()
            return last + DONE, not last
        body = _read(text)
        if body is UNREAD:
            # Whether all was said, another event says.
            return b"" if is_last else self._unread(f"cannot be read: {text[:WIDTH].decode(errors='replace')}"), False
        made = self._answer(cast("Body", body), name) if isinstance(body, dict) else []
        events = [cast("Body", body)] if made is None else made
        return b"".join(_event(self._wire, each) for each in events), made is None

    def _unread(self, why: str) -> bytes:
        message = f"a piece of the server's answer {visible(why)}"
        return _event(self._wire, self._wire.event(BROKEN, {"message": message, "code": BROKEN}))

    def _answer(self, body: Body, name: str) -> list[Body] | None:
        wire = self._wire
        error = error_of(body, "type" if wire.names else wire.holds)
        if error is None:
            return self._repair.events(body, name)
        if not wire.names:
            return [wire.event(*error)]
        made = {key: each for key, each in body.items() if key != "error"} | wire.event(*error)
        return None if made == body and name == "error" else [made]

    def _last(self) -> bytes:
        return b"".join(_event(self._wire, each) for each in self._repair.last())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()
