"""Where answers of servers that are nearly a provider's are made right: at the HTTP client that reads them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import httpx2

from .model import INSIDE
from .nearly import Body, Wire, error_of, list_of_objects
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
        elif message.is_success and message.headers.get("content-encoding", "identity") == "identity":
            asked = _asked(request)
            stream = cast("httpx2.AsyncByteStream", message.stream)
            if "event-stream" in message.headers.get("content-type", ""):
                message.stream = _Lines(stream, self.wire, str(asked.get("model")))
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


async def _make_right(response: httpx2.Response, stream: httpx2.AsyncByteStream, wire: Wire, asked: Body) -> None:
    """Repair an answer that is one JSON text; leave one that is none."""
    content = b"".join([piece async for piece in stream])
    await stream.aclose()
    try:
        body: object = json.loads(content)
    except ValueError:
        body = None
    if isinstance(body, dict):
        said, model, kind = cast("Body", body), str(asked.get("model")), "application/json"
        has_any = wire.holds in said if wire.names else list_of_objects(said.get(wire.holds))
        error = error_of(said, wire.holds)
        if error is None and not has_any:  # the next answer may have some
            error = 502, {"message": f"the server's answer has no {wire.holds}", "code": 502}
        if error is not None:
            response.status_code, content = error[0], json.dumps(wire.error(*error)).encode()
        elif asked.get("stream"):
            content, kind = (
                b"".join(_event(wire, each) + b"\n\n" for each in wire.pieces(said, model)),
                "text/event-stream",
            )
            content += b"" if wire.names else b"data: [DONE]\n\n"
        elif (made := wire.whole(said, model)) != said:
            content = json.dumps(made).encode()
        for name in ("content-length", "transfer-encoding"):
            response.headers.pop(name, None)
        response.headers["content-type"] = kind
    response.stream = httpx2.ByteStream(content)


def _event(wire: Wire, body: Body) -> bytes:
    name = f"event: {body['type']}\n" if wire.names else ""
    return f"{name}data: {json.dumps(body)}".encode()


class _Lines(httpx2.AsyncByteStream):
    """The lines of a stream, repaired.

    Args:
        inner: the stream.
        wire: its protocol.
        model: the model that was asked.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, wire: Wire, model: str) -> None:
        self._inner, self._wire, self._repair = inner, wire, wire.stream(model)
        self._ended = False
        self._name = b""
        """The line that says the type of the event to come."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = b""
        async for piece in self._inner:
            *lines, rest = (rest + piece).split(b"\n")
            if lines:
                yield b"".join(map(self._line, lines))
        if rest:
            yield self._line(rest)
        if not self._ended and (last := self._last()):
            yield b"\n\n" + last

    def _line(self, line: bytes) -> bytes:
        text = line.strip()
        if not text.startswith(b"data:"):
            if self._wire.names and text.startswith(b"event:"):
                self._name = line + b"\n"
                return b""
            return line + b"\n"
        name, self._name = self._name, b""
        data = text[5:].strip()
        as_it_is = name + line + b"\n"
        if data == b"[DONE]":
            self._ended = True
            return self._last() + as_it_is
        try:
            body: object = json.loads(data)
        except ValueError:
            return as_it_is
        made = (
            self._made(cast("Body", body), name[6:].strip().decode(errors="replace")) if isinstance(body, dict) else []
        )
        if made is None:
            if name or not self._wire.names:
                return as_it_is
            made = [cast("Body", body)]
        return (b"\n\n".join(_event(self._wire, each) for each in made) or b":") + b"\n"  # a comment is skipped

    def _made(self, body: Body, name: str) -> list[Body] | None:
        wire = self._wire
        error = error_of(body, "type" if wire.names else wire.holds)
        if error is None:
            return self._repair.events(body, name)
        if not wire.names:
            return [wire.event(*error)]
        made = {key: each for key, each in body.items() if key != "error"} | wire.event(*error)
        return None if made == body and name == "error" else [made]

    def _last(self) -> bytes:
        return b"".join(_event(self._wire, each) + b"\n\n" for each in self._repair.last())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()
