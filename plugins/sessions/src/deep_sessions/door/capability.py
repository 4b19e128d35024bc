"""The capability that is the door: around every tool's result, before each request and after each reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelRetry, ToolFailed, ToolFailedError, ToolRetryError
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.tools import RunContext, ToolDefinition

from deep_core import DeepAgentDeps

from .messages import clean_message, clean_response, with_parts
from .nulls import without_nulls
from .slot import PASSED, Passed
from .text import clean
from .values import clean_result

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext, ModelRequestParameters

__all__ = ["Door"]


class Door(AbstractCapability[Any]):
    """Makes what enters a conversation such that every provider can be sent it."""

    id = "deep.sessions.door"
    shares_context = True
    """It emits no events, so it needs no context of its own (decision 0010)."""

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to its agent."""
        return None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Look at what the conversation has new since the last request: prompts, results, and what was loaded."""
        deps: object = ctx.deps
        passed = deps.state[PASSED] if isinstance(deps, DeepAgentDeps) else Passed()
        known = _names(request_context.model_request_parameters)
        done: dict[int, ModelMessage] = {}  # both lists hold the same messages
        stored = _cleaned(ctx.messages, passed.stored, known, done)
        sent = stored
        if request_context.messages is not ctx.messages:
            sent = _cleaned(request_context.messages, passed.sent, known, done)
        if not all(map(is_, stored, ctx.messages)):
            ctx.messages[:] = stored
        if not all(map(is_, sent, request_context.messages)):
            request_context.messages = sent
        passed.stored, passed.sent = stored, sent
        _clean_instructions(request_context)
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Look at the reply, and leave out each null that stands for an argument that is not given."""
        parameters = request_context.model_request_parameters
        response = clean_response(response, _names(parameters))
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        if not calls:
            return response
        schemas = {tool.name: tool.parameters_json_schema for tool in _tools(parameters)}
        made: dict[int, ToolCallPart[Any]] = {}
        for call in calls:
            given: Any = call.args
            args = without_nulls(given, schemas.get(call.tool_name, {}))
            if args is not given:
                made[id(call)] = replace(call, args=args)
        if made:
            return with_parts(response, [made.get(id(part), part) for part in response.parts])
        return response

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Look at the result of a tool, of whatever source, and at the words with which it failed."""
        try:
            result = await handler(args)
        except (ToolFailed, ModelRetry) as error:
            error.message = clean(error.message)
            raise
        except (ToolFailedError, ToolRetryError) as error:
            part = error.tool_failed if isinstance(error, ToolFailedError) else error.tool_retry
            if isinstance(part.content, str):
                part.content = clean(part.content)
            raise
        return clean_result(tool_def.name, result)


def _tools(parameters: ModelRequestParameters) -> list[ToolDefinition]:
    return [*parameters.function_tools, *parameters.output_tools]


def _names(parameters: ModelRequestParameters) -> frozenset[str]:
    return frozenset(tool.name for tool in _tools(parameters))


def _cleaned(
    messages: Sequence[ModelMessage],
    passed: Sequence[ModelMessage],
    known: frozenset[str],
    done: dict[int, ModelMessage],
) -> list[ModelMessage]:
    known_ones = min(len(messages), len(passed))
    # Without a Python call for each message: what is old costs nothing at each request.
    same = next((at for at, is_same in enumerate(map(is_, messages, passed)) if not is_same), known_ones)
    out = [*messages[:same]]
    for message in messages[same:]:
        if id(message) not in done:
            done[id(message)] = clean_message(message, known)
        out.append(done[id(message)])
    return out


def _clean_instructions(request: ModelRequestContext) -> None:
    parameters = request.model_request_parameters
    parts = parameters.instruction_parts or []
    made = [part if (text := clean(part.content)) is part.content else replace(part, content=text) for part in parts]
    if any(new is not old for new, old in zip(made, parts, strict=True)):
        request.model_request_parameters = replace(parameters, instruction_parts=made)
