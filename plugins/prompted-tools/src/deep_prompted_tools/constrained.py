"""Replies that a server holds to a JSON schema: one call of an offered tool, or an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from deep_universe import ReasoningTag, ToolCall
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.output import OutputObjectDefinition

from .reply_parts import THINKING

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    from .reply import Piece, ReplyReader

__all__ = ["ConstrainedReader", "Reader", "asked_for", "calls_schema", "held_to"]

ANSWER = "answer"
REASONING = "reasoning"
DEFINITIONS = "#/$defs/"
HOW = (
    'Reply with one JSON object now: {"name": …, "arguments": {…}} to call a tool, or {"answer": "…"} with your whole '
    "answer."
)
OUTPUT = "Give this answer as one JSON object that fits the parameters of {name}, and nothing else."


def calls_schema(tools: Sequence[ToolDefinition], *, answers: bool, thinks: bool) -> dict[str, Any]:
    """Return the schema of a reply.

    Args:
        tools: what may be called.
        answers: whether the reply may be an answer.
        thinks: whether the model reasons: its reasoning comes first, because what is decided cannot be reasoned about.
    """
    definitions: dict[str, Any] = {}
    options = [_call(tool, definitions) for tool in tools]
    if answers:
        options.append({ANSWER: {"type": "string"}})
    before: dict[str, Any] = {REASONING: {"type": "string"}} if thinks else {}
    objects = [
        {
            "type": "object",
            "properties": {**before, **properties},
            "required": [*before, *properties],
            "additionalProperties": False,
        }
        for properties in options
    ]
    schema: dict[str, Any] = objects[0] if len(objects) == 1 else {"anyOf": objects}
    return {**schema, "$defs": definitions} if definitions else schema


def _call(tool: ToolDefinition, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = deepcopy(tool.parameters_json_schema)
    own = cast("dict[str, Any]", schema.pop("$defs", {}))
    # Two tools may have a definition of one name.
    definitions.update({f"{tool.name}.{name}": _renamed(each, tool.name) for name, each in own.items()})
    return {"name": {"type": "string", "enum": [tool.name]}, "arguments": _renamed(schema, tool.name)}


def _renamed(schema: Any, tool: str) -> Any:
    if isinstance(schema, list):
        return [_renamed(each, tool) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    out = {key: _renamed(value, tool) for key, value in cast("dict[str, Any]", schema).items()}
    reference = out.get("$ref")
    if isinstance(reference, str) and reference.startswith(DEFINITIONS):
        out["$ref"] = f"{DEFINITIONS}{tool}.{reference.removeprefix(DEFINITIONS)}"
    return out


def held_to(parameters: ModelRequestParameters, schema: dict[str, Any]) -> ModelRequestParameters:
    """Return the parameters of a request whose reply the server holds to a schema."""
    return replace(
        parameters,
        output_mode="native",
        output_object=OutputObjectDefinition(json_schema=schema, name="reply", strict=False),
    )


def asked_for(sent: Sequence[ModelMessage], response: ModelResponse, output: str | None) -> list[ModelMessage]:
    """Return the messages that ask for what the schema holds, after a reply that was something else.

    Args:
        sent: the messages so far.
        response: the reply.
        output: the tool that takes the answer; None for any call.
    """
    words = HOW if output is None else OUTPUT.format(name=output)
    last = sent[-1] if sent else None
    if output is None and isinstance(last, ModelRequest) and not response.parts:
        return [*sent]
    return [*sent, response, ModelRequest(parts=[UserPromptPart(words)])]


class ConstrainedReader:
    """Reads a reply that a server held to a schema; one that it did not hold is read in the dialect.

    Args:
        tools: what may be called.
        otherwise: makes a reader in the dialect.
        output: the tool whose parameters are the schema; None where the reply names its tool.
    """

    def __init__(
        self, tools: Sequence[ToolDefinition], otherwise: Callable[[], ReplyReader], output: str | None = None
    ) -> None:
        self._names = frozenset(tool.name for tool in tools)
        self._otherwise, self._output = otherwise, output
        self._parts: list[str] = []

    def feed(self, chunk: str) -> list[Piece]:
        """Keep a chunk: what it means is known at the end."""
        self._parts.append(chunk)
        return []

    def finish(self) -> list[Piece]:
        """Return the call, or the answer."""
        text = "".join(self._parts)
        try:
            value: object = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            found = self._read(cast("dict[str, Any]", value))
            if found is not None:
                return found
        reader = self._otherwise()
        return [*reader.feed(text), *reader.finish()]

    def _read(self, value: dict[str, Any]) -> list[Piece] | None:
        if self._output is not None and "name" not in value:
            return [ToolCall("", self._output, value)]
        reasoning = value.get(REASONING)
        thought: list[Piece] = []
        if isinstance(reasoning, str) and reasoning.strip():
            thought = [ReasoningTag(THINKING[0]), reasoning, ReasoningTag(THINKING[1])]
        if isinstance(answer := value.get(ANSWER), str):
            return [*thought, answer]
        name, arguments = value.get("name"), value.get("arguments")
        if name in self._names and isinstance(arguments, dict):
            return [*thought, ToolCall("", str(name), cast("dict[str, Any]", arguments))]
        return None


Reader = Callable[[], "ReplyReader | ConstrainedReader"]
"""Makes the reader of one text."""
