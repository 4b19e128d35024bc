"""Servers that are nearly Anthropic, or nearly OpenAI's Responses: what they answer is read, streamed and not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

import httpx2
import pytest
from anthropic import AsyncAnthropic
from deep_sessions import AgentDeps, DeepAgent
from deep_sessions.requests.nearly_anthropic import MESSAGES
from deep_sessions.requests.nearly_responses import RESPONSES
from deep_sessions.requests.repairing import Repair, repair
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AsyncOpenAI
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolReturnPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from deep_core import create_default_deps
from plugins.sessions.tests.dialects import Answer, Body, ran, serving
from plugins.sessions.tests.scripted import kernel
from plugins.sessions.tests.test_door_fuzz import EACH, models
from tests.drawn import sample

pytestmark = pytest.mark.anyio
either = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
WIRES = {"messages": MESSAGES, "responses": RESPONSES}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def model_at(wire: str, url: str, http: httpx2.AsyncClient | None = None) -> Model[Any]:
    """A model whose answers are repaired, wherever it is asked from."""
    hooks: Any = {"request": [Repair(WIRES[wire])], "response": [Repair(WIRES[wire])]}
    http = http or httpx2.AsyncClient(event_hooks=hooks, timeout=20)
    if wire == "messages":
        anthropic = AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key="x", http_client=http, max_retries=0)
        return AnthropicModel("m", provider=AnthropicProvider(anthropic_client=anthropic))
    openai = AsyncOpenAI(base_url=url, api_key="x", http_client=cast("Any", http), max_retries=0)
    return OpenAIResponsesModel("m", provider=OpenAIProvider(openai_client=openai))


# -- one quirk a time ------------------------------------------------------------------------------------------------


class Quirk(NamedTuple):
    """An answer that is nearly right.

    Attributes:
        whole: it, not streamed.
        events: it, streamed.
        ran: the calls that are made.
        text: what the model said in it.
        words: what is said of what is left out.
    """

    whole: Body
    events: list[Body]
    ran: Sequence[str] = ("a",)
    text: str = ""
    words: str = ""


def but(body: Body, *without: str, **fields: Any) -> Body:
    """A body without some fields, and with others."""
    return {key: value for key, value in {**body, **fields}.items() if key not in without}


USED: Body = {"input_tokens": 3, "output_tokens": 2}
HEAD: Body = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
CALL: Body = {"type": "tool_use", "id": "t1", "name": "ping", "input": {"text": "a"}}
SAYS: Body = {"type": "text", "text": "hm"}


def message_of(*content: Any, **fields: Any) -> Body:
    """A whole message."""
    return {**HEAD, "content": [*content], "stop_reason": "tool_use", "usage": USED, **fields}


def start_of(**fields: Any) -> Body:
    """The first event of a message."""
    return {"type": "message_start", "message": message_of(stop_reason=None, **fields)}


def block_of(index: Any, block: Any, *deltas: Body) -> list[Body]:
    """The events of a block."""
    start: Body = {"type": "content_block_start", "index": index, "content_block": block}
    pieces = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [start, *pieces, {"type": "content_block_stop", "index": index}]


def call_of(index: Any, text: str = "a", **fields: Any) -> list[Body]:
    """The events of a call, its arguments in two pieces."""
    written = json.dumps({"text": text})
    pieces = [{"type": "input_json_delta", "partial_json": each} for each in (written[:5], written[5:])]
    return block_of(index, {**CALL, "input": {}, **fields}, *pieces)


def end_of(reason: Any = "tool_use", **fields: Any) -> list[Body]:
    """The last events of a message."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}, **fields},
        {"type": "message_stop"},
    ]


