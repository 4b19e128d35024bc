"""A provider over HTTP that ends its requests in every way, whole and as a stream, as OpenAI and Anthropic speak."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

__all__ = ["HALF", "WIRES", "Answer", "FailingProvider", "Wire", "failing_provider"]

Wire = Literal["chat", "responses", "anthropic"]
WIRES: tuple[Wire, ...] = ("chat", "responses", "anthropic")
Answer = (
    Literal["stop", "tool_call", "length", "cut_call", "filtered", "cut", "html", "silent", "overflow", "refuses"] | int
)
"""What a request gets; a number is the status of an error, `refuses` accepts no connection."""
HALF = "Half of it"
"""What an answer says that is not whole."""
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}
TOOL = "note"
"""What `tool_call` and `cut_call` call, with a `text`."""
ERRORS = {401: "invalid key", 403: "not for this key", 404: "no such model", 422: "a field is wrong"}
KINDS = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}
FULL = {
    "chat": "This model's maximum context length is 200000 tokens. However, your messages resulted in 210266 tokens.",
    "responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "anthropic": "prompt is too long: 210266 tokens > 200000 maximum",
}


class _Said(NamedTuple):
    """What a model says.

    Attributes:
        text: its text.
        call: the arguments of a call, as JSON; "" without one.
        reason: `stop`, `length`, `tool_calls` or `content_filter`.
    """

    text: str
    call: str
    reason: str


class FailingProvider:
    """The server of one wire.

    Attributes:
        wire: how it speaks.
        asked: the bodies of all requests.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.asked: list[dict[str, Any]] = []
        self._answers: tuple[Answer, ...] = ("stop",)
        self._played = 0
        self.over = threading.Event()
        # Two sockets may have one port: this one keeps it, and without the other one no connection is accepted.
        self._port = socket.socket()
        self._port.bind(("127.0.0.1", 0))
        # Only now: before, the system would give out a port that another test has in the same way.
        self._port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self.play("stop")

    @property
    def url(self) -> str:
        """What a client calls its base URL."""
        root = f"http://127.0.0.1:{self._port.getsockname()[1]}"
        return root if self.wire == "anthropic" else f"{root}/v1"

    def model(self) -> Model[Any]:
        """Return a model that asks it."""
        match self.wire:
            case "chat":
                return OpenAIChatModel("m", provider=OpenAIProvider(base_url=self.url, api_key="none"))
            case "responses":
                return OpenAIResponsesModel("m", provider=OpenAIProvider(base_url=self.url, api_key="none"))
            case "anthropic":
                return AnthropicModel("m", provider=AnthropicProvider(base_url=self.url, api_key="none"))

    @property
    def model_id(self) -> str:
        """Names such a model, with `env`."""
        return {"chat": "openai-chat:m", "responses": "openai-responses:m", "anthropic": "anthropic:m"}[self.wire]

    @property
    def env(self) -> dict[str, str]:
        """The variables of a program that asks it."""
        maker = "ANTHROPIC" if self.wire == "anthropic" else "OPENAI"
        return {f"{maker}_BASE_URL": self.url, f"{maker}_API_KEY": "none", "NO_PROXY": "127.0.0.1"}

    # -- what a test says ----------------------------------------------------------------------------------------------

    def play(self, *answers: Answer) -> None:
        """Answer so from now on; the last answer is given again and again."""
        self._answers, self._played = answers, 0
        if "refuses" in answers:
            self._close()
        elif self._server is None:
            self._open()

    @property
    def is_silent(self) -> bool:
        """Whether requests wait for an answer in vain."""
        return "silent" in self._answers

    @property
    def is_up(self) -> bool:
        """Whether it accepts connections."""
        return self._server is not None

    @property
    def answers(self) -> bool:
        """Whether it has answers, after those that fail."""
        return self._answers[-1] in ("stop", "tool_call", "length", "cut_call", "filtered")

    def said(self, text: str = "") -> str:
        """All that the last request with this text has of the user and the model, as text."""
        bodies = [{name: value for name, value in body.items() if name in ("messages", "input")} for body in self.asked]
        return [said for body in bodies if text in (said := json.dumps(body, ensure_ascii=False))][-1]

    def close(self) -> None:
        """End it."""
        self.over.set()
        self._close()
        self._port.close()

    def _open(self) -> None:
        provider = self

        class Handler(_Handler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.path.partition("?")[0] != PATHS[provider.wire]:
                    self.send_error(404)
                    return
                provider.asked.append(body)
                self.answer(provider, body, provider.next())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self._server.daemon_threads = True
        self._server.socket.close()
        self._server.socket = _bound(self._port.getsockname()[1])
        self._server.socket.listen(64)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def _close(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None

    def next(self) -> Answer:
        """Return the next answer."""
        self._played += 1
        return self._answers[min(self._played, len(self._answers)) - 1]

    # -- what it says --------------------------------------------------------------------------------------------------

    def speaks(self, answer: Answer) -> _Said:
        """What the model says in an answer with status 200."""
        number = len(self.asked)
        match answer:
            case "tool_call":
                return _Said("", json.dumps({"text": f"effect {number}"}), "tool_calls")
            case "cut_call":
                # Anthropic's arguments are an object, in a whole answer also where they were cut.
                return _Said("", json.dumps({"text": "cut"}), "length")
            case "length":
                return _Said(HALF, "", "length")
            case "filtered":
                return _Said(HALF, "", "content_filter")
            case "cut" | "silent":
                return _Said(HALF, "", "stop")
            case _:
                return _Said(f"Answer {number}.", "", "stop")

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The body of an error."""
        if self.wire == "anthropic":
            kind = KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
            return {"type": "error", "error": {"type": kind, "message": message}}
        return {"error": {"message": message, "type": KINDS.get(status, "server_error"), "param": None, "code": None}}

    def whole(self, said: _Said) -> dict[str, Any]:
        """A whole answer."""
        number = len(self.asked)
        match self.wire:
            case "chat":
                call = {"id": f"c{number}", "type": "function", "function": {"name": TOOL, "arguments": said.call}}
                message = {"role": "assistant", "content": said.text, **({"tool_calls": [call]} if said.call else {})}
                choice = {"index": 0, "message": message, "finish_reason": said.reason}
                return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
            case "responses":
                return self._response(said, _items(said, number))
            case "anthropic":
                return {**self._message(), "content": _blocks(said, number), "stop_reason": _stop_reason(said)}

    def pieces(self, said: _Said) -> Iterator[tuple[str, dict[str, Any]]]:
        """An answer as a stream: the names and the data of events. The last one, or two, end it."""
        number = len(self.asked)
        match self.wire:
            case "chat":
                call = {"index": 0, "id": f"c{number}", "type": "function"}
                call["function"] = {"name": TOOL, "arguments": said.call}
                delta = {"role": "assistant", "content": said.text, **({"tool_calls": [call]} if said.call else {})}
                head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
                yield "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
                yield "", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": said.reason}]}
            case "responses":
                yield from self._events(said, number)
            case "anthropic":
                yield "message_start", {"message": self._message()}
                for block in _blocks(said, number):
                    is_call = block["type"] == "tool_use"
                    empty = {**block, "input": {}} if is_call else {"type": "text", "text": ""}
                    yield "content_block_start", {"index": 0, "content_block": empty}
                    delta: dict[str, Any] = {"type": "text_delta", "text": said.text}
                    if is_call:
                        delta = {"type": "input_json_delta", "partial_json": said.call}
                    yield "content_block_delta", {"index": 0, "delta": delta}
                    yield "content_block_stop", {"index": 0}
                stop = {"stop_reason": _stop_reason(said), "stop_sequence": None}
                yield "message_delta", {"delta": stop, "usage": {"output_tokens": 1}}
                yield "message_stop", {}

    def _message(self) -> dict[str, Any]:
        usage = {"input_tokens": 1, "output_tokens": 1}
        about = {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
        return {**about, "stop_reason": None, "stop_sequence": None}

    def _response(self, said: _Said | None, output: list[dict[str, Any]]) -> dict[str, Any]:
        about = {"id": "1", "object": "response", "created_at": 1, "model": "m", "output": output, "tools": []}
        about |= {"parallel_tool_calls": True, "tool_choice": "auto"}
        if said is None:
            return {**about, "status": "in_progress"}
        why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(said.reason)
        if why is None:
            return {**about, "status": "completed"}
        return {**about, "status": "incomplete", "incomplete_details": {"reason": why}}

    def _events(self, said: _Said, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "response.created", {"response": self._response(None, [])}
        items = _items(said, number)
        at: dict[str, Any] = {"output_index": 0, "item_id": items[0]["id"]}
        if said.call:
            yield "response.output_item.added", {"output_index": 0, "item": {**items[0], "arguments": ""}}
            yield "response.function_call_arguments.delta", {**at, "delta": said.call}
        else:
            part = {"type": "output_text", "text": "", "annotations": []}
            at["content_index"] = 0
            yield "response.output_item.added", {"output_index": 0, "item": {**items[0], "content": []}}
            yield "response.content_part.added", {**at, "part": part}
            yield "response.output_text.delta", {**at, "delta": said.text, "logprobs": []}
        yield "response.output_item.done", {"output_index": 0, "item": items[0]}
        response = self._response(said, items)
        yield f"response.{response['status']}", {"response": response}


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self.send_error(404)

    def answer(self, provider: FailingProvider, body: dict[str, Any], answer: Answer) -> None:
        """Answer one request."""
        self.close_connection = True
        if isinstance(answer, int):
            self._whole(answer, provider.error(answer, ERRORS.get(answer, "not now")))
        elif answer == "overflow":
            self._whole(400, provider.error(400, FULL[provider.wire]))
        elif answer == "html":
            self._send(200, "text/html", page := b"<html>Sign in</html>", len(page))
        elif body.get("stream"):
            self._stream(provider, answer)
        else:
            data = json.dumps(provider.whole(provider.speaks(answer))).encode()
            if answer == "cut":
                self._send(200, "application/json", data[:20], len(data))
            elif answer == "silent":
                self._send(200, "application/json", b"", None)
                self._hold(provider, b" ")
            else:
                self._send(200, "application/json", data, len(data))

    def _stream(self, provider: FailingProvider, answer: Answer) -> None:
        said = provider.speaks(answer)
        data: list[bytes] = []
        for number, (name, piece) in enumerate(provider.pieces(said)):
            about = {"type": name, "sequence_number": number, **piece} if name else piece
            line = f"event: {name}\n" if name else ""
            data.append(f"{line}data: {json.dumps(about)}\n\n".encode())
        if provider.wire == "chat":
            data.append(b"data: [DONE]\n\n")
        if answer in ("cut", "silent"):
            del data[-2:]
        self._send(200, "text/event-stream", b"".join(data), None)
        if answer == "silent":
            self._hold(provider, b": ping\n\n")

    def _whole(self, status: int, value: Any) -> None:
        self._send(status, "application/json", data := json.dumps(value).encode(), len(data))

    def _send(self, status: int, kind: str, data: bytes, length: int | None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        if length is not None:
            self.send_header("content-length", str(length))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _hold(self, provider: FailingProvider, piece: bytes) -> None:
        """Keep the connection open with what is no content, until the client leaves."""
        while not provider.over.wait(0.02):
            try:
                self.wfile.write(piece)
                self.wfile.flush()
            except OSError:
                return


def _bound(port: int) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind(("127.0.0.1", port))
    return found


def _items(said: _Said, number: int) -> list[dict[str, Any]]:
    status = "completed" if said.reason in ("stop", "tool_calls") else "incomplete"
    if said.call:
        call = {"type": "function_call", "id": f"fc{number}", "call_id": f"c{number}", "name": TOOL}
        return [{**call, "arguments": said.call, "status": status}]
    part = {"type": "output_text", "text": said.text, "annotations": []}
    return [{"type": "message", "id": f"m{number}", "role": "assistant", "status": status, "content": [part]}]


def _blocks(said: _Said, number: int) -> list[dict[str, Any]]:
    if said.call:
        return [{"type": "tool_use", "id": f"c{number}", "name": TOOL, "input": json.loads(said.call)}]
    return [{"type": "text", "text": said.text}]


def _stop_reason(said: _Said) -> str:
    return {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}.get(said.reason, "end_turn")


@contextmanager
def failing_provider(wire: Wire) -> Iterator[FailingProvider]:
    """Serve one wire until the end of the block."""
    provider = FailingProvider(wire)
    try:
        yield provider
    finally:
        provider.close()
