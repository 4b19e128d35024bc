"""What the prompt says about the date and the workspace."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic_ai.workspaces import UnavailableWorkspace

from deep_core import PromptSection

if TYPE_CHECKING:
    from pydantic_ai.tools import RunContext

    from deep_core import AgentContext

__all__ = ["hints"]


def hints(context: AgentContext) -> list[PromptSection]:
    """Return a section for each hint that a configuration sets."""
    config, found = context.config, list[PromptSection]()
    if config.prompt.append_time_hint:
        found.append(PromptSection.live("time", _time))
    if config.prompt.append_runtime_hint and context.sets("prompt.append_runtime_hint"):
        mode = config.runtime_policy.sandbox_mode

        async def runtime(ctx: RunContext[Any]) -> str | None:
            workspace = ctx.workspace
            backend = getattr(workspace, "backend", workspace)
            if isinstance(backend, UnavailableWorkspace):
                return None
            sandbox = f" Sandbox: {mode}." if mode is not None else ""
            return (
                f"Operating system: {platform.system()}. Working directory: {await workspace.working_dir()}.{sandbox}"
            )

        found.append(PromptSection.live("runtime", runtime))
    return found


def _time(ctx: RunContext[Any]) -> str:
    # The date only: a clock would change the text in every request, and with it the cached prefix.
    return f"Today is {datetime.now(UTC).date().isoformat()} (UTC)."