GADGET: Body = {"type": "gadget", "x": 1}
TEXT: Body = {"type": "text_delta", "text": "hm"}
NO_TEXT: Body = {"type": "text_delta", "text": None}
MESSAGE_QUIRKS: Mapping[str, Quirk] = {
    "nothing": Quirk(
        message_of(SAYS, CALL), [start_of(), *block_of(0, but(SAYS, text=""), TEXT), *call_of(1), *end_of()], text="hm"
    ),
    "usage is absent": Quirk(
        but(message_of(CALL), "usage"),
        [
            {"type": "message_start", "message": but(message_of(), "usage")},
            *call_of(0),
            but(end_of()[0], "usage"),
            end_of()[1],
        ],
    ),
    "usage is null": Quirk(message_of(CALL, usage=None), [start_of(usage=None), *call_of(0), *end_of(usage=None)]),
    "usage holds null": Quirk(
        message_of(CALL, usage={"input_tokens": None, "output_tokens": 2}),
        [start_of(usage={"input_tokens": None}), *call_of(0), *end_of(usage={"output_tokens": None})],
    ),
    "content is a text": Quirk(message_of(content="hm"), [start_of(content="hm"), *end_of()], ran=(), text="hm"),
    "content is null": Quirk(message_of(content=None), [start_of(content=None), *end_of()], ran=()),
    "text is null": Quirk(
        message_of(but(SAYS, text=None), SAYS, CALL),
        [start_of(), *block_of(0, but(SAYS, text=None), NO_TEXT, TEXT, NO_TEXT), *call_of(1), *end_of()],
        text="hm",
    ),
    "an unknown block": Quirk(
        message_of(GADGET, CALL),
        [start_of(), *block_of(0, GADGET, TEXT), *call_of(1), *end_of()],
        words="gadget",
    ),
    "a block that is null": Quirk(
        message_of(None, CALL), [start_of(), *block_of(0, None), *call_of(1), *end_of()], words="no object"
    ),
    "an unknown event": Quirk(message_of(GADGET, CALL), [start_of(), GADGET, *call_of(0), *end_of()], words="gadget"),
    "an unknown piece": Quirk(
        message_of(GADGET, SAYS, CALL),
        [start_of(), *block_of(0, but(SAYS, text=""), TEXT, {"type": "gadget"}), *call_of(1), *end_of()],
        text="hm",
        words="gadget",
    ),
    "ids are equal": Quirk(
        message_of(CALL, but(CALL, input={"text": "b"})),
        [start_of(), *call_of(0), *call_of(1, "b"), *end_of()],
        ran=("a", "b"),
    ),
    "the id is null": Quirk(message_of(but(CALL, id=None)), [start_of(), *call_of(0, id=None), *end_of()]),
    "the id is a number": Quirk(message_of(but(CALL, id=7)), [start_of(), *call_of(0, id=7), *end_of()]),
    "input is a text": Quirk(
        message_of(but(CALL, input='{"text": "a"}')),
        [start_of(), *block_of(0, but(CALL, input='{"text": "a"}')), *end_of()],
    ),
    "input is whole at once": Quirk(message_of(CALL), [start_of(), *block_of(0, CALL), *end_of()]),
    "input is whole and in pieces": Quirk(message_of(CALL), [start_of(), *call_of(0, input={"text": "a"}), *end_of()]),
    "input is null": Quirk(
        message_of(but(CALL, name="pong", input=None)),
        [start_of(), *block_of(0, but(CALL, name="pong", input=None)), *end_of()],
        ran=("pong",),
    ),
    "input is an object in its piece": Quirk(
        message_of(CALL),
        [
            start_of(),
            *block_of(0, but(CALL, input={}), {"type": "input_json_delta", "partial_json": {"text": "a"}}),
            *end_of(),
        ],
    ),
    "stop is null": Quirk(message_of(CALL, stop_reason=None), [start_of(), *call_of(0), *end_of(None)]),
    "stop is absent": Quirk(but(message_of(CALL), "stop_reason"), [start_of(), *call_of(0), end_of()[1]]),
    "stop is OpenAI's": Quirk(
        message_of(CALL, stop_reason="tool_calls"), [start_of(), *call_of(0), *end_of("tool_calls")]
    ),
    "no signature": Quirk(
        message_of({"type": "thinking", "thinking": "so"}, CALL),
        [
            start_of(),
            *block_of(0, {"type": "thinking"}, {"type": "thinking_delta", "thinking": "so"}),
            *call_of(1),
            *end_of(),
        ],
    ),
    "no first event": Quirk(message_of(CALL), [*call_of(0), *end_of()]),
    "no start of a block": Quirk(
        message_of(SAYS, CALL),
        [start_of(), {"type": "content_block_delta", "index": 0, "delta": TEXT}, *call_of(1), *end_of()],
        text="hm",
    ),
    "all at index 0": Quirk(
        message_of(SAYS, CALL, but(CALL, id="t2", input={"text": "b"})),
        [start_of(), *block_of(0, but(SAYS, text=""), TEXT), *call_of(0), *call_of(0, "b", id="t2"), *end_of()],
        ran=("a", "b"),
        text="hm",
    ),
    "no index": Quirk(
        message_of(SAYS, CALL),
        [
            start_of(),
            *(but(each, "index") for each in [*block_of(0, but(SAYS, text=""), TEXT), *call_of(1)]),
            *end_of(),
        ],
        text="hm",
    ),
    "fields of other types": Quirk(
        message_of(CALL, container="x", context_management=3, id=None, model=None),
        [start_of(container="x", id=None, model=None), *call_of(0), *end_of(context_management=3)],
    ),
}

