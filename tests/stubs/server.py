"""The HTTP side of both provider stubs: a threaded server, the record of requests, and the stub as a process."""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, ClassVar, Self, cast
from urllib.parse import urlsplit

from .script import Answer, Failure, Malformed, Player, RequestView, Script, ScriptExhausted, Turn


@dataclass(frozen=True)
class Event:
    """One server-sent event; without a name only its data is sent, as OpenAI does."""

    data: Mapping[str, Any] | str
    name: str | None = None

    def encode(self) -> bytes:
        """The event as it goes over the wire."""
        text = self.data if isinstance(self.data, str) else json.dumps(self.data, ensure_ascii=False)
        return ((f"event: {self.name}\n" if self.name else "") + f"data: {text}\n\n").encode()


@dataclass(frozen=True)
class Reply:
    """What the server sends: either `body` or, if there are any, `events`; `cut` stops in the middle without an end."""

    status: int = 200
    body: bytes = b""
    events: Sequence[Event] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = "application/json"
    cut: bool = False


class StubServer(ABC):
    """A provider's API on 127.0.0.1, answering from a script; a context manager that may be entered once.

    Args:
        script: What to answer.
        host: Address to listen on.
        port: Port to listen on; 0 lets the system choose.
        check: Refuse with the provider's own 400 what the real API refuses: a tool call without its result, a result
            without its call, two tools of one name. Refused requests are recorded and use up no turn.

    Attributes:
        requests: The decoded body of every request to the API's path, in order; `{}` where it was no JSON object.
        bodies: The same bodies as bytes, at the same indexes.
        headers: Their headers, names in lower case, at the same indexes.
        statuses: The HTTP status of each answer, in the order in which the answers were ready.
        strays: Requests that went elsewhere, as `METHOD /path`; they got a 404.

    Raises:
        Exception: On leaving, the first error that a callable turn raised, unless another error is on its way: an
            assertion inside a turn fails the test and not only the request.
    """

    path: ClassVar[str]
    prefix: ClassVar[str]

    def __init__(self, script: Script, *, host: str = "127.0.0.1", port: int = 0, check: bool = True) -> None:
        self.player: Player = script.play()
        self.requests: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.statuses: list[int] = []
        self.strays: list[str] = []
        self._check = check
        self._address = (host, port)
        self._lock = threading.Lock()
        self._record: Path | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; raises `RuntimeError` before the stub is entered."""
        if self._server is None:
            raise RuntimeError(f"{type(self).__name__} is not running: use it in a with statement")
        return self._server.server_address[1]

    @property
    def base_url(self) -> str:
        """What a client takes as base URL."""
        return f"http://{self._address[0]}:{self.port}{self.prefix}"

    @property
    @abstractmethod
    def env(self) -> dict[str, str]:
        """Environment variables that point a subprocess's client at this stub, and past any proxy."""

    def __enter__(self) -> Self:
        if self._server is not None:
            raise RuntimeError(f"{type(self).__name__} is running already")
        self._server = _Server(self._address, self)
        # serve_forever looks for a shutdown request this often (seconds); its default of 0.5 would be felt in tests.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name=type(self).__name__)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.hang_up()
            self._server.server_close()
        if error is None and self.player.errors:
            raise self.player.errors[0]

    def record_to(self, path: Path) -> None:
        """Also append every request body to a file, one JSON document a line."""
        self._record = path

    @abstractmethod
    def error(self, status: int, message: str) -> dict[str, Any]:
        """The provider's error JSON."""

    @abstractmethod
    def refusal(self, body: Mapping[str, Any]) -> str | None:
        """Why the real API would answer 400, or None."""

    @abstractmethod
    def authorized(self, headers: Mapping[str, str]) -> bool:
        """Whether the request carries a key where the provider wants it; any key will do."""

    @abstractmethod
    def view(self, body: Mapping[str, Any]) -> RequestView:
        """The request in the shape that callable turns see."""

    @abstractmethod
    def complete(self, turn: Turn, body: Mapping[str, Any], prompt_chars: int) -> dict[str, Any]:
        """The answer as one JSON document."""

    @abstractmethod
    def stream(self, turn: Turn, body: Mapping[str, Any], prompt_chars: int) -> Iterable[Event]:
        """The answer as events."""

    def handle(self, method: str, target: str, headers: Mapping[str, str], raw: bytes) -> Reply:
        """Answer one request and record it."""
        path = urlsplit(target).path
        if method != "POST" or path != self.path:
            with self._lock:
                self.strays.append(f"{method} {path}")
            return self._refuse(404, f"Invalid URL ({method} {path}): this stub serves POST {self.path} only")
        body, problem = _decode(raw)
        with self._lock:
            self.bodies.append(raw)
            self.requests.append(body)
            self.headers.append(dict(headers))
            if self._record is not None:
                with self._record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(body, ensure_ascii=False) + "\n")
        reply = self._answer(headers, body, problem, raw)
        with self._lock:
            self.statuses.append(reply.status)
        return reply

    def _answer(self, headers: Mapping[str, str], body: dict[str, Any], problem: str | None, raw: bytes) -> Reply:
        if not self.authorized(headers):
            return self._refuse(401, "The request carries no API key.")
        problem = problem or _shape(body)
        if problem is None:
            try:
                problem = self.refusal(body) if self._check else None
                view = self.view(body)
            except (AttributeError, KeyError, TypeError) as error:
                problem = f"The request is not of the API's shape: {error!r}"
            else:
                if problem is None:
                    return self._play(view, body, len(raw))
        return self._refuse(400, problem)

    def _play(self, view: RequestView, body: dict[str, Any], chars: int) -> Reply:
        # Trying again cannot help in either case, so the SDKs are told not to.
        headers = {"x-should-retry": "false"}
        try:
            return self._reply(self.player.answer(view), body, chars)
        except ScriptExhausted as error:
            return self._refuse(500, f"{type(self).__name__}: {error}", headers)
        except Exception as error:  # raised again when the stub is left
            if error not in self.player.errors:
                self.player.errors.append(error)
            text = "".join(traceback.format_exception_only(error)).strip()
            return self._refuse(500, f"{type(self).__name__}: turn {len(self.player.views) - 1} raised {text}", headers)

    def _reply(self, answer: Answer, body: dict[str, Any], chars: int) -> Reply:
        if isinstance(answer, Failure):
            return self._refuse(answer.status, answer.message, answer.headers)
        streamed = bool(body.get("stream"))
        content_type = "text/event-stream; charset=utf-8" if streamed else "application/json"
        turn = answer.turn if isinstance(answer, Malformed) else answer
        if isinstance(answer, Malformed) and answer.how != "cut":
            wrong = "{ this is not JSON" if answer.how == "not-json" else {"unexpected": "shape"}
            if streamed:
                return Reply(events=[Event(wrong)], content_type=content_type)
            text = wrong if isinstance(wrong, str) else json.dumps(wrong)
            return Reply(body=text.encode(), content_type=content_type)
        cut = isinstance(answer, Malformed)
        if streamed:
            return Reply(events=list(self.stream(turn, body, chars)), content_type=content_type, cut=cut)
        return Reply(body=json.dumps(self.complete(turn, body, chars), ensure_ascii=False).encode(), cut=cut)

    def _refuse(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> Reply:
        return Reply(status, json.dumps(self.error(status, message)).encode(), headers=headers or {})


class _Server(ThreadingHTTPServer):
    # Threads are joined on close, so no answer is still being written when a test ends.
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], stub: StubServer) -> None:
        self.stub = stub
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End connections whose client sends nothing, so that joining their threads cannot wait for ever."""
        with self._guard:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # the client was faster
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that cancels closes the connection while it is written to: part of what tests do on purpose.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def stub(self) -> StubServer:
        return cast("_Server", self.server).stub

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._send(self.stub.handle(self.command, self.path, headers, raw))

    do_GET = do_PUT = do_PATCH = do_DELETE = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the record is in the stub."""

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("content-type", reply.content_type)
        self.send_header("x-request-id", f"req_{len(self.stub.bodies)}")
        # One request a connection: a client's pool holds no open socket when its event loop or the test ends.
        self.send_header("connection", "close")
        if not reply.events:
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body[: len(reply.body) // 2] if reply.cut else reply.body)
            return
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        events = reply.events[: max(1, len(reply.events) // 2)] if reply.cut else reply.events
        for event in events:
            data = event.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        if not reply.cut:
            self.wfile.write(b"0\r\n\r\n")


def _decode(raw: bytes) -> tuple[dict[str, Any], str | None]:
    try:
        body = json.loads(raw)
    except ValueError as error:
        return {}, f"We could not parse the JSON body of your request: {error}"
    if not isinstance(body, dict):
        return {}, "The body of the request must be a JSON object."
    return cast("dict[str, Any]", body), None


def _shape(body: Mapping[str, Any]) -> str | None:
    if not isinstance(body.get("model"), str):
        return "you must provide a model parameter"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "messages: at least one message is required"
    return None


def serve(stub_type: type[StubServer], argv: Sequence[str] | None = None) -> int:
    """Run a stub as a process until it is told to stop (SIGTERM, SIGINT) or its time is up.

    Args:
        stub_type: Which provider.
        argv: Arguments without the program's name; None means those of this process.

    Returns:
        The exit status: 0, or 1 if more requests came than the script has turns.
    """
    parser = argparse.ArgumentParser(description=stub_type.__doc__)
    parser.add_argument("--script", required=True, type=Path, help="JSON list of turns")
    parser.add_argument("--port-file", required=True, type=Path, help="written, whole, when the port is listened on")
    parser.add_argument("--record", type=Path, help="append each request body to this file, one JSON document a line")
    parser.add_argument("--port", type=int, default=0, help="default: chosen by the system")
    parser.add_argument("--max-seconds", type=float, default=900, help="stop by itself, should nobody do it")
    options = parser.parse_args(argv)
    try:
        script = Script.from_file(options.script)
    except (OSError, ValueError) as error:
        parser.error(f"--script {options.script}: {error}")
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    with stub_type(script, port=options.port) as stub:
        if options.record is not None:
            stub.record_to(options.record)
        # A reader that waits for the file never sees half a number.
        part = options.port_file.with_name(options.port_file.name + ".part")
        part.write_text(f"{stub.port}\n", encoding="utf-8")
        os.replace(part, options.port_file)
        print(stub.base_url, flush=True)
        stop.wait(options.max_seconds)
    return int(len(stub.player.views) > len(script.turns))
