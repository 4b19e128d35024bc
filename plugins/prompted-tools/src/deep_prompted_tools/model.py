"""A model without tool calls that can call tools: they are written into its instructions and read from its text."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from deep_universe import InvalidCall
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.profiles import DEFAULT_PROFILE, ModelProfile
from pydantic_ai.settings import ModelSettings, ToolOrOutput
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.usage import RequestUsage

from .constrained import ConstrainedReader, Reader, asked_for, calls_schema, held_to
from .history import mark_invalid
from .prompting import Dialect, correction
from .reply import ReplyReader
from .reply_parts import read_parts
from .stream import PromptedStream

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["PromptedModel"]

REFUSED = (400, 404, 415, 422, 500, 501)
"""How servers refuse `response_format`, or a schema that their grammars cannot express."""
DROPPED = ("tool_choice", "parallel_tool_calls")
"""Settings that a provider refuses without tools."""


@dataclass(frozen=True)
class _Turn:
    """One request as the model gets it.

    Attributes:
        messages: the history, in the dialect.
        settings: without those about tools.
        parameters: without tools.
        tools: what the model may call; empty if it has no tools.
        output: the tool that must be called for the run to end, if it is one.
        answers: whether the reply may be text.
    """

    messages: list[ModelMessage]
    settings: ModelSettings | None
    parameters: ModelRequestParameters
    tools: list[ToolDefinition]
    output: ToolDefinition | None = None
    answers: bool = True


class _Attempts:
    """The attempts of one turn: what is sent, and what reads the reply.

    Args:
        model: the model that is asked.
        dialect: how it writes a call.
        turn: the request.
    """

    def __init__(self, model: Model[Any], dialect: Dialect, turn: _Turn) -> None:
        self._dialect, self._turn = dialect, turn
        self._left = dialect.retries
        self._can_constrain = bool(turn.tools) and turn.parameters.output_mode != "native" and _holds(model)
        self._thinks = bool(_profile(model).get("supports_thinking"))
        self.messages, self.parameters = turn.messages, turn.parameters
        self.is_constrained = False
        self.reader: Reader = self._plain
        if dialect.constrain == "always" and self._can_constrain:
            self._constrain(None)

    @property
    def needs_output(self) -> bool:
        """Whether a text is asked about again: only a call of the output tool ends the run."""
        return self._turn.output is not None and self._may_constrain

    @property
    def _may_constrain(self) -> bool:
        return self._can_constrain and self._dialect.constrain != "never"

    def again(self, response: ModelResponse, invalid: Sequence[InvalidCall]) -> bool:
        """Prepare the next attempt after a reply without a call; return False if there is none."""
        if not self._left or not (invalid or self.needs_output):
            return False
        self._left -= 1
        if invalid:
            self.messages = _asked_again(self.messages, response, invalid)
        if self._may_constrain:
            output = None if invalid else self._turn.output
            if not invalid:
                self.messages = asked_for(self.messages, response, output.name if output else None)
            self._constrain(output)
        return True

    def refused(self) -> bool:
        """Note that the server does not take a schema; return False if it was sent none."""
        if not self.is_constrained:
            return False
        self._dialect.constrain = "never"
        self.is_constrained, self.parameters, self.reader = False, self._turn.parameters, self._plain
        return True

    def _plain(self) -> ReplyReader:
        return ReplyReader(self._dialect.driver, self._turn.tools)

    def _constrain(self, output: ToolDefinition | None) -> None:
        turn = self._turn
        schema = (
            calls_schema(turn.tools, answers=turn.answers, thinks=self._thinks)
            if output is None
            else output.parameters_json_schema
        )
        self.is_constrained, self.parameters = True, held_to(turn.parameters, schema)
        self.reader = lambda: ConstrainedReader(turn.tools, self._plain, output.name if output else None)


class PromptedModel(WrapperModel):
    """A model whose tools are text.

    Args:
        wrapped: the model.
        dialect: how it writes a call.
    """

    def __init__(self, wrapped: Model[Any], dialect: Dialect) -> None:
        super().__init__(wrapped)
        self._dialect = dialect

    @cached_property
    def profile(self) -> ModelProfile:  # type: ignore[override]
        """The model's profile, with tools: Pydantic AI refuses tool output otherwise."""
        profile = _profile(self.wrapped)
        native = profile.get("supported_native_tools", frozenset[Any]())
        found_later = {"tool_deferral_mode": None, "tool_addition_mode": None}
        # A tool that is found later is described like every other one, so the search is ours too.
        without_search = frozenset(tool for tool in native if tool.kind != "tool_search")
        own = {**found_later, "supports_tools": True, "supported_native_tools": without_search}
        return cast("ModelProfile", {**profile, **own})

    def prepare_request(
        self, model_settings: ModelSettings | None, model_request_parameters: ModelRequestParameters
    ) -> tuple[ModelSettings | None, ModelRequestParameters]:
        """Prepare a request by this model's profile, not by the wrapped one's, which has no tools."""
        return Model.prepare_request(self, model_settings, model_request_parameters)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request; ask again after calls written wrongly."""
        turn = self._turn(messages, model_settings, model_request_parameters)
        attempts, spent = _Attempts(self.wrapped, self._dialect, turn), RequestUsage()
        while True:
            try:
                response = await self.wrapped.request(attempts.messages, turn.settings, attempts.parameters)
            except ModelHTTPError as error:
                if error.status_code in REFUSED and attempts.refused():
                    continue
                raise
            if not turn.tools:
                return response
            spent = spent + response.usage
            parts, invalid = read_parts(response.parts, attempts.reader)
            called = any(isinstance(part, ToolCallPart) for part in parts)
            if called or not (invalid or attempts.needs_output):
                reply = replace(response, parts=parts, usage=spent, finish_reason=_finish(response, called))
                return mark_invalid(reply, invalid) if invalid else reply
            if not attempts.again(response, invalid):
                return replace(response, usage=spent)  # the text stands

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Send a request and stream what its reply shows."""
        turn = self._turn(messages, model_settings, model_request_parameters)
        attempts = _Attempts(self.wrapped, self._dialect, turn)
        async with AsyncExitStack() as stack:

            async def send() -> StreamedResponse:
                while True:
                    request = (attempts.messages, turn.settings, attempts.parameters, run_context)
                    try:
                        return await stack.enter_async_context(self.wrapped.request_stream(*request))
                    except ModelHTTPError as error:
                        if error.status_code not in REFUSED or not attempts.refused():
                            raise

            async def ask_again(response: ModelResponse, invalid: Sequence[InvalidCall]) -> StreamedResponse | None:
                return await send() if attempts.again(response, invalid) else None

            inner = await send()
            if not turn.tools:
                yield inner
                return
            yield PromptedStream(
                model_request_parameters, inner, lambda: attempts.reader(), ask_again, attempts.needs_output
            )

    async def count_tokens(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> RequestUsage:
        """Count what is sent."""
        turn = self._turn(messages, model_settings, model_request_parameters)
        return await self.wrapped.count_tokens(turn.messages, turn.settings, turn.parameters)

    def _turn(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> _Turn:
        resolved = self.prepare_request(None, parameters)[1]
        choice = (settings or {}).get("tool_choice")
        functions = _chosen(resolved.declared_function_tools, choice)
        outputs = _outputs(resolved.output_tools, choice)
        tools = [*functions, *outputs]
        mode = resolved.output_mode
        if mode == "tool":
            mode = "text"
        elif mode == "native" and functions:
            mode = "prompted"  # a model bound to the schema cannot write a call
        written = self._dialect.history.rewrite(messages)
        sent = replace(
            parameters,
            function_tools=[],
            output_tools=[],
            tool_visibility={},
            allow_text_output=True,
            output_mode=mode,
            output_object=parameters.output_object if mode in ("native", "prompted") else None,
            instruction_parts=(
                self._dialect.instructions(messages, parameters.instruction_parts, tools)
                if tools
                else parameters.instruction_parts
            ),
        )
        # A call of a tool that is there but not found yet is Pydantic AI's to answer: it says what to do first.
        callable_tools = [*_chosen(resolved.function_tools, choice), *outputs] if tools else []
        text = resolved.allow_text_output and choice != "required"
        output = outputs[0] if len(outputs) == 1 and not text and tools else None
        return _Turn(written, _without_tools(settings), sent, callable_tools, output, text)


def _profile(model: Model[Any]) -> ModelProfile:
    try:
        return model.profile
    except NotImplementedError:  # FallbackModel has none
        return DEFAULT_PROFILE


def _holds(model: Model[Any]) -> bool:
    """Whether a model's server holds replies to a schema."""
    return bool(_profile(model).get("supports_json_schema_output"))


def _without_tools(settings: ModelSettings | None) -> ModelSettings | None:
    if not settings or not any(key in settings for key in DROPPED):
        return settings
    return cast("ModelSettings", {key: value for key, value in settings.items() if key not in DROPPED})


def _chosen(tools: list[ToolDefinition], choice: Any) -> list[ToolDefinition]:
    """Return the function tools that the setting `tool_choice` leaves."""
    if choice is None or choice in ("auto", "required"):
        return tools
    names = choice.function_tools if isinstance(choice, ToolOrOutput) else [] if choice == "none" else choice
    return [tool for tool in tools if tool.name in names]


def _outputs(tools: list[ToolDefinition], choice: Any) -> list[ToolDefinition]:
    """Return the output tools that the setting `tool_choice` leaves."""
    if choice == "required":
        return []
    return [tool for tool in tools if tool.name in choice] if isinstance(choice, list) else tools


def _asked_again(
    sent: Sequence[ModelMessage], response: ModelResponse, invalid: Sequence[InvalidCall]
) -> list[ModelMessage]:
    return [*sent, response, correction(invalid)]


def _finish(response: ModelResponse, called: bool) -> Any:
    return "tool_call" if called and response.finish_reason == "stop" else response.finish_reason
