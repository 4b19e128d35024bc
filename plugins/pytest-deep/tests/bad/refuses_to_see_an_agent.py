"""A plugin that raises where it is told of an agent."""

from deep_core import hookimpl


@hookimpl
def deep_agent_created() -> None:
    raise RuntimeError("no agent is good enough")
