"""Closes what it never opened."""

from typing import Any

from deep_core import PromptSection, hookimpl

CONNECTIONS: dict[str, Any] = {}


@hookimpl
def deep_prompt_sections(context: Any) -> list[PromptSection]:
    context.on_close(lambda: CONNECTIONS["weather"].close())
    return [PromptSection.static("manners", "Be brief.")]
