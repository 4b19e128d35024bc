"""A tool without a description."""

from typing import Any

from deep_core import hookimpl


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="weather")

    def forecast(city: str) -> str:
        return f"Sunny in {city}"

    toolset.add_function(forecast)
    return [toolset]
