"""Twenty servers that are nearly OpenAI, and fifteen quirks of such servers. Each says where its dialect is from."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_ai import Agent, AgentRunResultEvent

Body = dict[str, Any]
NOTHING: Body = {}


class Dialect(NamedTuple):
    """A server's exchanges.

    Attributes:
        source: who recorded it, in which version. What others recorded was read for its fields, values and order.
        models: what a GET answers, by its path.
        whole: what stands around a whole reply.
        chunk: what stands around a piece of one.
        kind: what it is recognized as, with nothing known but its address.
        has_tools: what it says about tools.
        choice: what stands beside a message or a delta.
        message: what a message always has.
        delta: what a delta always has.
        opening: the first chunk, before the answer.
        running: the finish reason of a chunk that is not the last.
        pieces: of a call in a stream: `whole`, `rest` (its name, then its arguments), `blank` (the same, with an empty
            name in each piece), or `named` (its name and an empty id in each piece).
    """

    source: str
    models: Mapping[str, Body]
    whole: Body
    chunk: Body
    kind: str
    has_tools: bool | None = None
    choice: Body = NOTHING
    message: Body = NOTHING
    delta: Body = NOTHING
    opening: Body | None = None
    running: Any = None
    pieces: str = "whole"


def _models(owner: str | None, **more: Any) -> Body:
    owned = {} if owner is None else {"owned_by": owner}
    return {"object": "list", "data": [{"id": "m", "object": "model", "created": 1_770_000_000, **owned, **more}]}


LLAMA_CPP = Path(__file__).parent / "llama_cpp.json"
REAL: Body = json.loads(LLAMA_CPP.read_text(encoding="utf-8"))
"""Exchanges with a real server: see `tests.lab.exchanges`."""
RECORDINGS = Path(__file__).parent / "recordings"


def recordings_in(folder: Path) -> dict[str, Body]:
    """What real programs answered: `plain`, `call`, `calls` and, where they had one, `error`. Each file says its
    program's version, how it was recorded and what was altered; `recording.py` writes one."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


