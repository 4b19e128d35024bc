"""Models of plugins of `llm`, by name: `llm:DISTRIBUTION:MODEL`. A plugin is imported alone, and only when named."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import anyio.to_thread
from pydantic_ai.exceptions import ModelAPIError, UserError
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from deep_core.plugin_api import suggest

from .hosts import LLM, llm_plugin
from .problems import EntryError, explain_import_error

__all__ = ["llm_model"]

OLD = "it needs a newer llm, whose models take whole conversations: pip install -U llm"


class LlmModel(FunctionModel):
    """A model of a plugin of `llm`.

    Args:
        name: as it was named.
        model: the plugin's.
        is_async: whether it is one of `llm`'s asynchronous models, which stream here.
    """

    def __init__(self, name: str, model: Any, *, is_async: bool) -> None:
        self._model, self._is_async = model, is_async
        has_tools, has_schema = bool(model.supports_tools), bool(model.supports_schema)
        profile = ModelProfile(
            supports_tools=has_tools,
            supports_json_schema_output=has_schema,
            default_structured_output_mode="tool" if has_tools else "native" if has_schema else "prompted",
        )
        super().__init__(self._answer, stream_function=self._stream, model_name=name, profile=profile)

    @property
    def system(self) -> str:
        """The system that traces name."""
        return "llm"

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        response = self._prompt(messages, info, stream=False)
        try:
            if self._is_async:
                text, calls, usage = await response.text(), await response.tool_calls(), await response.usage()
            else:
                text, calls, usage = await anyio.to_thread.run_sync(_read, response, abandon_on_cancel=True)
        except Exception as error:
            raise self._failure(error) from error
        parts = [_call(call) for call in calls]
        spent = RequestUsage(input_tokens=usage.input or 0, output_tokens=usage.output or 0)
        return ModelResponse([*([TextPart(text)] if text or not parts else []), *parts], usage=spent)

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        if not self._is_async:  # it would hold the loop, or a thread that nothing can stop between two pieces
            whole = await self._answer(messages, info)
            if text := whole.text:
                yield text
            for index, part in enumerate(whole.tool_calls):
                yield {index: _delta(part)}
            return
        response = self._prompt(messages, info, stream=True)
        try:
            async for piece in response:
                yield piece
            calls = await response.tool_calls()
        except Exception as error:
            raise self._failure(error) from error
        for index, call in enumerate(calls):
            yield {index: _delta(_call(call))}

    def _prompt(self, messages: Sequence[ModelMessage], info: AgentInfo, *, stream: bool) -> Any:
        llm = importlib.import_module("llm")
        tools = [
            llm.Tool(tool.name, tool.description or "", tool.parameters_json_schema)
            for tool in (*info.function_tools, *info.output_tools)
        ]
        said = [*_messages(messages, info.instructions or "")]
        # Plugins that read single fields see the last turn.
        system = "\n\n".join(part.text for message in said if message.role == "system" for part in message.parts)
        last = said[-1]
        asked = last.parts if last.role == "user" else []
        texts = [part.text for part in asked if hasattr(part, "text")]
        attachments = [part.attachment for part in asked if hasattr(part, "attachment")]
        results = [
            llm.ToolResult(part.name, part.output, tool_call_id=part.tool_call_id)
            for message in said[-2:]
            if message.role == "tool"
            for part in message.parts
        ]
        wanted = info.model_request_parameters
        schema = wanted.output_object.json_schema if wanted.output_mode == "native" and wanted.output_object else None
        fields = self._model.Options.model_fields
        given = {key: value for key, value in (info.model_settings or {}).items() if key in fields}
        try:
            return self._model.prompt(
                "\n\n".join(texts),
                system=system or None,
                tools=tools or None,
                attachments=attachments or None,
                schema=schema,
                tool_results=results or None,
                messages=said,
                stream=stream and bool(self._model.can_stream),
                **given,
            )
        except Exception as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> Exception:
        if type(error).__name__ == "NeedsKeyException":
            return UserError(f"{self.model_name}: {error}: llm keys set NAME")
        return ModelAPIError(self.model_name, f"{type(error).__name__}: {error}")


def _read(response: Any) -> tuple[str, list[Any], Any]:
    return response.text(), response.tool_calls(), response.usage()


def _call(call: Any) -> ToolCallPart:
    made = ToolCallPart(call.name, call.arguments)
    return replace(made, tool_call_id=call.tool_call_id) if call.tool_call_id else made


def _delta(part: ToolCallPart) -> DeltaToolCall:
    return DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)


def llm_model(model_id: str) -> LlmModel:
    """Return a model of an installed plugin of `llm`.

    Args:
        model_id: `llm:DISTRIBUTION:MODEL`, or `llm:DISTRIBUTION` where it has one.

    Raises:
        EntryError: it is not installed, fails, or has no such model; the message says what to type.
    """
    point, wanted = llm_plugin(model_id)
    try:
        plugin = point.load()
        importlib.import_module("llm.parts")
    except ModuleNotFoundError as error:
        raise (
            EntryError("incompatible", f"{model_id}: {OLD}")
            if error.name == "llm.parts"
            else explain_import_error(error, model_id, point.module)
        ) from error
    except (Exception, SystemExit) as error:
        raise EntryError("failed", f"{model_id}: its import raised {type(error).__name__}: {error}") from error
    models: dict[str, tuple[Any, bool]] = {}
    other: dict[str, Any] = {}

    def register(model: Any, async_model: Any = None, aliases: Sequence[str] | None = None) -> None:
        chosen = model if async_model is None else async_model
        models[chosen.model_id] = (chosen, async_model is not None)
        other.update(dict.fromkeys(aliases or (), chosen.model_id))

    hook = getattr(plugin, "register_models", None)
    try:
        if hook is not None:
            hook(register)
    except (Exception, SystemExit) as error:
        raise EntryError("failed", f"{model_id}: register_models raised {type(error).__name__}: {error}") from error
    name = other.get(wanted, wanted) or (next(iter(models)) if len(models) == 1 else "")
    if name not in models:
        has = f" It has {', '.join([*models][:20]) or 'none'}."
        raise EntryError("invalid", f"{model_id}: no model {wanted!r}.{suggest(wanted, models) or has}")
    model, is_async = models[name]
    distribution = model_id.removeprefix(LLM).partition(":")[0]
    return LlmModel(f"{LLM}{distribution}:{name}", model, is_async=is_async)


# -- messages ----------------------------------------------------------------------------------------------------------


def _messages(messages: Sequence[ModelMessage], instructions: str) -> Iterator[Any]:
    """Yield a conversation as messages of `llm`."""
    made = importlib.import_module("llm.parts")
    if instructions:
        yield made.Message(role="system", parts=[made.TextPart(text=instructions)])
    for message in messages:
        if isinstance(message, ModelRequest):
            yield from _request(message, made)
        elif parts := [*_response(message, made)]:
            yield made.Message(role="assistant", parts=parts)


def _request(message: ModelRequest, made: Any) -> Iterator[Any]:
    system: list[Any] = []
    results: list[Any] = []
    said: list[Any] = []
    for part in message.parts:
        if isinstance(part, SystemPromptPart):
            system.append(made.TextPart(text=part.content))
        elif isinstance(part, ToolReturnPart):
            text = part.model_response_str()
            results.append(made.ToolResultPart(name=part.tool_name, output=text, tool_call_id=part.tool_call_id))
        elif part.part_kind == "retry-prompt" and part.tool_name:  # before Pydantic AI 2.68
            text = part.model_response()
            results.append(made.ToolResultPart(name=part.tool_name, output=text, tool_call_id=part.tool_call_id))
        elif part.part_kind in ("retry-prompt", "retry-feedback"):
            said.append(made.TextPart(text=cast("Any", part).model_response()))
        elif isinstance(part, UserPromptPart):
            said += [*_said(part, made)]
    for role, parts in (("system", system), ("tool", results), ("user", said)):
        if parts:
            yield made.Message(role=role, parts=parts)


def _said(part: UserPromptPart, made: Any) -> Iterator[Any]:
    attachment = importlib.import_module("llm").Attachment
    for item in [part.content] if isinstance(part.content, str) else part.content:
        if isinstance(item, BinaryContent):
            yield made.AttachmentPart(attachment=attachment(type=item.media_type, content=item.data))
        elif isinstance(item, ImageUrl):
            yield made.AttachmentPart(attachment=attachment(url=item.url))
        elif isinstance(text := item if isinstance(item, str) else getattr(item, "content", None), str):
            yield made.TextPart(text=text)


def _response(message: ModelResponse, made: Any) -> Iterator[Any]:
    for part in message.parts:
        if isinstance(part, TextPart) and part.content:
            yield made.TextPart(text=part.content)
        elif isinstance(part, ToolCallPart):
            arguments = cast("Any", part.args_as_dict())
            yield made.ToolCallPart(name=part.tool_name, arguments=arguments, tool_call_id=part.tool_call_id)
