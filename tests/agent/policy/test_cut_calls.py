"""Tests of calls whose arguments were cut at the model's limit of tokens."""

from __future__ import annotations

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core.agent.policy.cut_calls import CUT
from tests.plugins_by_hand import agent_of, run


@pytest.mark.parametrize("args", ['{"city": "Os', "{}", "", '{"city": "Oslo"}', {"city": "Oslo"}])
def test_the_call_that_a_cut_answer_ends_with_does_not_run(args: str | dict[str, str]) -> None:
    ran: list[str] = []

    def forecast(city: str = "") -> str:
        ran.append(city)
        return "sunny"

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse([TextPart("end")], finish_reason="stop")
        calls = [ToolCallPart("forecast", {"city": "Rome"}, "1"), ToolCallPart("forecast", args, "2")]
        return ModelResponse(calls, finish_reason="length")

    agent = agent_of(model=FunctionModel(answer), tools=[forecast])
    result = run(agent)

    assert ran == ["Rome"]
    returns = [part for message in result.all_messages() for part in message.parts if hasattr(part, "tool_call_id")]
    assert CUT in str([getattr(part, "content", "") for part in returns])
