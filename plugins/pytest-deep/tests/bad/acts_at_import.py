"""Writes a file, starts a thread, sets a variable and prints, all at import."""

import os
import threading
from pathlib import Path

from deep_core import PromptSection, hookimpl

os.environ["WEATHER_UNIT"] = "celsius"
Path("weather.log").write_text("loaded", encoding="utf-8")
threading.Thread(target=threading.Event().wait, args=(0.2,), daemon=True, name="weather").start()
print("weather is here")


@hookimpl
def deep_prompt_sections() -> list[PromptSection]:
    return [PromptSection.static("manners", "Be brief.")]
