"""The capability: it decides at each request whether the model's tools become text."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.wrapper import WrapperModel

if TYPE_CHECKING:
    from deep_universe import ToolDriver
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import RunContext

    from deep_core import AgentContext

    from .options import PromptedToolsOptions
    from .prompting import Constrain, Dialect

__all__ = ["PromptedTools", "WatchedModel", "for_agent"]

Mode: TypeAlias = Literal["auto", "always", "never"]
FILE = "without_tools.json"
FALLBACK = "pydantic_ai.models.fallback"
"""Imported by whoever has such a model: it has no profile of its own, its candidates have."""
_known: dict[Path, dict[str, bool]] = {}
"""What this process knows of models, by the folder that keeps it: whether they have tool calls."""


class PromptedTools(AbstractCapability[Any]):
    """Lets models without tool calls call tools.

    Args:
        mode: `auto` for models whose profile or provider says that they have no tool calls, `always`, or `never`.
        dialect: the name of a text driver.
        retries: how often a model is asked again if it wrote a call wrongly.
        recover: execute calls that a model with tool calls wrote as text.
        constrain: when the server holds a reply to a schema: `retry`, `always` or `never`.
        drivers: returns the drivers by name; None for those of deep-universe.
        folder: returns where to keep what providers refused; None for this agent only.
    """

    def __init__(
        self,
        mode: Mode = "auto",
        *,
        dialect: str = "hermes",
        retries: int = 2,
        recover: bool = False,
        constrain: Constrain = "retry",
        drivers: Callable[[], Mapping[str, ToolDriver]] | None = None,
        folder: Callable[[], Path] | None = None,
    ) -> None:
        self._mode, self._name, self._retries, self._recover = mode, dialect, retries, recover
        self._constrain: Constrain = constrain
        self._drivers, self._folder = drivers, folder
        self._dialect: Dialect | None = None
        self._memory: dict[str, bool] | None = None

    def get_wrapper_model(self, model: Model[Any]) -> Model[Any] | None:
        """Wrap a model without tool calls; watch one until its provider took tools; leave every other one alone."""
        if (fallback := sys.modules.get(FALLBACK)) is not None and isinstance(model, fallback.FallbackModel):
            from .candidates import wrap_candidates

            return wrap_candidates(model, self.get_wrapper_model)
        if self._mode == "always":
            return self.prompted(model)
        if self._mode == "auto":
            has_tools = self.memory.get(_key(model)) if _claims_tools(model) else False
            if has_tools is None:
                return WatchedModel(model, self)
            if not has_tools:
                return self.prompted(model)
        return self.native(model) if self._recover else None

    def prompted(self, model: Model[Any]) -> Model[Any]:
        """Return the model with its tools as text."""
        from .model import PromptedModel

        return PromptedModel(model, self.dialect)

    def native(self, model: Model[Any]) -> Model[Any]:
        """Return the model as it serves with its own tool calls."""
        if not self._recover:
            return model
        from .recovery import RecoveringModel

        return RecoveringModel(model, self.dialect)

    @property
    def dialect(self) -> Dialect:
        """The dialect; its driver is looked for with the first model that needs it.

        Raises:
            ConfigError: no plugin has a text driver of this name.
        """
        if self._dialect is None:
            from .prompting import Dialect, find_driver

            self._dialect = Dialect(find_driver(self._name, self._drivers), self._retries, self._constrain)
        return self._dialect

    @property
    def memory(self) -> dict[str, bool]:
        """The models of which it is known whether they have tool calls."""
        if self._memory is None:
            self._memory = self._shared_memory()
        return self._memory

    def remember(self, model: Model[Any], has_tools: bool) -> None:
        """Remember whether a model has tool calls; that it has none, for other processes too."""
        self.memory[_key(model)] = has_tools
        if has_tools or self._folder is None:
            return
        from .learned import write_refused

        with suppress(OSError):  # the next process asks the provider once more
            write_refused(self._folder() / FILE, _key(model))

    def _shared_memory(self) -> dict[str, bool]:
        try:
            if self._folder is None:
                return {}
            path = self._folder() / FILE
            if path not in _known:
                _known[path] = {}
                if path.exists():
                    from .learned import read_refused

                    _known[path] = dict.fromkeys(read_refused(path), False)
        except OSError:
            return {}  # a home that cannot be written to: this process learns for itself
        return _known[path]


class WatchedModel(WrapperModel):
    """A model before its first answer: if its provider refuses tools, the request is sent again with tools as text.

    Args:
        wrapped: the model.
        capability: remembers what the provider said.
    """

    def __init__(self, wrapped: Model[Any], capability: PromptedTools) -> None:
        super().__init__(wrapped)
        self._capability = capability

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request, unchanged; again with tools as text if the provider refuses tools."""
        arguments = (messages, model_settings, model_request_parameters)
        try:
            response = await self._capability.native(self.wrapped).request(*arguments)
        except ModelHTTPError as error:
            return await self._after(error, model_request_parameters).request(*arguments)
        self._accepted(model_request_parameters)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Open a stream, unchanged; again with tools as text if the provider refuses tools."""
        arguments = (messages, model_settings, model_request_parameters, run_context)
        async with AsyncExitStack() as stack:
            try:
                native = self._capability.native(self.wrapped)
                stream = await stack.enter_async_context(native.request_stream(*arguments))
            except ModelHTTPError as error:
                again = self._after(error, model_request_parameters)
                stream = await stack.enter_async_context(again.request_stream(*arguments))
            else:
                self._accepted(model_request_parameters)
            yield stream

    def _after(self, error: ModelHTTPError, parameters: ModelRequestParameters) -> Model[Any]:
        """Return the model to ask after an error. Raises the error if it has another cause."""
        from .learned import refuses_tools

        if not _has_tools(parameters) or not refuses_tools(error):
            raise error
        self._capability.remember(self.wrapped, has_tools=False)
        return self._capability.prompted(self.wrapped)

    def _accepted(self, parameters: ModelRequestParameters) -> None:
        if _has_tools(parameters):
            self._capability.remember(self.wrapped, has_tools=True)


def for_agent(context: AgentContext, options: PromptedToolsOptions) -> PromptedTools:
    """Return the capability of one agent.

    Raises:
        ConfigError: no plugin has a text driver of the name in `dialect`.
    """

    def drivers() -> Mapping[str, ToolDriver]:
        from deep_universe import drivers_of

        return {driver.name: driver for driver in drivers_of(context.kernel)}

    capability = PromptedTools(
        options.mode,
        dialect=options.dialect,
        retries=options.retries,
        recover=options.recover,
        constrain=options.constrain,
        drivers=drivers,
        folder=lambda: context.cache_dir,
    )
    if "dialect" in options.model_fields_set:
        _ = capability.dialect  # a wrong name is an error now, not in the middle of a run
    return capability


def _has_tools(parameters: ModelRequestParameters) -> bool:
    return bool(parameters.function_tools or parameters.output_tools)


def _claims_tools(model: Model[Any]) -> bool:
    try:
        return model.profile.get("supports_tools", True)
    except NotImplementedError:  # FallbackModel has no profile
        return True


def _key(model: Model[Any]) -> str:
    """Return what a model is remembered by: its provider, its server's host, its name."""
    from urllib.parse import urlsplit

    return f"{model.system} {urlsplit(model.base_url or '').netloc.rpartition('@')[2]} {model.model_name}"
