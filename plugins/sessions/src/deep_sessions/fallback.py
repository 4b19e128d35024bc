"""Other models that are asked if the model of a run fails: `model.fallback`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelAPIError, UserError
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel

from deep_core import ConfigError
from deep_core.plugin_api import describe_error

if TYPE_CHECKING:
    from deep_core import AgentContext

__all__ = ["Fallback"]


class Fallback(AbstractCapability[Any]):
    """Asks other models, in order, if the provider of a request's model fails.

    `RequestEvent.model` names the model that answered. Each failure is logged.

    Args:
        ids: of the other models.
        context: of the agent.
    """

    id = "deep.sessions.fallback"

    def __init__(self, ids: Sequence[str], context: AgentContext) -> None:
        if not hasattr(AbstractCapability, "get_wrapper_model"):
            raise ConfigError("agent.model.fallback: needs a newer Pydantic AI: pip install -U pydantic-ai-slim")
        self._ids, self._context = ids, context
        self._others: list[Model[Any]] = []

    def get_wrapper_model(self, model: Model[Any]) -> Model[Any]:
        """Put the others behind the model of a request.

        Raises:
            ConfigError: before the first request: an id is unknown, or its package or key is missing.
        """
        if not self._others:
            try:
                self._others = [self._context.resolve_model(model_id) for model_id in self._ids]
            except (UserError, ImportError) as error:
                raise ConfigError(f"agent.model.fallback: {error}") from error
        return FallbackModel(model, *self._others, fallback_on=self._failed)

    def _failed(self, error: Exception) -> bool:
        fails = isinstance(error, ModelAPIError)
        if fails:
            self._context.logger.warning("a model failed, and the next one is asked: %s", describe_error(error))
        return fails
