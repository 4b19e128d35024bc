"""Arguments that do not fit a tool are told with what is wrong, and not with all that was given."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import Kernel, create_default_deps

LONG = "x" * 100_000


def _even(value: int) -> int:
    if value % 2:
        raise ValueError(f"{{{value}}} is odd")
    return value


def save(path: str, content: str, number: Annotated[int, AfterValidator(_even)] = 0) -> str:
    """Save a file."""
    return path


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"file_path": "a", "content": LONG}, ["missing", "Field required", "file_path", "xxx..."]),
        ({"path": "a", "content": "b", "number": LONG}, ["int_parsing", "valid integer"]),
        ({"path": "a", "content": [LONG]}, ["string_type", "valid string"]),
        ({"path": "a", "content": LONG, "number": 3}, ["value_error", "{3} is odd"]),
        ({"path": "a"}, ["missing", "'path': 'a'"]),
    ],
)
def test_what_the_model_reads_is_bounded(arguments: dict[str, Any], told: list[str]) -> None:
    requests: list[list[ModelMessage]] = []

    def step(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        requests.append(messages)
        if len(requests) > 1:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("save", arguments)])

    agent = Kernel(discover=False).create_agent(FunctionModel(step), tools=[save])
    asyncio.run(agent.run("go", deps=create_default_deps()))
    text = str(requests[1][-1].parts)
    assert len(text) < 3000
    assert all(part in text for part in told)
