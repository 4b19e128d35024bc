"""A tool that continues when it is cancelled."""

import asyncio
from typing import Any

from deep_core import hookimpl


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="weather")

    async def forecast(city: str) -> str:
        """Tomorrow's weather in a city."""
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            return "no one waited"
        return f"Sunny in {city}"

    toolset.add_function(forecast, metadata={"tags": ["read"]})
    return [toolset]
