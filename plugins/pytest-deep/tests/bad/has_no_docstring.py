from deep_core import PromptSection, hookimpl


@hookimpl
def deep_prompt_sections() -> list[PromptSection]:
    return [PromptSection.static("manners", "Be brief.")]
