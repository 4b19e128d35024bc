"""The capability that puts the request layer around the model of each request."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import RunContext

from deep_core import ConfigError, DeepAgentDeps, RetryEvent
from deep_core.plugin_api import DeepCapability

from ..capability import agent_name
from ..slot import ASIDE, CALL, COMPACTION, JOURNAL, WINDOW, Compaction
from .model import INSIDE, GuardedModel, Prepared
from .patience import Patience
from .sending import wait_words

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import ModelRequestContext

    from deep_core import AgentContext

    from .ends import End
    from .sending import Wait
    from .served import ServedModel

__all__ = ["Requests", "served_in"]

NO_TOOLS = (
    "%s: the server does not give tools to this model, and says nothing when they are sent. They are written into its "
    "prompt as text (deep-prompted-tools). A model whose chat template has tools needs none of this."
)
CUTS = (
    "%s: ollama drops the beginning of what does not fit, and says nothing. Set the size in both places: "
    "OLLAMA_CONTEXT_LENGTH=8192 for the server, context_window = 8192 in [agent.model]"
)
SMALLER = (
    "%s: ollama has loaded it with a window of %s tokens, and agent.model.context_window is %s. It drops the "
    "beginning of what does not fit, and says nothing. Start it with OLLAMA_CONTEXT_LENGTH=%s"
)
_RUN: ContextVar[tuple[RunContext[Any], ModelRequestContext] | None] = ContextVar("deep_sessions_run", default=None)
"""The run whose request is prepared in this task, and that request."""


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

    def _cache(self) -> Path:
        return self._context.cache_dir

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to its agent."""
        return None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Note the run, and how much fits into the model's window."""
        _RUN.set((ctx, request_context))
        deps: object = ctx.deps
        model = _real(ctx)
        if (served := served_in(model)) is not None:
            await self._ask_server(served)
        # The first message has nothing before it that could be left out.
        if len(request_context.messages) > 1 and isinstance(deps, DeepAgentDeps) and model is not None:
            from .windows import find_window

            deps.state[WINDOW] = await find_window(model, self._cache)
        return request_context

    async def _ask_server(self, model: ServedModel) -> None:
        """Note what a server says, before the first request, and tell once what a person should know."""
        from .windows import find_facts

        facts = await find_facts(model)
        if facts is None or facts == model.facts:
            return
        had_tools, model.facts = model.facts.has_tools, facts
        if facts.has_tools is False and had_tools is not False:
            self._context.logger.warning(NO_TOOLS, model.model_name)
        wanted = self._context.config.model.context_window
        if facts.cuts and facts.window is None and wanted is None:
            self._context.logger.warning(CUTS, model.model_name)
        if facts.cuts and facts.window is not None and wanted is not None and wanted > facts.window:
            self._context.logger.warning(SMALLER, model.model_name, facts.window, wanted, wanted)

    def get_wrapper_model(self, model: Model[Any]) -> Model[Any]:
        """Guard the model of a request, and repair what it is answered."""
        if (real := _unwrapped(model)).base_url is not None:
            from .repairing import repair

            repair(real)
        ctx, request = _RUN.get() or (None, None)
        # The messages apart: Pydantic AI replaces them there by what this model's adapter gets.
        prepared = None if request is None else Prepared(request, [*request.messages])
        alone = ctx is not None and _has_next(ctx.model, model)
        return GuardedModel(model, self, ctx, prepared=prepared, alone=alone)

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
            "seconds": wait.seconds and max(0.1, round(wait.seconds, 1)),  # 0 means the next model
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
            agent = agent_name(ctx)
            words = wait_words(wait.model, end.words, about["seconds"], replaces=wait.replaces)
            who: dict[str, Any] = {"path": CALL.get(), "agent": agent, "run_id": journal.run_id}
            journal.tell("request_retried", **who, words=words, **about)

    async def shorter(
        self,
        ctx: RunContext[Any] | None,
        prepared: Prepared | None,
        model: Model[Any],
        sent: list[ModelMessage],
        end: End,
    ) -> list[ModelMessage] | None:
        """Return the messages of a request that did not fit as the plugins that reduce histories make them now.

        They are stored too: the next request, and an attempt after a crash, begin with them.
        """
        from .overflow import effective_window, tokens_of
        from .windows import known_window, learn_window

        deps: object = ctx.deps if ctx is not None else None
        asked = (_real(ctx) if ctx is not None else None) or model
        parameters = ModelRequestParameters() if prepared is None else prepared.request.model_request_parameters
        known = known_window(asked)
        # What the server says of its window, and of the request, is exact: our own count would be worse.
        if known is None or known.source != "server" or end.window is None or end.window < known.tokens:
            learn_window(asked, effective_window(end, sent, parameters), self._cache)
        if ctx is None or prepared is None or not isinstance(deps, DeepAgentDeps):
            return None
        before = tokens_of(prepared.messages)
        over = end.tokens - end.window if end.tokens and end.window else 0
        deps.state[WINDOW], deps.state[COMPACTION] = known_window(asked), Compaction(over=max(0, over))
        try:
            # As before each request: redactors see what is sent, and live sections that were cut are said again.
            request = replace(prepared.request, messages=[*prepared.messages])
            again = await _deep(ctx).before_model_request(ctx, request)
        finally:
            deps.state[COMPACTION] = None
        if tokens_of(again.messages) >= before:
            return None
        if (journal := deps.state[JOURNAL]) is not None and not ASIDE.get():
            await journal.settle(CALL.get(), ctx.messages, deps.state, ctx.usage, agent=agent_name(ctx))
        return again.messages


def _deep(ctx: RunContext[Any]) -> DeepCapability:
    """Return the capability of a run that prepares its requests."""
    leaves: list[object] = []
    if ctx.root_capability is not None:
        ctx.root_capability.apply(leaves.append)
    return next(leaf for leaf in leaves if isinstance(leaf, DeepCapability))


def _real(ctx: RunContext[Any]) -> Model[Any] | None:
    """Return the model of a run; None for one that only speaks."""
    model: object = ctx.model
    return cast("Model[Any]", model) if isinstance(model, Model) else None


def served_in(model: object) -> ServedModel | None:
    """Return a model at `base_url`."""
    module = sys.modules.get("deep_sessions.requests.served")  # imported by whoever has one
    model = _unwrapped(model)
    return cast("ServedModel", model) if module is not None and isinstance(model, module.ServedModel) else None


def _unwrapped(model: Any) -> Any:
    while isinstance(model, WrapperModel):
        model = model.wrapped
    return model


def _has_next(asked: object, model: Model[Any]) -> bool:
    """Whether a model is one of several of a `FallbackModel`, and not the last: the next is asked, not this again."""
    module = sys.modules.get("pydantic_ai.models.fallback")  # imported by whoever has such a model
    if module is None or not isinstance(asked, module.FallbackModel):
        return False
    models: list[Model[Any]] = cast("Any", asked).models
    while isinstance(model, WrapperModel) and model not in models:
        model = model.wrapped
    return any(model is candidate for candidate in models[:-1])