COUNTED: Body = {**USED, "total_tokens": 5, "input_tokens_details": {"cached_tokens": 0}}
COUNTED |= {"output_tokens_details": {"reasoning_tokens": 0}}
FRAME: Body = {"id": "r1", "object": "response", "created_at": 1, "model": "m", "parallel_tool_calls": True}
FRAME |= {"tool_choice": "auto", "tools": []}
PING: Body = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "ping", "arguments": '{"text": "a"}'}
PING |= {"status": "completed"}
PART: Body = {"type": "output_text", "text": "hm", "annotations": []}
HM: Body = {"type": "message", "id": "i1", "role": "assistant", "status": "completed", "content": [PART]}


def response_of(*output: Any, **fields: Any) -> Body:
    """A whole response."""
    return {**FRAME, "status": "completed", "output": [*output], "usage": COUNTED, **fields}


def created(**fields: Any) -> Body:
    """The first event of a response."""
    return {"type": "response.created", "response": response_of(status="in_progress", usage=None, **fields)}


def completed(*output: Any, **fields: Any) -> Body:
    """The last event of a response."""
    return {"type": "response.completed", "response": response_of(*output, **fields)}


def added(place: Any, item: Any, **fields: Any) -> Body:
    """The event that begins an item."""
    return {"type": "response.output_item.added", "output_index": place, "item": item, **fields}


def done(place: Any, item: Any, **fields: Any) -> Body:
    """The event that ends an item."""
    return {"type": "response.output_item.done", "output_index": place, "item": item, **fields}


def written(place: Any, call: Body = PING, **fields: Any) -> list[Body]:
    """The events of a call, its arguments in two pieces."""
    about: Body = {"output_index": place, "item_id": call.get("id"), **fields}
    kind, text = "response.function_call_arguments", call["arguments"]
    pieces = [{"type": f"{kind}.delta", **about, "delta": each} for each in (text[:5], text[5:])]
    begun = added(place, but(call, arguments="", status="in_progress"))
    return [begun, *pieces, {"type": f"{kind}.done", **about, "arguments": text}, done(place, call)]


def spoken(place: Any, *deltas: Any, item: Body = HM, **fields: Any) -> list[Body]:
    """The events of a message."""
    about: Body = {"output_index": place, "item_id": item.get("id"), "content_index": 0, **fields}
    pieces = [{"type": "response.output_text.delta", **about, "delta": each, "logprobs": []} for each in deltas]
    end = {"type": "response.output_text.done", **about, "text": "hm", "logprobs": []}
    return [added(place, but(item, content=[], status="in_progress")), *pieces, end, done(place, item)]


