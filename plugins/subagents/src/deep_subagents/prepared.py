"""The agents that an application prepared for a session: refuse what cannot run where it is added."""

from __future__ import annotations

from typing import Any, cast, get_origin

from pydantic_ai.agent import AbstractAgent

from deep_core import DeepAgentDeps

__all__ = ["PreparedAgents", "check_prepared"]


def check_prepared(name: str, agent: AbstractAgent[Any, Any]) -> None:
    """Refuse what cannot run as a subagent.

    Raises:
        TypeError: it is not an agent, or its tools expect other deps than a session.
    """
    if not isinstance(cast("object", agent), AbstractAgent):
        raise TypeError(f"deps.subagents[{name!r}] is a {type(agent).__name__}; use a Pydantic AI agent")
    kind: object = agent.deps_type
    kind = get_origin(kind) or kind
    # `None` and `object` (the default) use no deps. What is not a plain class, such as a protocol, cannot be checked.
    if kind in (None, type(None), object, Any) or not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return
    if not issubclass(kind, DeepAgentDeps):
        raise TypeError(
            f"deps.subagents[{name!r}] has deps_type={kind.__name__}, and a subagent gets the session of its caller. "
            f"Create it with deps_type=DeepAgentDeps[{kind.__name__}], let its tools read ctx.deps.app, and run "
            f"the caller with create_default_deps(app=…)"
        )


class PreparedAgents(dict[str, AbstractAgent[Any, Any]]):
    """Agents by the name that the model uses. Adding one that cannot run raises TypeError."""

    def __setitem__(self, name: str, agent: AbstractAgent[Any, Any]) -> None:
        check_prepared(name, agent)
        super().__setitem__(name, agent)

    def update(self, *more: Any, **named: Any) -> None:
        """Add agents, or none if one cannot run."""
        new: dict[str, AbstractAgent[Any, Any]] = dict(*more, **named)
        for name, agent in new.items():
            check_prepared(name, agent)
        super().update(new)