RECORDED: Mapping[str, Body] = recordings_in(RECORDINGS)
HEAD: Body = {"id": "chatcmpl-1", "created": 1_770_000_000, "model": "m"}
WHOLE: Body = {**HEAD, "object": "chat.completion"}
CHUNK: Body = {**HEAD, "object": "chat.completion.chunk"}
FINGERPRINT: Body = {"system_fingerprint": "fp"}
LOGPROBS: Body = {"logprobs": None}
FILTERS: Body = {"content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}
STACK = "llama-stack, tests/integration/"
TGI = (
    "text-generation-inference, integration-tests/models/__snapshots__/test_tools_llama/test_flash_llama_grammar_tools_"
)


def dialect_of(found: Body, kind: str, pieces: str = "rest") -> Dialect:
    """A dialect with what stands around a program's recorded answers."""
    plain: Body = found["exchanges"]["plain"]
    whole, first = plain["whole"], plain["chunks"][0]
    said, streamed = whole["choices"][0], first["choices"][0]

    def empty(fields: Body) -> Body:
        return {key: value for key, value in fields.items() if not value}

    return Dialect(
        f"{found['version']}: recorded here",
        found["get"],
        whole,
        first,
        kind,
        choice={key: value for key, value in said.items() if key not in ("index", "message", "finish_reason")},
        message=empty(said["message"]),
        delta=empty(streamed["delta"]),
        running=streamed.get("finish_reason"),
        pieces=pieces,
    )


DIALECTS: Mapping[str, Dialect] = {
    "vllm": dialect_of(RECORDED["vllm"], "vllm"),
    "llama.cpp": Dialect(
        f"{REAL['version']}: recorded here",
        REAL["get"],
        REAL["whole"],
        REAL["chunks"][0],
        "llama.cpp",
        has_tools=False,
    ),
    "ollama": Dialect(
        f"no version, March 2026: {STACK}agents/recordings/00cf12dd….json; /api/ps by hand",
        {"/v1/models": _models("library"), "/api/ps": {"models": [{"name": "m", "context_length": 4096}]}},
        {**WHOLE, "system_fingerprint": "fp_ollama"},
        {**CHUNK, "system_fingerprint": "fp_ollama"},
        "ollama",
        delta={"role": "assistant", "content": ""},
    ),
    "lmstudio": Dialect(
        "0.3.35: lmstudio-bug-tracker, issues 1318 and 649; its two lists of models by hand",
        {
            "/v1/models": {
                "data": [{"id": "m", "object": "model", "owned_by": "organization_owner"}],
                "object": "list",
            },
            "/api/v0/models": {
                "object": "list",
                "data": [{"id": "m", "state": "loaded", "max_context_length": 32768, "loaded_context_length": 4096}],
            },
        },
        {**WHOLE, "stats": {}, "system_fingerprint": "m"},
        {**CHUNK, "system_fingerprint": "m"},
        "lmstudio",
        choice=LOGPROBS,
        message={"reasoning_content": "", "tool_calls": []},
        pieces="blank",
    ),
    "sglang": Dialect(
        "no version, November 2025: README of a fork of swiss-ai/torrent; streams and the list of models by hand",
        {"/v1/models": _models("sglang", root="m", max_model_len=8192)},
        {**WHOLE, "metadata": {"weight_version": "default"}},
        CHUNK,
        "sglang",
        choice={**LOGPROBS, "matched_stop": None},
        message={"reasoning_content": None, "tool_calls": None},
        delta={"role": None, "content": None, "reasoning_content": None, "tool_calls": None},
        running="",
        pieces="rest",
    ),
    "litellm": dialect_of(RECORDED["litellm"], "unknown"),  # it calls itself openai
    "portkey": dialect_of(RECORDED["portkey"], "llama.cpp"),  # it passes on what the server behind it says
    "openrouter": Dialect(
        "November 2025 and February 2026: pydantic-ai, tests/models/cassettes/test_openrouter/"
        "test_openrouter_tool_calling.yaml and …_stream_with_native_options.yaml; the list of models by hand",
        {"/v1/models": _models(None, context_length=8192)},
        {**WHOLE, "id": "gen-1", "provider": "X"},
        {**CHUNK, "id": "gen-1", "provider": "X"},
        "unknown",
        choice={**LOGPROBS, "native_finish_reason": None},
        message={"reasoning": None, "refusal": None},
        delta={"role": "assistant", "content": ""},
    ),
    "azure": Dialect(
        f"API v1, 2026: {STACK}responses/recordings/12395916….json",
        {},
        {**WHOLE, "prompt_filter_results": [{"prompt_index": 0, **FILTERS}]},
        {**CHUNK, **FINGERPRINT, "service_tier": None, "obfuscation": "x"},
        "unknown",
        choice={**LOGPROBS, **FILTERS},
        message={"refusal": None, "annotations": []},
        opening={"id": "", "object": "", "created": 0, "model": "", "prompt_filter_results": [{"prompt_index": 0}]},
        pieces="rest",
    ),
    "tgi": Dialect(
        f"3.1.2: {TGI}nostream.json, 3.1.1: …sea_creatures_stream_required.json; the list of models by hand",
        {"/v1/models": _models("m")},
        {**WHOLE, "id": "", "system_fingerprint": "3.1.2-dev0-native"},
        {**CHUNK, "id": "", "system_fingerprint": "3.1.2-dev0-native"},
        "unknown",
        choice=LOGPROBS,
        delta={"role": "assistant", "content": None},
        pieces="named",
    ),
    "mlx_lm": dialect_of(RECORDED["mlx_lm"], "unknown", "whole"),
    "transformers": dialect_of(RECORDED["transformers"], "unknown", "whole"),
    "mlflow": dialect_of(RECORDED["mlflow"], "unknown"),
    "lm_proxy": dialect_of(RECORDED["lm_proxy"], "unknown"),
    "sglang_router": dialect_of(RECORDED["sglang_router"], "unknown"),
    "litserve": dialect_of(RECORDED["litserve"], "unknown", "whole"),
    "llama_stack": dialect_of(RECORDED["llama_stack"], "unknown"),
    "nemoguardrails": dialect_of(RECORDED["nemoguardrails"], "llama.cpp"),
    "koboldcpp": Dialect(
        "1.76, no exchange: its source, koboldcpp.py",
        {"/v1/models": _models("koboldcpp", permission=[], root="koboldcpp")},
        {**WHOLE, "id": "chatcmpl-A1"},
        {**CHUNK, "id": "koboldcpp"},
        "unknown",
        message={"tool_calls": []},
        delta={"role": "assistant", "content": ""},
        running="null",
    ),
    "gateway": Dialect(
        "no server: everything that may be wrong around a reply, by hand",
        {},
        {"choices": []},
        {"object": "", "id": None, "created": "", "model": None},
        "unknown",
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
    said = {"role": "assistant", "content": None, **dialect.message, **message}
    choice = {"index": 0, **dialect.choice, "message": said, "finish_reason": finish}
    return {**dialect.whole, "choices": [choice], "usage": usage}


def chunks(dialect: Dialect, message: Body, finish: Any, usage: Any) -> list[Body]:
    """The same reply as a stream, with the usage in every chunk, which grows."""
    calls: list[Body] = message.get("tool_calls") or []
    deltas = [{"content": message["content"]}] if "content" in message else []
    deltas += [{"tool_calls": [piece]} for at, each in enumerate(calls) for piece in _pieces(dialect, at, each)]
    growing = {"prompt_tokens": 40, "completion_tokens": 1} if usage == USAGE else usage

    def chunk(delta: Body, reason: Any, counted: Any) -> Body:
        choice = {"index": 0, **dialect.choice, "delta": {**dialect.delta, **delta}, "finish_reason": reason}
        return {**dialect.chunk, "choices": [choice], "usage": counted}

    out = [] if dialect.opening is None else [{**dialect.opening, "choices": []}]
    out += [chunk(delta, dialect.running, growing) for delta in [{"role": "assistant"}, *deltas]]
    return [*out, chunk({}, finish, usage), {**dialect.chunk, "choices": [], "usage": usage}]


def _pieces(dialect: Dialect, at: int, call: Body) -> list[Body]:
    """A call as a server streams it."""
    call = {"index": at, **call}
    function: Body = call["function"]
    arguments: Any = function.get("arguments")
    if dialect.pieces == "whole" or not isinstance(arguments, str):
        return [call]
    half = len(arguments) // 2
    said = [{"arguments": arguments[:half]}, {"arguments": arguments[half:]}]
    if dialect.pieces == "named":
        return [{**call, "function": {**function, **part}} for part in said]
    name = {"name": ""} if dialect.pieces == "blank" else {}
    parts = [{"index": call["index"], "type": "function", "function": {**name, **part}} for part in said]
    return [{**call, "function": {"name": function["name"]}}, *parts]


class Answer(NamedTuple):
    """What a server answers to one request: JSON, or a stream: its chunks, or its text."""

    body: Body | list[Body] | bytes
    status: int = 200
    done: bool = True


def _listed(known: Mapping[str, Body], path: str) -> Answer:
    return Answer(known.get(path, {}), 200 if path in known else 404)


@contextmanager
def serving(
    answer: Callable[[Body, int], Answer],
    get: Mapping[str, Body] | Callable[[str], Answer] | None = None,
    port: int = 0,
) -> Iterator[str]:
    """Serve; give the base URL.

    Args:
        answer: makes the answer to the body of the request with this number, from 1 on.
        get: what a GET answers, by its path, else 404; or what makes the answer.
        port: where; 0 for a free one.
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
            if isinstance(made.body, bytes):
                self._send(made.status, "text/event-stream", made.body)
                return
            lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in made.body] + ["data: [DONE]\n\n"] * made.done
            self._send(made.status, "text/event-stream", "".join(lines).encode())

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.01], daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def ran(model: Any, streamed: bool) -> tuple[list[str], Any]:
    """Run an agent with two tools; give what they were called with, and the result."""
    made: list[str] = []
    agent = Agent(model)

    @agent.tool_plain(sequential=True)
    def ping(text: str) -> str:
        made.append(text)
        return "ok"

    @agent.tool_plain(sequential=True)
    def pong() -> str:
        made.append("pong")
        return "ok"

    if not streamed:
        return made, await agent.run("go")
    result: Any = None
    async with agent.run_stream_events("go") as events:
        async for event in events:
            if isinstance(event, AgentRunResultEvent):
                result = event.result
    return made, result
