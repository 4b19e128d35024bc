"""Twelve servers that are nearly OpenAI, in the version named, and fifteen quirks of such servers.

llama.cpp is recorded (tests/test_real_models.py compares it with the server); the others are written by hand.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

Body = dict[str, Any]


class Dialect(NamedTuple):
    """A server's exchanges.

    Attributes:
        version: that answers so.
        models: what a GET answers, by its path.
        whole: what stands around a whole reply.
        chunk: what stands around a piece of one.
        kind: what it is recognized as, with nothing known but its address.
        has_tools: what it says about tools.
    """

    version: str
    models: Mapping[str, Body]
    whole: Body
    chunk: Body
    kind: str
    has_tools: bool | None = None


def _models(owner: str | None, **more: Any) -> Body:
    owned = {} if owner is None else {"owned_by": owner}
    return {"object": "list", "data": [{"id": "m", "object": "model", "created": 1_770_000_000, **owned, **more}]}


LLAMA_CPP = Path(__file__).parent / "llama_cpp.json"
REAL: Body = json.loads(LLAMA_CPP.read_text(encoding="utf-8"))
"""Exchanges with a real server: see `tests.lab.exchanges`."""
HEAD: Body = {"id": "chatcmpl-1", "created": 1_770_000_000, "model": "m"}
WHOLE: Body = {**HEAD, "object": "chat.completion"}
CHUNK: Body = {**HEAD, "object": "chat.completion.chunk"}
DIALECTS: Mapping[str, Dialect] = {
    "vllm": Dialect(
        "0.11.2",
        {"/v1/models": _models("vllm", root="m", max_model_len=8192)},
        {**WHOLE, "prompt_logprobs": None, "kv_transfer_params": None, "service_tier": None},
        CHUNK,
        "vllm",
    ),
    "llama.cpp": Dialect(REAL["version"], REAL["get"], REAL["whole"], REAL["chunks"][0], "llama.cpp", has_tools=False),
    "ollama": Dialect(
        "0.12.11",
        {"/v1/models": _models("library"), "/api/ps": {"models": [{"name": "m", "context_length": 4096}]}},
        {**WHOLE, "system_fingerprint": "fp_ollama"},
        {**CHUNK, "system_fingerprint": "fp_ollama"},
        "ollama",
    ),
    "lmstudio": Dialect(
        "0.3.31",
        {
            "/v1/models": _models("organization_owner"),
            "/api/v0/models": {"data": [{"id": "m", "loaded_context_length": 4096}]},
        },
        {**WHOLE, "stats": {}, "system_fingerprint": "m"},
        CHUNK,
        "lmstudio",
    ),
    "sglang": Dialect(
        "0.5.5", {"/v1/models": _models("sglang", max_model_len=8192)}, {**WHOLE, "metadata": {"w": 1}}, CHUNK, "sglang"
    ),
    "litellm": Dialect("1.79.3", {"/v1/models": _models("litellm")}, {**WHOLE, "service_tier": None}, CHUNK, "litellm"),
    "openrouter": Dialect(
        "2025-11", {"/v1/models": _models(None, context_length=8192)}, {**WHOLE, "provider": "X"}, CHUNK, "unknown"
    ),
    "azure": Dialect(
        "2024-10-21", {}, {**WHOLE, "prompt_filter_results": []}, {**CHUNK, "prompt_filter_results": []}, "unknown"
    ),
    "tgi": Dialect("3.3.6", {"/v1/models": _models("m")}, {**WHOLE, "system_fingerprint": "3.3.6"}, CHUNK, "unknown"),
    "mlx_lm": Dialect(
        "0.28.3",
        {"/v1/models": {"object": "list", "data": [{"id": "m"}]}},
        {**WHOLE, "created": 1.7e9},
        CHUNK,
        "unknown",
    ),
    "koboldcpp": Dialect("1.101", {"/v1/models": _models("koboldcpp")}, {**WHOLE, "created": None}, CHUNK, "unknown"),
    "gateway": Dialect(
        "none", {}, {"choices": []}, {"object": "", "id": None, "created": "", "model": None}, "unknown"
    ),
}
USAGE: Body = {"prompt_tokens": 40, "completion_tokens": 7, "total_tokens": 47}


def call(name: str, arguments: object, id: object = "c1", **more: Any) -> Body:
    """A tool call of a reply."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


