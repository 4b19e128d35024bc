"""Every private name of Pydantic AI that the kernel uses, and why. No other module imports one.

Read with each new version of Pydantic AI: what stands here may change without notice. Seen in 2.62 to 2.68.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# `asyncio.gather` would leave the other tasks running when one fails. Since 2.62.
# A history processor may be sync or async, with or without the run context; these are the rules by which Pydantic AI
# itself tells, and its executor keeps the run's context in threads. Since 2.62.
from pydantic_ai._utils import await_maybe, gather, is_async_callable, run_in_executor, takes_run_context
from pydantic_ai.capabilities import Hooks

# It puts queued messages into a request. Pydantic AI adds one to each agent that has none, and copies the run's context
# for it 33 times a turn; the outer gate is one. Since 2.62.
from pydantic_ai.capabilities._pending_messages import PendingMessageDrainCapability
from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset

# It stands around all toolsets of a run, so no plugin's toolset lists its tool. Since 2.62.
from pydantic_ai.toolsets._tool_search import ToolSearchToolset

__all__ = [
    "PendingMessageDrainCapability",
    "QuietToolset",
    "ToolSearchToolset",
    "await_maybe",
    "gather",
    "has_handler",
    "has_instructions",
    "is_async_callable",
    "is_unknown_model",
    "retries_are_spent",
    "run_in_executor",
    "takes_run_context",
]


def has_handler(hooks: Hooks[Any], hook: str) -> bool:
    """Whether a function is registered for a hook.

    `Hooks` overrides every hook method, so the methods do not tell; its registry does. `_get` since 2.62.
    """
    return bool(hooks._get(hook))  # pyright: ignore[reportPrivateUsage, reportArgumentType]


def is_unknown_model(error: UserError) -> bool:
    """Whether Pydantic AI says that it knows no such model: a `UserError` as any other. Text since 2.62."""
    return str(error).startswith("Unknown model")


def retries_are_spent(error: Exception, tool: str) -> bool:
    """Whether the model has used up its retries of a tool: not the tool's doing. Text since 2.62."""
    text = str(error) if isinstance(error, UnexpectedModelBehavior) else ""
    return "exceeded max retries" in text and repr(tool) in text


def has_instructions(toolset: AbstractToolset[Any]) -> bool:
    """Whether a toolset may have instructions; True if it does not tell.

    The public `get_instructions` is async and is awaited for each toolset at each step. `_instructions` since 2.62.
    """
    return bool(getattr(toolset, "_instructions", True))


class QuietToolset(CombinedToolset[Any]):
    """A combined toolset that asks only those toolsets for instructions that may have some.

    `CombinedToolset` starts a task for each, and opens a task group even for none; one alone it asks directly.
    `_instruction_children` since 2.62.
    """

    def speaks(self, toolset: AbstractToolset[Any]) -> bool:
        """Whether a toolset is asked for instructions."""
        return True

    def _instruction_children(self) -> Sequence[AbstractToolset[Any]]:
        return [toolset for toolset in self.toolsets if self.speaks(toolset)] or self.toolsets[:1]
