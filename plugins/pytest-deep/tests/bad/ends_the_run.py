"""A tool that ends the application for an unknown city."""

import sys
from typing import Any

from deep_core import hookimpl


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="weather")

    async def forecast(city: str) -> str:
        """Tomorrow's weather in a city."""
        if len(city) > 1_000:
            sys.exit("no such city")
        return f"Sunny in {city}"

    toolset.add_function(forecast, metadata={"tags": ["read"]})
    return [toolset]
