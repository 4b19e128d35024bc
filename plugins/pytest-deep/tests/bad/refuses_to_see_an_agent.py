"""A plugin that raises in deep_agent_created."""

from deep_core import hookimpl


@hookimpl
def deep_agent_created() -> None:
    raise RuntimeError("no agent is good enough")
