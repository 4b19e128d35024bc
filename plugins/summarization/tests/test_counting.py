"""What messages are taken to cost: every kind of part counts."""

from __future__ import annotations

from typing import Any

import pytest
from deep_summarization import count_tokens_approximately
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    CompactionPart,
    FilePart,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

LONG = "word" * 1_000
"""A thousand tokens."""
PNG = BinaryContent(b"x", media_type="image/png")
REQUEST = [
    SystemPromptPart(LONG),
    UserPromptPart(LONG),
    UserPromptPart(["short", LONG]),
    UserPromptPart([TextContent(LONG), CachePoint()]),
    UserPromptPart([BinaryContent(LONG.encode(), media_type="text/plain")]),
    UserPromptPart([PNG]),
    UserPromptPart([ImageUrl("https://example.com/a.png")]),
    ToolReturnPart("ls", LONG, "1"),
    ToolReturnPart("ls", {"names": [LONG]}, "1"),
    ToolReturnPart("look", [PNG], "1"),
    ToolReturnPart("ls", LONG, "1", outcome="retried"),
    RetryFeedbackPart(LONG, retry=RetryInfo(cause="validation_error")),
]
RESPONSE = [
    TextPart(LONG),
    ThinkingPart(LONG),
    ThinkingPart("", signature=LONG),
    ToolCallPart("write", {"content": LONG}),
    ToolCallPart("write", f'{{"content": "{LONG}"}}'),
    NativeToolCallPart("web_search", {"query": LONG}),
    NativeToolReturnPart("web_search", [{"text": LONG}], "1"),
    CompactionPart(LONG),
    FilePart(PNG),
]


def named(part: Any) -> str:
    return type(part).__name__


@pytest.mark.parametrize("part", REQUEST, ids=named)
def test_every_part_of_a_request_counts(part: Any) -> None:
    assert 1_000 <= count_tokens_approximately([ModelRequest([part])]) < 2_000


@pytest.mark.parametrize("part", RESPONSE, ids=named)
def test_every_part_of_a_response_counts(part: Any) -> None:
    assert 1_000 <= count_tokens_approximately([ModelResponse([part])]) < 2_000
