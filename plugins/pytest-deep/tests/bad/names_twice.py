"""Two toolsets with one tool name."""

from typing import Any

from deep_core import hookimpl


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    def forecast(city: str) -> str:
        """Tomorrow's weather in a city."""
        return f"Sunny in {city}"

    def forecast_by_radar(city: str) -> str:
        """The next hour's weather in a city."""
        return f"Sunny in {city}"

    one, other = FunctionToolset[Any](id="one"), FunctionToolset[Any](id="other")
    one.add_function(forecast)
    other.add_function(forecast_by_radar, name="forecast")
    return [one, other]
