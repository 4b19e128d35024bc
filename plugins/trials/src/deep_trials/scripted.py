"""The models `trials:*`: they play the reference solution of the task under way, whole, hastily, or not at all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias, cast

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from deep_core import tool_facts

__all__ = ["MODELS", "NOTHING", "ScriptedModel", "hasty", "play", "scripted_model"]

Step: TypeAlias = "str | dict[str, Any]"
NOTHING = "I did nothing."
MODELS = ("trials:reference", "trials:hasty", "trials:nothing")
_current: list[Any] = []


def play(script: Any) -> None:
    """Set the script of this process: the answers of a model in `solution/script.json`."""
    _current[:] = [script]


def scripted_model(model_id: str) -> FunctionModel:
    """Return the model of an id that begins with `trials:`."""
    if model_id not in MODELS:
        raise UserError(f"there is no model {model_id!r}. deep-trials has: {', '.join(MODELS)}")
    if model_id == "trials:nothing":
        return ScriptedModel(model_id, [NOTHING])
    if not _current or _current[0] is None:
        raise UserError(f"{model_id} plays solution/script.json, which the task under way does not have")
    return ScriptedModel(model_id, _current[0])


def hasty(steps: Sequence[Step]) -> list[Step]:
    """Return the steps without the last ones that call tools: a model that answers before its work is done."""
    calls = [number for number, step in enumerate(steps) if not isinstance(step, str)]
    return [step for number, step in enumerate(steps) if number not in calls[-1:]]


class ScriptedModel(FunctionModel):
    """Plays `[{"calls": [{"name": …, "args": {…}}]}, …, "the answer"]`, by what the conversation has.

    A script may be `{"steps": […], "subagents": {"words of their task": […]}}`. A step whose tool is not offered
    ends the conversation: this model cannot do without.
    """

    def __init__(self, model_id: str, script: Any) -> None:
        parts = cast("dict[str, Any]", script if isinstance(script, dict) else {"steps": script})
        self._steps: list[Step] = parts["steps"]
        self._subagents: dict[str, list[Step]] = parts.get("subagents", {})
        if model_id == "trials:hasty":
            self._steps = hasty(self._steps)
        super().__init__(self._respond, stream_function=self._stream, model_name=model_id.removeprefix("trials:"))
        self._system = "trials"

    def _answer(self, messages: Sequence[ModelMessage], info: AgentInfo) -> str | list[ToolCallPart]:
        steps = self._steps
        said = _first_prompt(messages)
        for words, theirs in self._subagents.items():
            if words in said:
                steps = theirs
        number = sum(isinstance(message, ModelResponse) for message in messages)
        step = steps[number] if number < len(steps) else "Done."
        if isinstance(step, str):
            return step
        offered = {tool_facts(tool).original: tool.name for tool in info.function_tools}
        calls = cast("list[dict[str, Any]]", step["calls"])
        for call in calls:
            if call["name"] not in offered:
                return f"I cannot go on: there is no tool {call['name']}."
        return [
            ToolCallPart(offered[call["name"]], call.get("args", {}), tool_call_id=f"trial-{number}-{index}")
            for index, call in enumerate(calls)
        ]

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        answer = self._answer(messages, info)
        return ModelResponse(parts=[TextPart(answer)] if isinstance(answer, str) else answer)

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        answer = self._answer(messages, info)
        if isinstance(answer, str):
            yield answer
            return
        for index, part in enumerate(answer):
            yield {index: DeltaToolCall(part.tool_name, json.dumps(part.args), tool_call_id=part.tool_call_id)}


def _first_prompt(messages: Sequence[ModelMessage]) -> str:
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                content: Any = part.content
                return content if isinstance(content, str) else " ".join(map(str, content))
    return ""
