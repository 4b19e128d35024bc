"""Models that record what others answer, or play it; and what notes which plugin wrote which part of a request."""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import CompletedStreamedResponse, Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel

from deep_core import tool_facts
from deep_core.plugin_api import live_text

from .tapes import Asked, Cleaner, Item, Player, Recorder

if TYPE_CHECKING:
    from pydantic_ai.capabilities import WrapModelRequestHandler
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.profiles import ModelProfile
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import RunContext

__all__ = ["Attribution", "PlayedModel", "RecordedModel", "items_of"]

OF_A_PART = ("part_kind", "tool_name", "content", "args", "outcome", "kind")
"""Keys of a message's part that a model gets; ids and times differ each time."""
NOT_SENT = ("timeout", "max_retries", "extra_headers")


@dataclass
class Noted:
    """What is known of the request under way, from outside of all that wraps models.

    Attributes:
        items: its parts.
        window: tokens that fit, as a server said; None if none did.
    """

    items: Sequence[Item]
    window: int | None


_ASKED: ContextVar[Noted | None] = ContextVar("_ASKED", default=None)


class Attribution(AbstractCapability[Any]):
    """Notes the parts of each request, with their plugins, before models turn them into one text."""

    id = "trials.tape"

    def __init__(self, cleaner: Cleaner) -> None:
        self._cleaner = cleaner

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to a trial."""
        return None

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: WrapModelRequestHandler
    ) -> ModelResponse:
        """Note the window, which a played model cannot ask its server for."""
        state: Any = getattr(ctx.deps, "state", {})
        window = state.get("model_window")
        _ASKED.set(Noted((), None if window is None else window.tokens))
        return await handler(request_context)

    def get_wrapper_model(self, model: Model[Any]) -> Model[Any]:
        """Note the parts: the kernel adds live sections after other capabilities were asked."""
        return _NotedModel(model, self._cleaner)


class _NotedModel(WrapperModel):
    def __init__(self, wrapped: Model[Any], cleaner: Cleaner) -> None:
        super().__init__(wrapped)
        self._cleaner = cleaner

    def _note(self, messages: list[ModelMessage], settings: Any, parameters: ModelRequestParameters) -> None:
        items, noted = items_of(self._cleaner, messages, settings, parameters), _ASKED.get()
        _ASKED.set(Noted(items, None if noted is None else noted.window))

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        self._note(messages, model_settings, model_request_parameters)
        return await self.wrapped.request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        self._note(messages, model_settings, model_request_parameters)
        arguments = (messages, model_settings, model_request_parameters, run_context)
        async with self.wrapped.request_stream(*arguments) as stream:
            yield stream


def items_of(
    cleaner: Cleaner,
    messages: Sequence[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> list[Item]:
    """Return the parts of a request: sections, tools, messages, settings."""
    found: list[Item] = []
    for part in parameters.instruction_parts or []:
        plugin, _, section = (part.name or "").partition(".")
        owner = str(part.id).partition("capability:")[2].split(":")[0].split(".")[0]
        what, plugin = (f"section {section}", plugin) if section else ("instructions", owner)
        found.append((what, plugin, cleaner.digest(part.content)))
    for tool in (*parameters.function_tools, *parameters.output_tools):
        told = [tool.name, tool.description, tool.parameters_json_schema]
        found.append((f"tool {tool.name}", tool_facts(tool).plugin, cleaner.digest(told)))
    for number, (message, written) in enumerate(zip(messages, _written(messages), strict=True), 1):
        for part, data in zip(message.parts, written["parts"], strict=True):
            live = live_text(cast("Any", part))
            kept = {key: data[key] for key in OF_A_PART if key in data}
            if live is not None:
                plugin, _, section = live.section.partition(".")
                found.append((f"section {section}", plugin, cleaner.digest(live.text)))
            else:
                name = data.get("tool_name")
                what = f"message {number}, {data['part_kind']}{f' of {name}' if name else ''}"
                found.append((what, "", cleaner.digest(kept)))
    sent = {key: value for key, value in dict(settings or {}).items() if key not in NOT_SENT and not callable(value)}
    found.append(("settings", "", cleaner.digest(sent)))
    return found


def _written(messages: Sequence[ModelMessage]) -> list[dict[str, Any]]:
    return ModelMessagesTypeAdapter.dump_python([*messages], mode="json")


def _asked(
    cleaner: Cleaner,
    model: str,
    messages: Sequence[ModelMessage],
    settings: ModelSettings | None,
    parameters: ModelRequestParameters,
) -> Asked:
    arrived = items_of(cleaner, messages, settings, parameters)
    noted = _ASKED.get()
    return Asked(model, arrived if noted is None else noted.items, arrived)


class RecordedModel(WrapperModel):
    """Asks a model, and records what it answers.

    Args:
        model_id: as the tape names it.
        wrapped: the model.
        recorder: of the trial.
    """

    def __init__(self, model_id: str, wrapped: Model[Any], recorder: Recorder) -> None:
        super().__init__(wrapped)
        self._id, self._recorder = model_id, recorder

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask, and record."""
        arguments = (messages, model_settings, model_request_parameters)
        asked, facts = _asked(self._recorder.cleaner, self._id, *arguments), self._facts()
        try:
            response = await self.wrapped.request(*arguments)
        except ModelAPIError as error:
            self._recorder.add(asked, facts, {"error": _error(error)})
            raise
        self._recorder.add(asked, facts, {"response": _response(response)})
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Ask, and record once all has arrived."""
        arguments = (messages, model_settings, model_request_parameters)
        asked, facts = _asked(self._recorder.cleaner, self._id, *arguments), self._facts()
        try:
            async with self.wrapped.request_stream(*arguments, run_context) as stream:
                yield stream
        except ModelAPIError as error:
            self._recorder.add(asked, facts, {"error": _error(error)})
            raise
        self._recorder.add(asked, facts, {"response": _response(stream.get())})

    def _facts(self) -> dict[str, Any]:
        """Return what a played model must say of itself, so that the same requests are made for it."""
        noted, profile = _ASKED.get(), dict(cast("Mapping[str, Any]", self.wrapped.profile))
        if noted is not None and noted.window is not None:
            profile["context_window"] = noted.window
        known = {key: value for key, each in sorted(profile.items()) if (value := _encoded(each)) is not _UNKNOWN}
        return {"name": self.wrapped.model_name, "system": self.wrapped.system, "profile": known}


class PlayedModel(Model[Any]):
    """Answers from a tape; it has no network.

    Args:
        model_id: as the tape names it.
        player: of the trial.
    """

    def __init__(self, model_id: str, player: Player) -> None:
        super().__init__()
        self._id, self._player = model_id, player

    @property
    def model_name(self) -> str:
        """The name of the recorded model."""
        return str(self._player.facts(self._id)["name"])

    @property
    def system(self) -> str:
        """The provider of the recorded model."""
        return str(self._player.facts(self._id)["system"])

    @property
    def profile(self) -> ModelProfile:  # type: ignore[override]
        """The profile of the recorded model."""
        said: Mapping[str, Any] = self._player.facts(self._id)["profile"]
        return cast("ModelProfile", {key: _decoded(value) for key, value in said.items()})

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the recorded answer."""
        arguments = (messages, model_settings, model_request_parameters)
        said = self._player.take(_asked(self._player.cleaner, self._id, *arguments))
        if "error" in said:
            error: Mapping[str, Any] = said["error"]
            if error["status"] is None:
                raise ModelAPIError(error["model"], error["message"])
            raise ModelHTTPError(error["status"], error["model"], error["body"])
        response = ModelMessagesTypeAdapter.validate_python([said["response"]])[0]
        return cast("ModelResponse", response)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Stream the recorded answer, each part in one piece."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)


