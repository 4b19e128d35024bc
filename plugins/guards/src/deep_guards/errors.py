"""The error that ends a run in a loop."""

from __future__ import annotations

from pydantic_ai.exceptions import UnexpectedModelBehavior

__all__ = ["StuckLoop"]


class StuckLoop(UnexpectedModelBehavior):
    """The model made the same call, with the same result, too often.

    Attributes:
        tool: the tool's name.
        times: how often.
    """

    def __init__(self, tool: str, times: int) -> None:
        self.tool, self.times = tool, times
        super().__init__(
            f"the run is stuck: the model called {tool} {times} times with the same arguments and the same result. Run "
            "it again with more to go on, or another model; for a tool that may repeat: may_repeat in "
            "[plugins.guards.options]"
        )
