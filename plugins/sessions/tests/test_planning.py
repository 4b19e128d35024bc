"""An agent in plan mode has a plan, or answers without one."""

from __future__ import annotations

import pytest
from deep_sessions import MODE, PLAN, Run, SessionInfo, has_plan
from deep_sessions.fold import Fold, History
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart

SESSION = SessionInfo("s", None, "idle", 0.0, 0.0, 0)


def run(*parts: TextPart | ToolCallPart, earlier: str = "", mode: str = PLAN) -> Fold:
    """A session after a run with these parts as its answers, and an earlier one that said a text."""
    messages: list[ModelMessage] = [ModelRequest([UserPromptPart("Hello.")], run_id="one")]
    messages.append(ModelResponse([TextPart(earlier)], run_id="one"))
    messages.append(ModelRequest([UserPromptPart("Go on.")], run_id="two"))
    for part in parts:
        messages.append(ModelResponse([part], run_id="two"))
        messages.append(ModelRequest([UserPromptPart("a live section, or what a person said meanwhile")], run_id="two"))
    return Fold(SESSION, histories={"": History(messages)}, run=Run("two", labels={MODE: mode}))


@pytest.mark.parametrize(
    "text",
    [
        "I looked.\n\n## Plan\n\n1. Write it.",
        "Plan: rename it.",
        "**Plan:**\n- rename it",
        "# The plan\nRename it.",
        "Here is my plan:\n1. Rename it.",
        "PLAN\nRename it.",
    ],
)
def test_an_answer_with_the_heading_is_a_plan(text: str) -> None:
    assert has_plan(run(TextPart(text)))
    assert not has_plan(run(TextPart(text), mode="ask"))


@pytest.mark.parametrize(
    "text",
    ["It is empty.", "There is no plan yet.", "In plan mode I only read.", "I planned: nothing.", "planet: Mars", ""],
)
def test_another_answer_is_none_whatever_was_planned_before(text: str) -> None:
    assert not has_plan(run(TextPart(text), earlier="## Plan"))


@pytest.mark.parametrize("name", ["write_todos", "todo_write_todos"])
def test_written_todos_are_a_plan(name: str) -> None:
    assert has_plan(run(ToolCallPart(name, {"todos": []}), TextPart("Done.")))
    assert not has_plan(run(ToolCallPart("read_todos", {}), TextPart("Done.")))


def test_a_session_without_a_run_has_none_and_a_long_answer_is_read_once() -> None:
    assert not has_plan(Fold(SESSION))
    assert not has_plan(run(TextPart("a " * 500_000 + "\n" * 500_000 + "#" * 500_000)))
