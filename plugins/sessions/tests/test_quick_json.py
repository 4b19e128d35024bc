"""Messages are read as they were, whichever writer wrote them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from deep_sessions.entries import dump_messages
from deep_sessions.quick_json import write_quickly
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
REQUESTS = st.builds(
    ModelRequest,
    st.lists(
        st.builds(SystemPromptPart, TEXTS)
        | st.builds(UserPromptPart, TEXTS)
        | st.builds(ToolReturnPart, TEXTS, TEXTS, TEXTS, metadata=st.none() | OBJECTS),
        max_size=3,
    ),
    instructions=st.none() | TEXTS,
    run_id=st.none() | TEXTS,
    metadata=st.none() | OBJECTS,
)
RESPONSES = st.builds(
    ModelResponse,
    st.lists(
        st.builds(TextPart, TEXTS, provider_details=st.none() | OBJECTS)
        | st.builds(ThinkingPart, TEXTS, signature=st.none() | TEXTS)
        | st.builds(ToolCallPart, TEXTS, st.none() | TEXTS | OBJECTS, TEXTS),
        max_size=3,
    ),
    usage=st.builds(
        RequestUsage,
        input_tokens=st.integers(0, 9),
        output_tokens=st.integers(0, 9),
        details=st.dictionaries(TEXTS, st.integers(0, 9), max_size=2),
    ),
    model_name=st.none() | TEXTS,
    provider_details=st.none() | OBJECTS,
    metadata=st.none() | OBJECTS,
)


def with_counts_of_0(usage: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {**dict.fromkeys(names, 0), "details": {}, **usage}


@pytest.mark.slow
@given(st.lists(REQUESTS | RESPONSES, max_size=3))
def test_both_writers_write_the_same_but_for_counts_of_0(messages: list[ModelMessage]) -> None:
    assert all(write_quickly(message) for message in messages)
    written = dump_messages(messages)
    slowly = ModelMessagesTypeAdapter.dump_json(messages, exclude_none=True)
    assert ModelMessagesTypeAdapter.validate_json(written) == ModelMessagesTypeAdapter.validate_json(slowly)
    quick, slow = json.loads(written), json.loads(slowly)
    for one, other in zip(quick, slow, strict=True):
        if "usage" in other:
            one["usage"] = with_counts_of_0(one["usage"], other["usage"])
    assert quick == slow


@dataclass
class Found:
    """A result that is no text."""

    pages: int


@pytest.mark.parametrize(
    "message",
    [
        ModelRequest([ToolReturnPart("find", {"pages": 3}, "c")]),
        ModelRequest([ToolReturnPart("find", Found(3), "c")]),
        ModelRequest([ToolReturnPart("find", BinaryContent(b"\xff", media_type="image/png"), "c")]),
        ModelRequest([UserPromptPart(["look", ImageUrl("https://example.org/a.png")])]),
        ModelResponse([TextPart("half of a pair: \ud83d")]),
        ModelResponse([ToolCallPart("find", {"what": "\ud83d"}, "c")]),
    ],
    ids=["object", "dataclass", "file", "prompt with a link", "surrogate", "surrogate in arguments"],
)
def test_the_adapter_writes_what_is_no_text(message: ModelMessage) -> None:
    assert write_quickly(message) is None
    text = ModelRequest([UserPromptPart("before")])
    before, read = ModelMessagesTypeAdapter.validate_json(dump_messages([text, message]))
    assert before == text
    assert read.parts[0].part_kind == message.parts[0].part_kind
