"""A plugin whose second toolset lists, only at run time, a tool with the first one's name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deep_core import hookimpl


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset, RunContext

    class Renamed(FunctionToolset[Any]):
        async def get_tools(self, ctx: RunContext[Any]) -> dict[str, Any]:
            (tool,) = (await super().get_tools(ctx)).values()
            return {"forecast": replace(tool, tool_def=replace(tool.tool_def, name="forecast"))}

    async def forecast(city: str) -> str:
        """Tomorrow's weather in a city."""
        return f"Sunny in {city}"

    async def outlook(city: str) -> str:
        """The week's weather in a city."""
        return f"Mixed in {city}"

    one, other = FunctionToolset[Any](id="weather"), Renamed(id="outlook")
    one.add_function(forecast, metadata={"tags": ["read"]})
    other.add_function(outlook, metadata={"tags": ["read"]})
    return [one, other]
