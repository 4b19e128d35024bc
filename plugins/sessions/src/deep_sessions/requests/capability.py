"""The capability that puts the request layer around the model of each request."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from inspect import isawaitable, signature
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import RunContext

from deep_core import ConfigError, DeepAgentDeps, RetryEvent

from ..slot import CALL, JOURNAL, WINDOW
from .ends import RequestFailed
from .model import INSIDE, GuardedModel
from .overflow import effective_window, too_large
from .patience import Patience
from .windows import find_window, known_window, learn_window

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext, ModelRequestParameters

    from deep_core import AgentContext

    from .ends import End
    from .sending import Wait

__all__ = ["Requests"]

_RUN: ContextVar[RunContext[Any] | None] = ContextVar("deep_sessions_run", default=None)
"""The run whose request is prepared in this task."""


class Requests(AbstractCapability[Any]):
    """Sends each request until it is answered, in the time and the window that it has.

    Args:
        context: of the agent.
    """

    id = "deep.sessions.requests"
    shares_context = True
    """It emits no events of Pydantic AI, so it needs no context of its own (decision 0010)."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self.patience = Patience.of(context.config)
        self._ids = context.config.model.fallback
        self._models: list[Model[Any]] = []

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to its agent."""
        return None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Note the run, and how much fits into the model's window."""
        _RUN.set(ctx)
        deps: object = ctx.deps
        # The first message has nothing before it that could be left out.
        if len(request_context.messages) > 1 and isinstance(deps, DeepAgentDeps) and (model := _real(ctx)) is not None:
            deps.state[WINDOW] = await find_window(model)
        return request_context

    def get_wrapper_model(self, model: Model[Any]) -> Model[Any]:
        """Guard the model of a request."""
        ctx = _RUN.get()
        return GuardedModel(model, self, ctx, alone=ctx is not None and _has_next(ctx.model, model))

    # -- what guarded models ask ---------------------------------------------------------------------------------------

    @property
    def has_others(self) -> bool:
        """Whether `model.fallback` names models."""
        return bool(self._ids)

    def others(self, ctx: RunContext[Any] | None) -> list[Model[Any]]:
        """Return the models of `model.fallback`, as the capabilities of the run wrap them.

        Raises:
            ConfigError: before the first request: an id is unknown, or its package or key is missing.
        """
        if not self._models:
            try:
                self._models = [self._context.resolve_model(model_id) for model_id in self._ids]
            except (UserError, ImportError) as error:
                raise ConfigError(f"agent.model.fallback: {error}") from error
        root = None if ctx is None else ctx.root_capability
        if root is None:
            return [*self._models]
        token = INSIDE.set(True)
        try:
            return [root.get_wrapper_model(model) or model for model in self._models]
        finally:
            INSIDE.reset(token)

    async def report(self, ctx: RunContext[Any] | None, wait: Wait) -> None:
        """Tell those who listen to the run, and those who watch the session."""
        end = wait.end
        if wait.seconds:
            self._context.logger.info("%s: %s; again in %.1f s", wait.model, end.words, wait.seconds)
        else:
            self._context.logger.warning("a model failed, and the next one is asked: %s: %s", wait.model, end.words)
        if ctx is None:
            return
        about: dict[str, Any] = {
            "model": wait.model,
            "reason": end.words,
            "code": end.code,
            "seconds": round(wait.seconds, 1),
            "attempt": wait.attempt,
            "replaces": wait.replaces,
        }
        deps: object = ctx.deps
        if not isinstance(deps, DeepAgentDeps):
            return
        run: dict[str, Any] = {"run_id": ctx.run_id or "", "session_id": deps.session_id, "depth": deps.depth}
        await self._context.send(RetryEvent(**run, **about))
        journal = deps.state[JOURNAL]
        if journal is not None:
            agent = (ctx.agent.name or "") if CALL.get() and ctx.agent is not None else ""
            journal.tell("request_retried", path=CALL.get(), agent=agent, run_id=journal.run_id, **about)

    async def shorter(
        self,
        ctx: RunContext[Any] | None,
        model: Model[Any],
        messages: list[ModelMessage],
        parameters: ModelRequestParameters,
        end: End,
    ) -> list[ModelMessage]:
        """Return messages that fit into the window, as the plugins that reduce histories make them.

        Raises:
            RequestFailed: there are none; it names the largest parts.
        """
        deps: object = ctx.deps if ctx is not None else None
        tokens = effective_window(end, messages, parameters)
        asked = (_real(ctx) if ctx is not None else None) or model
        learn_window(asked, tokens)
        reduced = messages
        if ctx is not None and isinstance(deps, DeepAgentDeps):
            deps.state[WINDOW] = known_window(asked)
            for reducer in self._reducers():
                made = reducer(replace(ctx, messages=[*reduced]), [*reduced])
                reduced = await made if isawaitable(made) else made
        if len(reduced) < len(messages):
            return reduced
        raise RequestFailed(model.model_name, replace(end, words=too_large(end, messages, parameters)))

    def _reducers(self) -> list[Callable[..., Any]]:
        """Return the processors that reduce and take a run: others cannot know the window."""
        found = self._context.collect("deep_history_processors")
        reducers = [each.value.fn for each in found if each.value.phase == "reduce"]
        return [reducer for reducer in reducers if len(signature(reducer).parameters) > 1]


def _real(ctx: RunContext[Any]) -> Model[Any] | None:
    """Return the model of a run; None for one that only speaks."""
    model: object = ctx.model
    return cast("Model[Any]", model) if isinstance(model, Model) else None


def _has_next(asked: object, model: Model[Any]) -> bool:
    """Whether a model is one of several of a `FallbackModel`, and not the last: the next is asked, not this again."""
    module = sys.modules.get("pydantic_ai.models.fallback")  # imported by whoever has such a model
    if module is None or not isinstance(asked, module.FallbackModel):
        return False
    models: list[Model[Any]] = cast("Any", asked).models
    while isinstance(model, WrapperModel) and model not in models:
        model = model.wrapped
    return any(model is candidate for candidate in models[:-1])