B: Body = {**PING, "id": "f2", "call_id": "c2", "arguments": '{"text": "b"}'}
OBJECT: Body = but(PING, arguments={"text": "a"})
PONG: Body = but(PING, name="pong", arguments=None)
RESPONSE_QUIRKS: Mapping[str, Quirk] = {
    "nothing": Quirk(
        response_of(HM, PING), [created(), *spoken(0, "h", "m"), *written(1), completed(HM, PING)], text="hm"
    ),
    "output is null": Quirk(response_of(output=None), [created(output=None), completed(output=None)], ran=()),
    "output is an item": Quirk(response_of(output=PING), [created(), *written(0), completed(output=PING)]),
    "text is null": Quirk(
        response_of(but(HM, content=[but(PART, text=None), PART]), PING),
        [created(), *spoken(0, None, "hm", None), *written(1), completed(HM, PING)],
        text="hm",
    ),
    "annotations are null": Quirk(
        response_of(but(HM, content=[but(PART, annotations=None)]), PING),
        [created(), *spoken(0, "hm", item=but(HM, content=[but(PART, annotations=None)])), *written(1), completed()],
        text="hm",
    ),
    "content is a text": Quirk(
        response_of(but(HM, content="hm"), PING),
        [created(), done(0, but(HM, content="hm")), *written(1), completed(PING)],
        text="hm",
    ),
    "content is null": Quirk(
        response_of(but(HM, content=None), PING), [created(), done(0, but(HM, content=None)), *written(1), completed()]
    ),
    "an unknown item": Quirk(
        response_of(GADGET, PING),
        [created(), added(0, GADGET), done(0, GADGET), *written(1), completed(GADGET, PING)],
        words="gadget",
    ),
    "an unknown part": Quirk(
        response_of(but(HM, content=[GADGET, PART]), PING),
        [created(), done(0, but(HM, content=[GADGET, PART])), *written(1), completed()],
        text="hm",
        words="gadget",
    ),
    "an unknown event": Quirk(
        response_of(GADGET, PING),
        [created(), {"type": "response.gadget"}, *written(0), completed(PING)],
        words="gadget",
    ),
    "call ids are equal": Quirk(
        response_of(PING, but(B, call_id="c1")),
        [created(), *written(0), *written(1, but(B, call_id="c1")), completed()],
        ran=("a", "b"),
    ),
    "all ids are equal": Quirk(
        response_of(PING, but(B, id="f1", call_id="c1")),
        [created(), *written(0), *written(1, but(B, id="f1", call_id="c1")), completed()],
        ran=("a", "b"),
    ),
    "all at place 0": Quirk(
        response_of(HM, PING, B),
        [created(), *spoken(0, "hm"), *written(0), *written(0, B), completed()],
        ran=("a", "b"),
        text="hm",
    ),
    "ids are null": Quirk(
        response_of(but(HM, id=None), but(PING, id=None, call_id=None)),
        [
            created(),
            *spoken(0, "hm", item=but(HM, id=None)),
            *written(1, but(PING, id=None, call_id=None)),
            completed(),
        ],
        text="hm",
    ),
    "no ids, no places": Quirk(
        response_of(but(HM, "id"), but(PING, "id")),
        [created(), *spoken(None, "hm", item=but(HM, "id")), *written(None, but(PING, "id")), completed(HM, PING)],
        text="hm",
    ),
    "arguments are an object": Quirk(
        response_of(OBJECT), [created(), *written(0)[:3], done(0, OBJECT), completed(OBJECT)]
    ),
    "arguments are null": Quirk(
        response_of(PONG), [created(), added(0, PONG), done(0, PONG), completed(PONG)], ran=("pong",)
    ),
    "arguments are whole at once": Quirk(response_of(PING), [created(), added(0, PING), completed()]),
    "arguments are whole and in pieces": Quirk(
        response_of(PING), [created(), added(0, PING), *written(0)[1:], completed()]
    ),
    "no start of a call": Quirk(response_of(PING), [created(), done(0, PING), completed(PING)]),
    "only the whole": Quirk(response_of(HM, PING, B), [created(), completed(HM, PING, B)], ran=("a", "b"), text="hm"),
    "only pieces of text": Quirk(
        response_of(HM),
        [created(), {"type": "response.output_text.delta", "delta": "hm"}, completed(HM)],
        ran=(),
        text="hm",
    ),
    "only the end of a text": Quirk(response_of(HM), [created(), *spoken(0), completed(HM)], ran=(), text="hm"),
    "no first event": Quirk(response_of(PING), [*written(0), completed(PING)]),
    "usage is null": Quirk(response_of(PING, usage=None), [created(), *written(0), completed(usage=None)]),
    "usage holds null": Quirk(
        response_of(PING, usage={"input_tokens": None, "output_tokens": 2}),
        [created(), *written(0), completed(usage={"input_tokens": None, "output_tokens": 2})],
    ),
    "status is absent": Quirk(but(response_of(PING), "status"), [created(), *written(0), completed(status=None)]),
    "reasoning without summary": Quirk(
        response_of({"type": "reasoning", "id": "s1"}, PING),
        [created(), added(0, {"type": "reasoning", "id": "s1"}), *written(1), completed()],
    ),
    "fields of other types": Quirk(
        response_of(PING, conversation="x", service_tier=[], error=None, incomplete_details="x", id=None, model=None),
        [created(conversation="x", id=None), *written(0), completed(conversation="x", service_tier=[], moderation=3)],
    ),
}
QUIRKS = {"messages": MESSAGE_QUIRKS, "responses": RESPONSE_QUIRKS}
LAST = {
    "messages": [start_of(), *block_of(0, but(SAYS, text=""), but(TEXT, text="done")), *end_of("end_turn")],
    "responses": [created(), completed(but(HM, content=[but(PART, text="done")]))],
}
"""The last answer of each run."""
CELLS = [(wire, quirk) for wire in WIRES for quirk in QUIRKS[wire]]


