"""What the kernel says in a user turn, so that it is not taken for the user's words."""

from __future__ import annotations

from pydantic_ai.messages import ModelRequest, UserPromptPart

from deep_core.history import last_said

__all__ = ["is_live_text"]


def is_live_text(part: UserPromptPart) -> bool:
    """Whether the part is a live section's text: the kernel says it again after a cut."""
    content = part.content
    if not isinstance(content, str) or not content.startswith("<context id="):
        return False
    return bool(last_said([ModelRequest(parts=[part])]))