class Quirk(NamedTuple):
    """Something that servers get wrong.

    Attributes:
        message: of the first reply.
        finish: its finish reason.
        usage: what it counts.
        ran: the calls that are made.
    """

    message: Body
    finish: Any = "tool_calls"
    usage: Any = USAGE
    ran: tuple[Any, ...] = ("a",)


QUIRKS: Mapping[str, Quirk] = {
    "arguments are an object": Quirk({"tool_calls": [call("ping", {"text": "a"})]}),
    "arguments are null": Quirk({"tool_calls": [call("pong", None)]}, ran=("pong",)),
    "arguments are absent": Quirk(
        {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "pong"}}]}, ran=("pong",)
    ),
    "the id is null": Quirk({"tool_calls": [call("ping", '{"text": "a"}', None)]}),
    "the id is absent": Quirk({"tool_calls": [{"function": {"name": "ping", "arguments": '{"text": "a"}'}}]}),
    "the id is a number": Quirk({"tool_calls": [call("ping", '{"text": "a"}', 7)]}),
    "ids are equal": Quirk(
        {"tool_calls": [call("ping", '{"text": "a"}', ""), call("ping", '{"text": "b"}', "")]}, ran=("a", "b")
    ),
    "all at index 0": Quirk(
        {"tool_calls": [call("ping", json.dumps({"text": t}), t, index=0) for t in "abc"]}, ran=("a", "b", "c")
    ),
    "all at index 0 without ids": Quirk(
        {"tool_calls": [call("ping", json.dumps({"text": t}), None, index=0) for t in "abc"]}, ran=("a", "b", "c")
    ),
    "finish is empty": Quirk({"tool_calls": [call("ping", '{"text": "a"}')]}, finish=""),
    "finish is stop": Quirk({"tool_calls": [call("ping", '{"text": "a"}')]}, finish="stop"),
    "finish is a word of its own": Quirk({"tool_calls": [call("ping", '{"text": "a"}')]}, finish="eos_token"),
    "usage is null": Quirk({"tool_calls": [call("ping", '{"text": "a"}')]}, usage=None),
    "usage holds null": Quirk(
        {"tool_calls": [call("ping", '{"text": "a"}')]}, usage={"prompt_tokens": None, "completion_tokens": 3.0}
    ),
    "content is an object": Quirk({"content": {"text": "hm"}, "tool_calls": [call("ping", '{"text": "a"}')]}),
}


def whole(dialect: Dialect, message: Body, finish: Any, usage: Any) -> Body:
    """A reply that is not streamed."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return {**dialect.whole, "choices": [choice], "usage": usage}


def chunks(dialect: Dialect, message: Body, finish: Any, usage: Any) -> list[Body]:
    """The same reply as a stream: a call a chunk, and the usage in every chunk, which grows."""
    calls: list[Body] = message.get("tool_calls") or []
    deltas = [{"content": message["content"]}] if "content" in message else []
    deltas += [{"tool_calls": [{"index": at, **each}]} for at, each in enumerate(calls)]
    growing = {"prompt_tokens": 40, "completion_tokens": 1} if usage == USAGE else usage
    out = [
        {**dialect.chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}], "usage": growing}
        for delta in [{"role": "assistant"}, *deltas]
    ]
    out.append({**dialect.chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage})
    return [*out, {**dialect.chunk, "choices": [], "usage": usage}]


class Answer(NamedTuple):
    """What a server answers to one request: JSON, or the chunks of a stream."""

    body: Body | list[Body]
    status: int = 200
    done: bool = True


def _listed(known: Mapping[str, Body], path: str) -> Answer:
    return Answer(known.get(path, {}), 200 if path in known else 404)


@contextmanager
def serving(
    answer: Callable[[Body, int], Answer], get: Mapping[str, Body] | Callable[[str], Answer] | None = None
) -> Iterator[str]:
    """Serve on a free port; give the base URL.

    Args:
        answer: makes the answer to the body of the request with this number, from 1 on.
        get: what a GET answers, by its path, else 404; or what makes the answer.
    """
    count = [0]

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            made = get(self.path) if callable(get) else _listed(get or {}, self.path)
            self._send(made.status, "application/json", json.dumps(made.body).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            count[0] += 1
            made = answer(body, count[0])
            if isinstance(made.body, dict):
                self._send(made.status, "application/json", json.dumps(made.body).encode())
                return
            lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in made.body] + ["data: [DONE]\n\n"] * made.done
            self._send(made.status, "text/event-stream", "".join(lines).encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