def last_of(wire: str) -> Body:
    """The same, whole."""
    if wire == "messages":
        return message_of(but(SAYS, text="done"), stop_reason="end_turn")
    return response_of(but(HM, content=[but(PART, text="done")]))


@pytest.mark.parametrize("how", ["whole", "streamed", "unnamed", "unasked"])
@pytest.mark.parametrize(("wire", "quirk"), sample(CELLS, *CELLS[::3], slow=CELLS))
async def test_a_nearly_right_answer_is_read(
    wire: str, quirk: str, how: str, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    said = QUIRKS[wire][quirk]

    def answer(body: Body, number: int) -> Answer:
        if how in ("whole", "unasked"):  # unasked: not streamed, where a stream was asked for
            return Answer(said.whole if number == 1 else last_of(wire))
        return Answer(sse(said.events if number == 1 else LAST[wire], is_named=how == "streamed"))

    with serving(answer) as url:
        made, result = await ran(model_at(wire, url), how != "whole")
    texts = [part.content for each in result.all_messages() for part in each.parts if part.part_kind == "text"]
    last = [] if said.text and not said.ran else ["done"]
    assert (made, texts) == ([*said.ran], [said.text] * bool(said.text) + last)
    assert said.words in caplog.text if said.words else not caplog.text
    assert [str(each.message) for each in recwarn if "pydantic_ai" in each.filename] == []


# -- what is right stays as it is ------------------------------------------------------------------------------------

CACHED: Body = {**USED, "cache_creation_input_tokens": 0, "cache_read_input_tokens": None, "service_tier": "standard"}
THINKS: list[Body] = block_of(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "so"},
    {"type": "signature_delta", "signature": "s"},
)
REASONS: Body = {
    "type": "reasoning",
    "id": "s1",
    "summary": [{"type": "summary_text", "text": "so"}],
    "encrypted_content": "e",
}
SUMMED: Body = {"output_index": 0, "item_id": "s1", "summary_index": 0}
RIGHT: Mapping[str, list[tuple[Body, list[Body]]]] = {
    "messages": [
        (MESSAGE_QUIRKS["nothing"].whole, MESSAGE_QUIRKS["nothing"].events),
        (
            message_of({"type": "thinking", "thinking": "so", "signature": "s"}, CALL, usage=CACHED, stop_details=None),
            [start_of(usage=CACHED), {"type": "ping"}, *THINKS, *call_of(1), *end_of(usage=CACHED)],
        ),
        (
            message_of(but(SAYS, citations=None), stop_reason="pause_turn", container=None),
            [start_of(), *block_of(0, but(SAYS, text="", citations=None), TEXT), *end_of("pause_turn")],
        ),
    ],
    "responses": [
        (RESPONSE_QUIRKS["nothing"].whole, RESPONSE_QUIRKS["nothing"].events),
        (
            response_of(
                REASONS, HM, error=None, incomplete_details={"reason": "max_output_tokens"}, status="incomplete"
            ),
            [
                created(),
                {"type": "response.in_progress", "response": created()["response"]},
                added(0, but(REASONS, summary=[])),
                {
                    "type": "response.reasoning_summary_part.added",
                    **SUMMED,
                    "part": {"type": "summary_text", "text": ""},
                },
                {"type": "response.reasoning_summary_text.delta", **SUMMED, "delta": "so", "obfuscation": "x"},
                {"type": "response.reasoning_summary_text.done", **SUMMED, "text": "so"},
                done(0, REASONS),
                *spoken(1, "h", "m"),
                {"type": "response.incomplete", "response": response_of(REASONS, HM, status="incomplete")},
            ],
        ),
        (
            response_of(
                {
                    "type": "web_search_call",
                    "id": "w1",
                    "status": "completed",
                    "action": {"type": "search", "query": "q"},
                }
            ),
            [created(), {"type": "error", "code": "server_error", "message": "no", "param": None}],
        ),
    ],
}


@either
@pytest.mark.parametrize("wire", WIRES)
async def test_what_is_right_stays_as_it_is(wire: str, streamed: bool) -> None:
    for whole, events in RIGHT[wire]:
        numbered = [{**each, "sequence_number": at} if wire == "responses" else each for at, each in enumerate(events)]
        said = sse(numbered).replace(b"\n\n", b"\n: a comment\n\n", 1) if streamed else json.dumps(whole).encode()
        kind = "text/event-stream" if streamed else "application/json"

        async def answer(_: httpx2.Request, said: bytes = said, kind: str = kind) -> httpx2.Response:
            return httpx2.Response(200, headers={"content-type": kind}, content=in_pieces(said))

        async with client_of(wire, answer) as http:
            response = await http.post(f"http://test/v1{WIRES[wire].path}", json={"model": "m", "stream": streamed})
        assert response.content == said