def _response(response: ModelResponse) -> dict[str, Any]:
    written: dict[str, Any] = ModelMessagesTypeAdapter.dump_python([response], mode="json")[0]
    name = response.model_name
    if name is not None and name.startswith("/"):
        name = PurePath(name).name  # llama.cpp says where the file is
    # An address may hold a name and a password.
    return {**written, "provider_url": None, "model_name": name}


def _error(error: ModelAPIError) -> dict[str, Any]:
    status, body = (error.status_code, error.body) if isinstance(error, ModelHTTPError) else (None, None)
    written = json.loads(json.dumps(body, default=str))
    return {"status": status, "model": error.model_name, "message": error.message, "body": written}


_UNKNOWN = object()


def _encoded(value: Any) -> Any:
    """Return a value of a profile as JSON data; `_UNKNOWN` for what has no such form."""
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, type):
        return {"class": f"{value.__module__}:{value.__qualname__}"}
    if isinstance(value, set | frozenset):
        encoded = [*map(_encoded, cast("frozenset[Any]", value))]
        return _UNKNOWN if _UNKNOWN in encoded else {"set": sorted(encoded, key=str)}
    if isinstance(value, list | tuple):
        encoded = [*map(_encoded, cast("Sequence[Any]", value))]
        return _UNKNOWN if _UNKNOWN in encoded else encoded
    if isinstance(value, Mapping):
        pairs = {str(key): _encoded(inner) for key, inner in cast("Mapping[Any, Any]", value).items()}
        return _UNKNOWN if _UNKNOWN in pairs.values() else {"map": pairs}
    return _UNKNOWN


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decoded, cast("list[Any]", value)))
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = cast("dict[str, Any]", value).items()
    if kind == "set":
        return frozenset(map(_decoded, inner))
    if kind == "map":
        return {key: _decoded(each) for key, each in inner.items()}
    module, _, name = str(inner).partition(":")
    if module.partition(".")[0] != "pydantic_ai":  # a file of others must not import what it likes
        return None
    found: Any = importlib.import_module(module)
    for each in name.split("."):
        found = getattr(found, each)
    return found
