"""A plugin whose static section differs from agent to agent."""

import time

from deep_core import PromptSection, hookimpl


@hookimpl
def deep_prompt_sections() -> list[PromptSection]:
    return [PromptSection.static("now", f"It is {time.monotonic_ns()}.")]