async def in_pieces(said: bytes) -> AsyncIterator[bytes]:
    """A body as it comes from a network. One that is read already is not read through the client's hooks."""
    for at in range(0, len(said), 50):
        yield said[at : at + 50]


def client_of(wire: str, answer: Any) -> httpx2.AsyncClient:
    """A client whose answers are repaired."""
    hooks: Any = {"request": [Repair(WIRES[wire])], "response": [Repair(WIRES[wire])]}
    return httpx2.AsyncClient(transport=httpx2.MockTransport(answer), event_hooks=hooks)


# -- errors, and streams that end too early --------------------------------------------------------------------------

ERRORS: Mapping[str, tuple[Body, int]] = {
    "Anthropic's": ({"type": "error", "error": {"type": "overloaded_error", "message": "no room"}}, 529),
    "with a number": ({"error": {"message": "no room", "code": 500}}, 500),
    "with a number as text": ({"error": {"message": "no room", "code": "429"}}, 429),
    "a text": ({"error": "no room"}, 400),
    "a detail": ({"detail": "no room"}, 400),
    "vLLM's older form": ({"object": "error", "message": "no room", "code": 422}, 422),
    "busy": ({"error": {"message": "no room: overloaded", "code": None}}, 503),
    "no message": ({"error": {"reason": "no room"}}, 400),
}


@pytest.mark.parametrize("how", ["whole", "unasked", "streamed", "unnamed"])
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("wire", WIRES)
async def test_an_error_with_status_200_is_shown(wire: str, error: str, how: str) -> None:
    body, status = ERRORS[error]

    def answer(asked: Body, _: int) -> Answer:
        if how in ("whole", "unasked"):
            return Answer(body)
        return Answer(sse([QUIRKS[wire]["nothing"].events[0], body], is_named=how == "streamed"))

    with serving(answer) as url, pytest.raises(ModelAPIError, match="no room") as caught:
        await ran(model_at(wire, url), how != "whole")
    if isinstance(caught.value, ModelHTTPError):
        # Anthropic's stream has words for some numbers only.
        assert caught.value.status_code in (status, {503: 529, 422: 400}.get(status))
    else:
        assert (wire, status) == ("responses", 400)


@either
async def test_a_failed_response_is_shown(streamed: bool) -> None:
    failed = response_of(status="failed", error={"code": 500, "message": "no room"})
    said = Answer(sse([created(), {"type": "response.failed", "response": failed}]) if streamed else failed)
    with serving(lambda _, __: said) as url, pytest.raises(ModelAPIError, match="no room"):
        await ran(model_at("responses", url), streamed)


ENDED: Mapping[str, tuple[Body, list[Body]]] = {
    "messages": (message_of(SAYS, stop_reason="error"), [start_of(), *block_of(0, SAYS), *end_of("error")]),
    "responses": (
        response_of(HM, status="failed", error=None),
        [
            created(),
            *spoken(0, "hm"),
            {"type": "response.failed", "response": response_of(status="failed", error=None)},
        ],
    ),
}


@either
@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_that_says_that_it_failed_is_no_answer(wire: str, streamed: bool) -> None:
    whole, events = ENDED[wire]
    said = Answer(sse(events) if streamed else whole)
    with serving(lambda _, __: said) as url, pytest.raises(ModelAPIError, match="ended its answer with an error"):
        await ran(model_at(wire, url), streamed)


async def test_an_answer_that_is_incomplete_without_a_reason_is_not_done() -> None:
    said = response_of(HM, status="incomplete", incomplete_details=None)
    with serving(lambda _, __: Answer(said)) as url:
        agent = await DeepAgent.create(deps=AgentDeps(model=unrepaired("responses", url)))
        result = await agent.run("go")
    assert (result.finish_reason, result.message) == ("incomplete", "hm")


@either
@pytest.mark.parametrize("body", [{"id": "x", "object": "thing"}, {}], ids=["other", "empty"])
@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_that_holds_none_is_said_to_hold_none(wire: str, body: Body, streamed: bool) -> None:
    with serving(lambda _, __: Answer(body)) as url, pytest.raises(ModelHTTPError, match=f"no {WIRES[wire].holds}"):
        await ran(model_at(wire, url), streamed)


