"""A section that repeats the tool's description."""

from typing import Any

from deep_core import PromptSection, hookimpl


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="weather")

    def forecast(city: str) -> str:
        """Tomorrow's weather in a city, with wind, rain and temperature."""
        return f"Sunny in {city}"

    toolset.add_function(forecast)
    return [toolset]


@hookimpl
def deep_prompt_sections() -> list[PromptSection]:
    text = "Use forecast: Tomorrow's weather in a city, with wind, rain and temperature."
    return [PromptSection.static("weather", text)]
