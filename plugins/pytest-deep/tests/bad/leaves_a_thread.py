"""A thread for each kernel that never ends."""

import threading
from typing import Any

from deep_core import PromptSection, hookimpl


@hookimpl
def deep_prompt_sections(context: Any) -> list[PromptSection]:
    threading.Thread(target=threading.Event().wait, daemon=True, name="weather-watch").start()
    return [PromptSection.static("manners", "Be brief.")]
