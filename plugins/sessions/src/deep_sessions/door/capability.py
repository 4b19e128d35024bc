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

from ..patches import common_start
from .plain import has_null, is_plain, passed_result
from .slot import PASSED, Passed
from .text import clean

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
        stored = _cleaned(ctx.messages, passed.stored, known, done, passed)
        sent = stored
        if request_context.messages is not ctx.messages:
            sent = _cleaned(request_context.messages, passed.sent, known, done, passed)
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
        known = _names(parameters)
        if not is_plain(response, known):
            from .messages import clean_response

            response = clean_response(response, known)
        if any(isinstance(part, ToolCallPart) and has_null(part.args) for part in response.parts):
            from .nulls import without_null_arguments

            tools = [*parameters.function_tools, *parameters.output_tools]
            return without_null_arguments(response, {tool.name: tool.parameters_json_schema for tool in tools})
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
        return passed_result(tool_def.name, result)


def _names(parameters: ModelRequestParameters) -> frozenset[str]:
    return frozenset([tool.name for tools in (parameters.function_tools, parameters.output_tools) for tool in tools])


def _cleaned(
    messages: Sequence[ModelMessage],
    passed: Sequence[ModelMessage],
    known: frozenset[str],
    done: dict[int, ModelMessage],
    noted: Passed,
) -> list[ModelMessage]:
    same = common_start(messages, passed, is_)  # what is old costs nothing at each request
    out = [*messages[:same]]
    for message in messages[same:]:
        if id(message) not in done:
            done[id(message)] = message if is_plain(message, known) else _looked_at(message, known, noted)
        out.append(done[id(message)])
    return out


def _looked_at(message: ModelMessage, known: frozenset[str], noted: Passed) -> ModelMessage:
    from .messages import clean_message

    noted.has_files = True  # a message with one is not plain
    return clean_message(message, known)


def _clean_instructions(request: ModelRequestContext) -> None:
    parameters = request.model_request_parameters
    parts = parameters.instruction_parts or []
    text = "".join([part.content for part in parts])
    if clean(text) is text:
        return
    made = [part if (text := clean(part.content)) is part.content else replace(part, content=text) for part in parts]
    request.model_request_parameters = replace(parameters, instruction_parts=made)
