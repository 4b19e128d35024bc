"""Whatever the history: nothing is torn apart, and it becomes smaller."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from deep_summarization import SummarizationProcessor, count_tokens_approximately, is_summary
from deep_summarization.counting import message_chars
from deep_summarization.cutting import safe_cuts
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from plugins.summarization.tests.histories import Writer, histories, orphans, talk
from tests.drawn import examples

SIZES = st.one_of(
    st.tuples(st.just("messages"), st.integers(1, 30)),
    st.tuples(st.just("tokens"), st.integers(1, 800)),
    st.tuples(st.just("fraction"), st.floats(0.05, 1)),
)
MANY = settings(max_examples=examples(120))


def chars(history: list[ModelMessage]) -> int:
    """The size in characters. The processor adds up whole tokens of each message, so of the sum nothing is rounded."""
    return sum(map(message_chars, history))


@pytest.mark.slow
def test_no_call_loses_its_result_and_the_size_falls() -> None:
    compacted = {True: 0, False: 0}

    @MANY
    @given(histories(), SIZES, SIZES, st.sampled_from([200, 1_000, 60_000]))
    # The draws may leave every history alone; this one is always compacted.
    @example(talk(20), ("messages", 3), ("messages", 2), 1_000)
    def holds(history: Any, trigger: Any, keep: Any, window: int) -> None:
        processor = SummarizationProcessor(Writer("short"), trigger=trigger, keep=keep, max_input_tokens=window)
        before = ModelMessagesTypeAdapter.dump_json(history)
        handed = [*history]
        result = asyncio.run(processor(handed))
        assert ModelMessagesTypeAdapter.dump_json(history) == before, "no message was changed in place"
        compacted[result is not handed] += 1
        if result is handed:
            assert all(a is b for a, b in zip(handed, history, strict=True))
            return
        lost, waiting = orphans(result)
        assert lost == []
        assert waiting == orphans(history)[1], "only what waited before waits now"
        assert chars(result) < chars(history)
        assert all(a is b for a, b in zip(result[1:], history[-len(result) + 1 :], strict=True)), (
            "the tail is untouched"
        )
        assert isinstance(result[0], ModelRequest)
        assert any(map(is_summary, result[0].parts))

    holds()
    assert compacted[True], compacted


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.lists(histories(waiting_calls=False), min_size=2, max_size=4), SIZES)
def test_nothing_comes_apart_when_what_was_summarised_grows_and_is_summarised_again(parts: Any, keep: Any) -> None:
    processor = SummarizationProcessor(Writer("short"), trigger=("messages", 3), keep=keep, max_input_tokens=1_000)
    history: list[ModelMessage] = []
    for part in parts:
        before = [*history, *part]
        history = asyncio.run(processor(before))
        assert orphans(history) == ([], [])
        if history is not before:
            assert chars(history) < chars(before)
            assert sum(is_summary(part) for message in history for part in message.parts) == 1
        history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))


@pytest.mark.slow
@MANY
@given(histories())
def test_a_cut_is_safe_exactly_where_no_call_is_open(history: list[ModelMessage]) -> None:
    safe = set(safe_cuts(history))
    _, waiting = orphans(history)
    for index in range(1, len(history)):
        torn = orphans(history[index:])[0] != [] or orphans(history[:index])[1] != []
        assert (index in safe) == (not torn), index
    assert not waiting or max(safe) <= max(i for i, m in enumerate(history) if isinstance(m, ModelResponse))


@pytest.mark.anyio
async def test_a_single_long_turn_is_cut_inside_and_keeps_its_request() -> None:
    steps: list[ModelMessage] = []
    for number in range(60):
        steps.append(ModelResponse(parts=[ToolCallPart("look", {"n": number}, f"c{number}")]))
        steps.append(ModelRequest(parts=[ToolReturnPart("look", "x" * 400, f"c{number}")]))
    history = [ModelRequest(parts=[UserPromptPart("Tidy /srv/data, please.")]), *steps]
    result = await SummarizationProcessor(Writer(), max_input_tokens=6_000)(history)
    assert len(result) <= 22
    assert "Tidy /srv/data, please." in str(result[0])
    assert orphans(result) == ([], [])


@pytest.mark.anyio
async def test_a_few_huge_messages_are_cut_although_fewer_than_keep_counts() -> None:
    history = talk(4, chars=24_000)
    result = await SummarizationProcessor(Writer(), max_input_tokens=50_000)(history)
    assert count_tokens_approximately(result) < 25_000
    assert result[-1] is history[-1]


@pytest.mark.anyio
async def test_messages_too_short_to_count_as_a_token_are_no_error() -> None:
    history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("hi")]), ModelResponse(parts=[TextPart("yes")])]
    history.append(ModelRequest(parts=[UserPromptPart("go")]))
    assert await SummarizationProcessor(Writer("s"), trigger=("messages", 2), keep=("messages", 1))(history) is history


@pytest.mark.anyio
async def test_what_keep_covers_is_left_alone() -> None:
    history = talk(4)
    processor = SummarizationProcessor(Writer(), trigger=("messages", 5), keep=("messages", 20))
    assert await processor(history) is history


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("keep", "kept"),
    [(("messages", 3), 3), (("tokens", 350), 3), (("fraction", 0.0117), 3)],
)
async def test_keep_in_each_of_its_terms(keep: Any, kept: int) -> None:
    history = talk(10, chars=590)  # about 150 tokens a message, the last one 4
    processor = SummarizationProcessor(Writer(), trigger=("messages", 5), keep=keep, max_input_tokens=30_000)
    assert len(await processor(history)) == 1 + kept


@pytest.mark.anyio
async def test_several_triggers_mean_any_of_them() -> None:
    history = talk(5)
    none = SummarizationProcessor(Writer(), trigger=[("messages", 99), ("tokens", 9_000)], keep=("messages", 2))
    assert await none(history) is history
    one = SummarizationProcessor(Writer(), trigger=[("messages", 99), ("tokens", 900)], keep=("messages", 2))
    assert len(await one(history)) == 3


@pytest.mark.anyio
async def test_a_reused_call_id_belongs_to_the_latest_call() -> None:
    def step(text: str) -> list[ModelMessage]:
        call = ModelResponse(parts=[ToolCallPart("t", {}, "same")])
        return [call, ModelRequest(parts=[ToolReturnPart("t", text * 200, "same")])]

    history: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("go")]), *step("a"), *step("b"), *step("c")]
    assert safe_cuts(history) == [1, 3, 5]
    result = await SummarizationProcessor(Writer(), trigger=("messages", 5), keep=("messages", 3))(history)
    assert result[1:] == history[-4:], "three messages would begin with a result; four begin with its call"
    assert isinstance(result[1].parts[0], ToolCallPart)