CUT = {
    "messages": [start_of(), *block_of(0, but(SAYS, text=""), TEXT)],
    "responses": [created(), *spoken(0, "hm")],
}


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "without its first event"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_without_its_end_is_asked_for_again(wire: str, begun: bool) -> None:
    def answer(_: Body, number: int) -> Answer:
        return Answer(sse(CUT[wire][not begun :] if number == 1 else LAST[wire]))

    with serving(answer) as url:
        result: Any = await streamed_by_an_agent(unrepaired(wire, url))
    assert (result.status, result.message) == ("completed", "done")


async def streamed_by_an_agent(model: Any, *tools: Any) -> Any:
    """The last event of a run."""
    config: Any = {"model": {"retry": {"backoff_ms": 1}}}
    agent = await DeepAgent.create(config=config, deps=AgentDeps(model=model), tools=tools)
    return [event async for event in agent.run_stream("go")][-1]


# -- whose answers are repaired --------------------------------------------------------------------------------------


def unrepaired(wire: str, url: str) -> Any:
    """A model as an application makes it."""
    return model_at(wire, url, httpx2.AsyncClient(timeout=20))


@pytest.mark.parametrize("wire", WIRES)
async def test_an_applications_model_is_repaired_in_its_agent_and_nowhere_else(wire: str) -> None:
    quirk = QUIRKS[wire]["ids are equal" if wire == "messages" else "call ids are equal"]

    def answer(_: Body, number: int) -> Answer:
        return Answer(sse(LAST[wire] if number == 2 else quirk.events))

    def ping(text: str) -> str:
        return text

    http = httpx2.AsyncClient(timeout=20)
    with serving(answer) as url:
        result: Any = await streamed_by_an_agent(model_at(wire, url, http), ping)
        other = await http.post(f"{url}{WIRES[wire].path}", json={"model": "m", "stream": True})
    assert (result.status, result.message) == ("completed", "done")
    assert other.content == sse(quirk.events)


@pytest.mark.parametrize("wire", WIRES)
def test_the_hook_is_added_once_and_never_at_the_providers_own_address(wire: str) -> None:
    http = httpx2.AsyncClient()
    for url in ("https://api.openai.com/v1", "https://api.anthropic.com/v1", "https://x.openai.azure.com/v1"):
        repair(model_at(wire, url, http))
    assert http.event_hooks == {"request": [], "response": []}
    for _ in range(2):
        repair(model_at(wire, "http://localhost:1234/v1", http))
    assert {key: len(hooks) for key, hooks in http.event_hooks.items()} == {"request": 1, "response": 1}


# -- any answer ------------------------------------------------------------------------------------------------------

WORDS = (
    "id type role content text thinking signature input name usage stop_reason model message delta index partial_json "
    "input_tokens output_tokens content_block output item item_id output_index content_index arguments call_id status "
    "summary annotations error code response created_at incomplete_details reason"
)
words = st.sampled_from(WORDS.split())
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=8,
)


def near(**fields: Any) -> st.SearchStrategy[Body]:
    """An object with some of the fields, some of them of another type."""
    return st.fixed_dictionaries({}, optional={key: each | junk for key, each in fields.items()})


