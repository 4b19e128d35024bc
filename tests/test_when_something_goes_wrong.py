"""Every way in which a request can end, at every interface that is a column here: what a user sees, and what is kept.

A column is one function. The table of docs/when-something-goes-wrong.md is made of what the cells show.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest
from deep_sessions import AgentDeps, DeepAgent, MemoryStore, as_agent_error, end_of_response
from deep_sessions.fold import fold
from deep_sessions.requests import breaker
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from deep_core import Kernel, create_default_deps
from tests.environments import REPOSITORY

PAGE = REPOSITORY / "docs/when-something-goes-wrong.md"
CONFIG = {"model": {"retry": {"backoff_ms": 1, "max_wait_ms": 50}, "timeout_ms": 300}}


class Row(NamedTuple):
    """How a server answers, and what follows.

    Attributes:
        name: for people.
        answers: (status, finish reason or body); None closes the connection, "silent" only keeps it open.
        reason: `finish_reason`.
        code: of a failed run; "" for one that completed.
        sent: how often the request was sent.
    """

    name: str
    answers: list[Any]
    reason: str
    code: str
    sent: int


ROWS = (
    Row("the model ends its answer", ["stop"], "stop", "", 1),
    Row("the answer is cut at its limit", ["length"], "length", "", 1),
    Row("a content filter ends it", ["content_filter"], "filtered", "", 1),
    Row("the connection breaks, then works", ["cut", "stop"], "stop", "", 2),
    Row("the connection breaks again and again", ["cut"], "incomplete", "cut", 3),
    Row("the provider is busy, then works", [429, 503, "stop"], "stop", "", 3),
    Row("the body is a page of a proxy", ["html"], "transient", "garbled", 3),
    Row("the server only keeps the connection open", ["silent"], "transient", "timed_out", 3),
    Row("the request is larger than the window", [(400, "context_length_exceeded")], "overflow", "window_full", 1),
    Row("the key is wrong", [(401, "invalid key")], "permanent", "unauthorized", 1),
    Row("the model does not exist", [(404, "no such model")], "permanent", "unknown_model", 1),
)


@contextmanager
def provider(*answers: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server of Chat Completions; the last answer is given again and again."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_GET(self) -> None:
            self.send_error(404)

        def send(self, status: int, kind: str, data: bytes, *, length: int | None = None) -> None:
            self.close_connection = True
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("connection", "close")
            if length is not None:
                self.send_header("content-length", str(length))
            self.end_headers()
            self.wfile.write(data)
            self.wfile.flush()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            bodies.append(body)
            answer = answers[min(len(bodies), len(answers)) - 1]
            if isinstance(answer, int):
                answer = (answer, "busy")
            if isinstance(answer, tuple):
                data = json.dumps({"error": {"message": answer[1], "code": answer[1]}}).encode()
                return self.send(answer[0], "application/json", data, length=len(data))
            if answer == "html":
                return self.send(200, "text/html", page := b"<html>Sign in</html>", length=len(page))
            head = {"id": "1", "created": 1, "model": "m"}
            said = {"role": "assistant", "content": "Half of it"}
            if body.get("stream"):
                first = {**head, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": said}]}
                self.send(200, "text/event-stream", b"data: " + json.dumps(first).encode() + b"\n\n")
                if answer == "cut":
                    return None
                if answer == "silent":
                    return self.hold(b": ping\n\n")
                first["choices"] = [{"index": 0, "delta": {}, "finish_reason": answer}]
                self.wfile.write(b"data: " + json.dumps(first).encode() + b"\n\ndata: [DONE]\n\n")
                return None
            whole = {"choices": [{"index": 0, "message": said, "finish_reason": answer}], "object": "chat.completion"}
            data = json.dumps({**head, **whole}).encode()
            if answer == "cut":
                return self.send(200, "application/json", data[:20], length=len(data))
            if answer == "silent":
                self.send(200, "application/json", b"")
                return self.hold(b" ")
            return self.send(200, "application/json", data, length=len(data))

        def hold(self, piece: bytes) -> None:
            while not over.wait(0.02):
                try:
                    self.wfile.write(piece)
                    self.wfile.flush()
                except OSError:
                    return

    over = threading.Event()
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}/v1", bodies
    finally:
        over.set()
        running.shutdown()
        thread.join()
        running.server_close()


class Seen(NamedTuple):
    """What a cell shows.

    Attributes:
        reason: how the request ended.
        code: of the error.
        text: the answer.
        prompts: what the next request has of the user.
    """

    reason: str | None
    code: str
    text: str
    prompts: int


def model_at(url: str) -> OpenAIChatModel:
    return OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="none"))


async def embedded(url: str, streams: bool) -> Seen:
    """`agent.run`, as any application calls it."""
    with Kernel(read_config=False, config={"agent": CONFIG}) as kernel:
        agent, deps = kernel.create_agent(model_at(url), backend="memory"), create_default_deps(kernel=kernel)
        try:
            if streams:
                async with agent.run_stream_events("go", deps=deps) as events:
                    async for _ in events:
                        pass
                result = events.result
                assert result is not None
            else:
                result = await agent.run("go", deps=deps)
        except Exception as error:
            known = as_agent_error(error)
            return Seen(getattr(getattr(known, "end", None), "kind", None), known.code, "", 0)
        return Seen(end_of_response(result.response).kind, "", str(result.output), 0)


async def session(url: str, streams: bool) -> Seen:
    """A `DeepAgent` with a store: the message stays, whatever happens."""
    store = MemoryStore()
    deps = AgentDeps(model=model_at(url), kernel=Kernel(read_config=False), session_store=store, runtime="memory")
    agent = await DeepAgent.create(config=CONFIG, deps=deps)
    if streams:
        result: Any = [item async for item in agent.run_stream("go", session_id="s")][-1]
    else:
        result = await agent.run("go", session_id="s")
    kept = fold(await store.load("s"))
    assert kept.run is not None
    assert kept.run.status == result.status
    return Seen(result.finish_reason, result.code, result.message or "", 0)


COLUMNS: tuple[Callable[[str, bool], Awaitable[Seen]], ...] = (embedded, session)


@pytest.fixture(autouse=True)
def _no_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker, "_BREAKERS", {})


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.__name__)
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_cell(row: Row, streams: bool, column: Callable[[str, bool], Any]) -> None:
    with provider(*row.answers) as (url, bodies):
        seen = asyncio.run(column(url, streams))
    assert (seen.reason, seen.code) == (row.reason, row.code)
    assert len(bodies) == row.sent
    assert seen.text == ("" if row.code else "Half of it")


def test_the_table_of_the_page_is_what_the_cells_show() -> None:
    lines = [
        f"| {row.name} | `{row.reason}` | {f'`{row.code}`' if row.code else ''} | {row.sent} |"
        f" {'the message; the run can be tried again' if row.code else 'message and answer'} |"
        for row in ROWS
    ]
    assert "\n".join(lines) in PAGE.read_text("utf-8")
