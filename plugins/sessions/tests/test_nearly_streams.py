"""Streams of servers that are nearly a provider: cut anywhere, written in any legal way, or not at all like one."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, cast

import httpx2
import pytest
from anthropic import AsyncAnthropic
from deep_sessions.requests import repairing
from deep_sessions.requests.ends import end_of_error
from deep_sessions.requests.model import GuardedModel
from deep_sessions.requests.nearly import error_of
from deep_sessions.requests.nearly_anthropic import MESSAGES
from deep_sessions.requests.nearly_openai import CHAT
from deep_sessions.requests.nearly_responses import RESPONSES
from deep_sessions.requests.patience import Patience
from deep_sessions.requests.repairing import Repair
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from tests.drawn import many

pytestmark = pytest.mark.anyio
Body = dict[str, Any]
WIRES = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
SAID = "Grüße 🦔 [DONE]\u2028 ok"
GIVEN = {"text": "é🦔"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Desk:
    """An agent that sends each request once."""

    patience = Patience(max_attempts=1, wait=0.0)
    has_others = False

    async def report(self, *_: Any) -> None: ...
    async def shorter(self, *_: Any) -> None: ...


def chat(*, nearly: bool) -> list[Body]:
    """A text and a call, as Chat Completions streams them."""
    head: Body = {"id": None if nearly else "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    counted = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    call: Body = {"index": 0, "id": "c1", "type": "function", "function": {"name": "ping", "arguments": ""}}
    more: Body = {"index": 0, "function": {"arguments": json.dumps(GIVEN, ensure_ascii=False)}}
    deltas: list[Body] = [{"content": SAID[:7]}, {"content": SAID[7:]}, {"tool_calls": [call]}, {"tool_calls": [more]}]
    pieces = [{**head, "choices": [{"index": 0, "delta": each, "finish_reason": None}]} for each in deltas]
    end: Body = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    return [{**each, "usage": counted} if nearly else each for each in [*pieces, end]] + [
        {**head, "choices": [], "usage": counted}
    ]


def messages(*, nearly: bool) -> list[Body]:
    """The same, as Messages does."""
    counted: Any = None if nearly else {"input_tokens": 3, "output_tokens": 2}
    whole: Body = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": counted}
    call: Body = {"type": "tool_use", "id": None if nearly else "t1", "name": "ping", "input": {}}
    written = json.dumps(GIVEN, ensure_ascii=False)
    out: list[Body] = [{"type": "message_start", "message": whole}]
    for index, (block, pieces) in enumerate(
        [
            ({"type": "text", "text": ""}, [{"type": "text_delta", "text": each} for each in (SAID[:7], SAID[7:])]),
            (call, [{"type": "input_json_delta", "partial_json": each} for each in (written[:11], written[11:])]),
        ]
    ):
        out.append({"type": "content_block_start", "index": index, "content_block": block})
        out += [{"type": "content_block_delta", "index": index, "delta": each} for each in pieces]
        out.append({"type": "content_block_stop", "index": index})
    end: Body = {"stop_reason": "tool_calls" if nearly else "tool_use", "stop_sequence": None}
    return [
        *out,
        {"type": "message_delta", "delta": end, "usage": counted or {"output_tokens": 2}},
        {"type": "message_stop"},
    ]


def responses(*, nearly: bool) -> list[Body]:
    """The same, as Responses does."""
    frame: Body = {"id": "r1", "object": "response", "created_at": 1, "model": "m", "parallel_tool_calls": True}
    frame |= {"tool_choice": "auto", "tools": [], "usage": None, "output": []}
    part: Body = {"type": "output_text", "text": SAID, "annotations": []}
    said: Body = {"type": "message", "id": "i1", "role": "assistant", "status": "completed", "content": [part]}
    written = json.dumps(GIVEN, ensure_ascii=False)
    call: Body = {"type": "function_call", "id": None if nearly else "f1", "call_id": "c1", "name": "ping"}
    call |= {"arguments": written, "status": "completed"}
    text: Body = {"type": "response.output_text.delta", "item_id": "i1", "output_index": 0, "content_index": 0}
    args: Body = {"type": "response.function_call_arguments.delta", "item_id": call["id"], "output_index": 1}
    item = "response.output_item"
    out: list[Body] = [
        {"type": "response.created", "response": {**frame, "status": "in_progress"}},
        {"type": f"{item}.added", "output_index": 0, "item": {**said, "content": [], "status": "in_progress"}},
        *({**text, "delta": each, "logprobs": []} for each in (SAID[:7], SAID[7:])),
        {"type": f"{item}.done", "output_index": 0, "item": said},
        {"type": f"{item}.added", "output_index": 1, "item": {**call, "arguments": "", "status": "in_progress"}},
        *({**args, "delta": each} for each in (written[:11], written[11:])),
        {"type": f"{item}.done", "output_index": 1, "item": call},
        {"type": "response.completed", "response": {**frame, "status": "completed", "output": [said, call]}},
    ]
    return [{**each, "sequence_number": number} for number, each in enumerate(out)]


MADE = {"chat": chat, "messages": messages, "responses": responses}


class Style(NamedTuple):
    """How a stream is written.

    Attributes:
        end: of a line.
        blank: whether one follows a colon.
        comments: whether there are some.
        fields: whether events have an `id` and a `retry`.
        lines: whether an event has several lines of data.
        after: whether the name of an event follows its data.
        closed: whether the last event has its blank line.
    """

    end: str = "\n"
    blank: bool = True
    comments: bool = False
    fields: bool = False
    lines: bool = False
    after: bool = False
    closed: bool = True


def written(wire: str, events: Sequence[Body], style: Style) -> bytes:
    """A stream."""
    colon = ": " if style.blank else ":"
    blocks: list[str] = []
    texts = [json.dumps(each, ensure_ascii=False, indent=1 if style.lines else None) for each in events]
    texts += ["[DONE]"] * (wire == "chat")
    for number, text in enumerate(texts):
        data = [f"data{colon}{line}" for line in text.split("\n")]
        name = [f"event{colon}{events[number]['type']}"] if wire != "chat" else []
        block = [*data, *name] if style.after else [*name, *data]
        if style.fields:
            block = [f"id{colon}{number}", *block, f"retry{colon}100"]
        if style.comments:
            blocks.append(": keep-alive")
            block.insert(1, ":")
        blocks.append(style.end.join(block))
    if style.fields:
        blocks.insert(0, f"retry{colon}100")
    return (style.end * 2).join([*blocks, ""] if style.closed else blocks).encode()


async def in_pieces(said: bytes, cuts: Sequence[int]) -> AsyncIterator[bytes]:
    """A body as it comes from a network."""
    for begin, end in zip([0, *cuts], [*cuts, len(said)], strict=True):
        yield said[begin:end]


class Server:
    """A model whose answers are repaired, guarded as in an agent, and what it gets.

    Args:
        wire: its protocol.
    """

    def __init__(self, wire: str) -> None:
        self.answers: list[httpx2.Response] = []
        hooks: Any = {"request": [Repair(WIRES[wire])], "response": [Repair(WIRES[wire])]}
        self.http = http = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answered), event_hooks=hooks)
        model: Model[Any]
        if wire == "messages":
            anthropic = AsyncAnthropic(base_url="http://test", api_key="x", http_client=http, max_retries=0)
            model = AnthropicModel("m", provider=AnthropicProvider(anthropic_client=anthropic))
        else:
            openai = AsyncOpenAI(base_url="http://test/v1", api_key="x", http_client=cast("Any", http), max_retries=0)
            kind: Any = OpenAIChatModel if wire == "chat" else OpenAIResponsesModel
            model = kind("m", provider=OpenAIProvider(openai_client=openai))
        self.model = GuardedModel(model, cast("Any", Desk()), None)

    async def _answered(self, _: httpx2.Request) -> httpx2.Response:
        return self.answers.pop()

    async def read(self, said: bytes, cuts: Sequence[int] = (), **headers: str) -> list[Any]:
        """The text and the calls of a stream; how its request ended, and the words, for an error of ours."""
        kind = {"content-type": "text/event-stream"} | {key.replace("_", "-"): each for key, each in headers.items()}
        return await self.got(httpx2.Response(200, headers=kind, content=in_pieces(said, cuts)))

    async def got(self, answer: httpx2.Response) -> list[Any]:
        """The same, of an answer."""
        self.answers.append(answer)
        asked: Any = ([ModelRequest.user_text_prompt("go")], None, TOOLS)
        try:
            async with self.model.request_stream(*asked) as stream:
                _ = [each async for each in stream]
                found = stream.get()
        except Exception as error:
            if (end := end_of_error(error, in_request=True)) is None:
                raise
            return [end.kind, f"{end.words}: {error}"]
        return [found.text, [call.args_as_dict() for call in found.tool_calls]]


TOOLS = ModelRequestParameters(function_tools=[ToolDefinition(name="ping")])


WHOLE = [SAID, [GIVEN]]
styles = st.builds(
    Style, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), *[st.booleans()] * 4, closed=st.booleans()
)
every = pytest.mark.parametrize("nearly", [False, True], ids=["right", "nearly"])
wires = pytest.mark.parametrize("wire", WIRES)


@every
@wires
def test_a_stream_in_any_style_and_any_pieces_is_read_whole(wire: str, nearly: bool) -> None:
    events, server = MADE[wire](nearly=nearly), Server(wire)

    @settings(max_examples=many(15, 1000))
    @given(styles, st.data())
    def holds(style: Style, data: st.DataObject) -> None:
        said = written(wire, events, style)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(said)), max_size=20)))
        assert runner.run(server.read(said, cuts)) == WHOLE

    with asyncio.Runner() as runner:
        holds()


@every
@wires
def test_a_stream_that_comes_byte_by_byte_is_read_whole(wire: str, nearly: bool) -> None:
    server = Server(wire)
    with asyncio.Runner() as runner:
        for end in ("\n", "\r\n", "\r"):
            said = written(wire, MADE[wire](nearly=nearly), Style(end))
            assert runner.run(server.read(said, range(1, len(said)))) == WHOLE


@pytest.mark.slow
@every
@wires
def test_a_stream_that_ends_at_any_byte_is_whole_or_an_error(wire: str, nearly: bool) -> None:
    said, server = written(wire, MADE[wire](nearly=nearly), Style()), Server(wire)
    with asyncio.Runner() as runner:
        found = [runner.run(server.read(said[:length])) for length in range(0, len(said), many(41, 1))]
        found.append(runner.run(server.read(said)))
    assert {each[0] for each in found if each != WHOLE} <= {"incomplete", "transient"}
    assert found[-1] == WHOLE


# -- what servers and proxies do besides -----------------------------------------------------------------------------


async def one(wire: str, said: bytes, cuts: Sequence[int] = (), **headers: str) -> list[Any]:
    """What is read of one stream."""
    return await Server(wire).read(said, cuts, **headers)


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/x-ndjson", ""])
@pytest.mark.parametrize("begins", [b"", b"\xef\xbb\xbf", b"\n: hi\n\n"], ids=["plain", "BOM", "comment"])
@wires
async def test_a_stream_is_read_whatever_its_type_is(wire: str, kind: str, begins: bytes) -> None:
    said = begins + written(wire, MADE[wire](nearly=True), Style())
    assert await one(wire, said, range(1, 30), content_type=kind) == WHOLE


@wires
async def test_a_stream_is_read_though_it_is_packed(wire: str) -> None:
    said = gzip.compress(written(wire, MADE[wire](nearly=True), Style()))
    assert await one(wire, said, [9, 50, 60], content_encoding="gzip") == WHOLE
    for broken in (said[:-40], said[:30] + b"x" * 10 + said[40:]):
        assert (await one(wire, broken, content_encoding="gzip"))[0] == "incomplete"


@wires
async def test_events_without_blank_lines_between_them_are_read(wire: str) -> None:
    said = written(wire, MADE[wire](nearly=True), Style()).replace(b"\n\n", b"\n")
    assert await one(wire, said) == WHOLE


DEEP = b"[" * 100_000
UNREADABLE = {
    "empty": (b"", "begins with nothing"),
    "a page": (b"<html>Sign in</html>", "begins with <html>Sign in"),
    "a list": (b"[1]", "no JSON object"),
    "half a text": (b'{"id": "x", ', "no JSON object"),
    "deep": (DEEP, "no JSON object"),
    "no UTF-8": (b'{"id": "\xff"}', "no JSON object"),
}


@pytest.mark.parametrize("body", UNREADABLE)
@wires
async def test_an_answer_that_is_no_json_is_said_and_asked_for_again(wire: str, body: str) -> None:
    said, words = UNREADABLE[body]
    for kind in ("text/html", "application/json"):
        found = await one(wire, said, content_type=kind)
        assert found[0] == "transient"
        assert words in found[1]


@pytest.mark.parametrize("piece", [b"data: {", b"data: ok", b'data: {"x": "\xff"}', b"data: " + DEEP])
@wires
async def test_a_piece_that_cannot_be_read_is_said_and_asked_for_again(wire: str, piece: bytes) -> None:
    first, rest = written(wire, MADE[wire](nearly=True), Style()).split(b"\n\n", 1)
    found = await one(wire, b"\n\n".join([first, piece, rest]))
    assert found[0] == "transient"
    assert "cannot be read" in found[1]


@wires
async def test_an_error_that_is_a_line_of_json_alone_is_shown(wire: str) -> None:
    first = written(wire, MADE[wire](nearly=True), Style()).split(b"\n\n")[0]
    found = await one(wire, first + b'\n\n{"error": {"message": "no room", "code": 500}}\n')
    assert "no room" in found[1]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@wires
async def test_no_more_is_kept_than_is_sensible(wire: str, streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairing, "MOST", 5000)
    server, taken = Server(wire), list[int]()

    async def endless() -> AsyncIterator[bytes]:
        yield b"data: " if streamed else b'{"x": "'
        while True:
            taken.append(1000)
            yield b"x" * 1000

    kind = {"content-type": "text/event-stream" if streamed else "application/json"}
    found = await server.got(httpx2.Response(200, headers=kind, content=endless()))
    assert found[0] == "transient"
    assert sum(taken) < 10_000


@pytest.mark.slow
@wires
async def test_an_event_of_ten_megabytes_is_read(wire: str) -> None:
    text = "x" * 10_000_000
    events = json.loads(json.dumps(MADE[wire](nearly=True)).replace(json.dumps(SAID[7:])[1:-1], text))
    said = written(wire, events, Style())
    found = await one(wire, said, range(65_536, len(said), 65_536))
    assert (found[0], found[1]) == (SAID[:7] + text, [GIVEN])


@pytest.mark.parametrize("created", [float("nan"), float("inf"), -1, 1e300, True, "now"])
@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_a_time_that_is_none_is_no_error(wire: str, created: Any) -> None:
    events = [{**each, "created": created} for each in MADE[wire](nearly=True)]
    for each in events:
        if "response" in each:
            each["response"] = {**each["response"], "created_at": created}
    assert await one(wire, written(wire, events, Style())) == WHOLE


def test_a_code_that_is_no_status_is_none() -> None:
    assert error_of({"error": {"message": "no", "code": "4" * 5000}}) == (400, {"message": "no", "code": "4" * 5000})


class Watched(httpx2.AsyncByteStream):
    """A body that begins, and does not end."""

    def __init__(self, said: bytes) -> None:
        self._said = said
        self.is_waiting = asyncio.Event()
        self.closed = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._said
        self.is_waiting.set()
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("kind", ["text/event-stream", "text/plain", "application/json"])
@wires
async def test_a_request_that_is_cancelled_closes_its_connection(wire: str, kind: str) -> None:
    begins = b"{" if kind == "application/json" else written(wire, MADE[wire](nearly=True)[:3], Style())
    body, server = Watched(begins), Server(wire)
    task = asyncio.create_task(server.got(httpx2.Response(200, headers={"content-type": kind}, stream=body)))
    await body.is_waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert body.closed


@wires
async def test_a_stream_may_be_closed_twice(wire: str) -> None:
    body, server = Watched(b"data: {}\n\n"), Server(wire)
    server.answers = [httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=body)]
    request = server.http.build_request("POST", f"http://test/v1{WIRES[wire].path}", json={"stream": True})
    response = await server.http.send(request, stream=True)
    await response.aclose()
    await response.stream.aclose()  # type: ignore[union-attr]
    assert body.closed


@wires
async def test_two_runs_on_one_client_do_not_mix(wire: str) -> None:
    server = Server(wire)
    nearly = written(wire, MADE[wire](nearly=True), Style())

    async def slowly() -> AsyncIterator[bytes]:
        for at in range(0, len(nearly), 100):
            await asyncio.sleep(0)
            yield nearly[at : at + 100]

    async def run() -> list[Any]:
        return await server.got(httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=slowly()))

    assert await asyncio.gather(run(), run(), run()) == [WHOLE] * 3


async def test_a_text_that_holds_the_mark_is_no_end() -> None:
    events = chat(nearly=True)[:2]
    assert "[DONE]" in json.dumps(events)
    assert (await one("chat", written("chat", events, Style()).replace(b"data: [DONE]\n\n", b"")))[0] == "incomplete"
