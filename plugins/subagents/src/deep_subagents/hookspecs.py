"""The hook that this plugin owns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from deep_core import hookspec

if TYPE_CHECKING:
    from deep_core import AgentContext

    from .options import SubAgentConfig

__all__ = ["deep_subagents"]


@hookspec(policy="collect", item="deep_subagents.options:SubAgentConfig")
def deep_subagents(context: AgentContext) -> Iterable[SubAgentConfig]:  # pyright: ignore[reportReturnType]
    """Add types of subagents for `task`.

    Called:
        Once for every agent.

    Result:
        The types are added to the configured ones. A configured type replaces a contributed one of the same
        name; two plugins with one type are an error that names both. A value that is not a `SubAgentConfig`, or an
        exception, leaves the contributing plugin out of the agent.

    Example:
        from deep_core import hookimpl
        from deep_subagents import SubAgentConfig

        @hookimpl(of="subagents")
        def deep_subagents(context):
            return [
                SubAgentConfig(
                    name="reviewer",
                    description="Reviews a change and lists defects.",
                    instructions="Read the change you are told about. List defects only, the worst first.",
                    tools="read",
                )
            ]
    """
