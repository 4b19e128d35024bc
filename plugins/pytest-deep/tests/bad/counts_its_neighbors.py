"""A section that depends on the plugins called before it."""

from typing import Any

from deep_core import PromptSection, hookimpl


@hookimpl
def deep_prompt_sections(context: Any) -> list[PromptSection]:
    others = len(context.collect("deep_toolsets"))
    return [PromptSection.static("tools", f"There are {others} other toolsets.")]
