"""Check whether a skill's instructions are still in the conversation; repeat them after a compaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ModelMessage

    from .active import ActiveSkill

__all__ = ["RESTATED_CHARS", "heading", "instructions_to_repeat", "is_present"]

RESTATED_CHARS = 6_000
"""Maximum characters of a skill's instructions to repeat after a compaction."""
ALL_CHARS = 7_200
"""Maximum characters for all skills together; the kernel truncates a live section at 8,000."""


def heading(name: str) -> str:
    """The first line of the result of `load_skill`, which identifies it."""
    return f"# Skill: {name}"


def is_present(skill: ActiveSkill, messages: Sequence[ModelMessage]) -> bool:
    """Whether the result with the skill's instructions is among the messages, or about to be."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, ToolReturnPart

    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, ToolReturnPart) and part.tool_call_id == skill.call_id:
                    # A plugin that clears or stores old results keeps the call's id and removes the text.
                    return isinstance(part.content, str) and part.content.startswith(heading(skill.name))
    last = messages[-1] if messages else None
    # Two parallel calls for one skill: the first result is not in the history yet.
    return isinstance(last, ModelResponse) and any(call.tool_call_id == skill.call_id for call in last.tool_calls)


def instructions_to_repeat(active: Mapping[str, ActiveSkill], ctx: RunContext[Any]) -> str | None:
    """Return the instructions in use that left the conversation; None if there are none."""
    if ctx.prompt is not None:
        for skill in active.values():
            skill.narrows = skill.narrows and skill.run_id == ctx.run_id
    missing = [skill for skill in active.values() if not is_present(skill, ctx.messages)]
    if not missing:
        return None
    share = min(RESTATED_CHARS, ALL_CHARS // len(missing) - 120)
    return "Skills in use (loaded earlier):\n\n" + "\n\n".join(_again(skill, share) for skill in missing)


def _again(skill: ActiveSkill, share: int) -> str:
    text = skill.instructions
    if len(text) > share:
        text = f"{text[:share]}\n… (load the skill again for the rest)"
    return f"{heading(skill.name)}\nDirectory: {skill.path}\n{text}"
