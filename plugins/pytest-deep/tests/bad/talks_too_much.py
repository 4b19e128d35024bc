"""A section that is a manual."""

from deep_core import PromptSection, hookimpl


@hookimpl
def deep_prompt_sections() -> list[PromptSection]:
    return [PromptSection.static("manual", "Speak of the weather with care. " * 200)]
