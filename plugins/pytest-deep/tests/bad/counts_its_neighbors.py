"""A section that depends on which plugins were asked before."""

from typing import Any

from deep_core import PromptSection, hookimpl


@hookimpl
def deep_prompt_sections(context: Any) -> list[PromptSection]:
    others = len(context.collect("deep_toolsets"))
    return [PromptSection.static("tools", f"There are {others} other toolsets.")]