texts = st.sampled_from(["", "a", "b", '{"text": "a"}', "{"])
ids = st.sampled_from(["", "i1", "i2", "i3"])
places = st.integers(0, 2)
blocks = near(
    type=st.sampled_from(
        ["text", "tool_use", "tool_use", "thinking", "redacted_thinking", "server_tool_use", "gadget"]
    ),
    id=ids,
    name=st.sampled_from(["ping", "pong"]),
    text=texts,
    thinking=texts,
    input=st.just({}) | st.just({"text": "a"}) | texts,
)
counts = near(input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9))
reasons = st.sampled_from(["end_turn", "tool_use", "max_tokens", "stop", "length"])
message = near(content=st.lists(blocks, max_size=3), stop_reason=reasons, usage=counts, id=ids, model=ids)
pieces = near(
    type=st.sampled_from(["text_delta", "input_json_delta", "thinking_delta", "signature_delta", "gadget_delta"]),
    text=texts,
    partial_json=texts,
    thinking=texts,
    stop_reason=reasons,
)
kinds = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
events = near(
    type=st.sampled_from([*kinds, "content_block_delta", "message_stop", "ping", "error", "gadget"]),
    index=places,
    message=message,
    content_block=blocks,
    delta=pieces,
    usage=counts,
)
parts = near(
    type=st.sampled_from(["output_text", "refusal", "gadget"]), text=texts, refusal=texts, annotations=st.just([])
)
items = near(
    type=st.sampled_from(["message", "function_call", "function_call", "reasoning", "gadget", "web_search_call"]),
    id=ids,
    call_id=ids,
    name=st.sampled_from(["ping", "pong"]),
    arguments=texts,
    content=st.lists(parts, max_size=2),
    summary=st.lists(near(type=st.just("summary_text"), text=texts), max_size=1),
    status=st.just("completed"),
)
response = near(
    output=st.lists(items, max_size=3),
    usage=counts,
    status=st.sampled_from(["completed", "incomplete", "in_progress"]),
    id=ids,
    incomplete_details=near(reason=st.just("max_output_tokens")),
)
states = [f"response.{each}" for each in ("created", "in_progress", "completed", "incomplete", "failed")]
told = [
    f"response.{each}" for each in ("output_item.added", "output_item.done", "output_text.delta", "output_text.done")
]
told += [f"response.function_call_arguments.{each}" for each in ("delta", "done")]
told += ["response.content_part.added", "response.refusal.done", "response.reasoning_summary_text.delta"]
happenings = near(
    type=st.sampled_from([*states, *told, *told, "error", "response.gadget"]),
    response=response,
    item=items,
    item_id=ids,
    output_index=places,
    content_index=places,
    delta=texts,
    text=texts,
    arguments=texts,
)
DRAWN = {"messages": (message, events), "responses": (response, happenings)}


@pytest.mark.parametrize("wire", WIRES)
def test_any_answer_is_read_or_an_error_and_the_next_request_is_valid(wire: str) -> None:
    whole, event = DRAWN[wire]
    faults: list[BaseException] = []
    plain = kernel()
    provider = models(faults)[{"messages": "anthropic"}.get(wire, wire)]
    agent = plain.create_agent(provider, backend="memory", interrupt_on=False)

    @settings(max_examples=EACH // 4 + 1)
    @given(whole | st.lists(event, max_size=7), st.booleans())
    def holds(said: Body | list[Body], is_named: bool) -> None:
        found = runner.run(read(wire, said, is_named))
        if found is None:
            return
        faults.clear()
        given = [ToolReturnPart(call.tool_name, "ok", call.tool_call_id) for call in found.tool_calls]
        history = [ModelRequest.user_text_prompt("go"), found, *([ModelRequest(given)] if given else [])]
        deps = create_default_deps(kernel=plain)
        try:
            result = runner.run(agent.run("go on", message_history=history, deps=deps))
        finally:
            if faults:
                raise faults[0]
        assert result.output == "fine"

    with asyncio.Runner() as runner:
        holds()


async def read(wire: str, said: Body | list[Body], is_named: bool) -> ModelResponse | None:
    """What a model makes of an answer: its calls have ids of their own. None for an error in words."""
    streamed = isinstance(said, list)

    async def answer(_: httpx2.Request) -> httpx2.Response:
        kind = "text/event-stream" if streamed else "application/json"
        text = sse(said, is_named=is_named) if isinstance(said, list) else json.dumps(said).encode()
        return httpx2.Response(200, headers={"content-type": kind}, content=in_pieces(text))

    model = model_at(wire, "http://test/v1", client_of(wire, answer))
    tools = [ToolDefinition(name=name) for name in ("ping", "pong")]
    asked: Any = ([ModelRequest.user_text_prompt("go")], None, ModelRequestParameters(function_tools=tools))
    found: ModelResponse | None = None
    with suppress(ModelAPIError, UnexpectedModelBehavior):
        if streamed:
            async with model.request_stream(*asked) as stream:
                _ = [each async for each in stream]
                found = stream.get()
        else:
            found = await model.request(*asked)
    if found is None:
        return None
    called = [part.tool_call_id for part in found.parts if part.part_kind == "tool-call"]
    assert len(set(called)) == len(called)
    assert all(called)
    return found


def sse(said: Sequence[Body], *, is_named: bool = True) -> bytes:
    """The text of a stream."""
    names = [f"event: {each['type']}\n" if is_named and isinstance(each.get("type"), str) else "" for each in said]
    return "".join(f"{name}data: {json.dumps(each)}\n\n" for name, each in zip(names, said, strict=True)).encode()
