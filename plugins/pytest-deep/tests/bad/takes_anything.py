"""A tool whose parameter has neither a type nor a description."""

from typing import Any

from deep_core import hookimpl


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="weather")

    def forecast(city) -> str:  # type: ignore[no-untyped-def]  # pyright: ignore
        """Tomorrow's weather in a city."""
        return f"Sunny in {city}"

    toolset.add_function(forecast)
    return [toolset]
