"""A capability that ends the run for an unknown city."""

from typing import Any

from deep_core import hookimpl


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="weather")

    async def forecast(city: str) -> str:
        """Tomorrow's weather in a city."""
        return f"Sunny in {city}"

    toolset.add_function(forecast, metadata={"tags": ["read"]})
    return [toolset]


@hookimpl
def deep_capabilities() -> list[Any]:
    from pydantic_ai.capabilities import AbstractCapability

    class KnownCities(AbstractCapability[Any]):
        """Refuses cities."""

        async def before_tool_execute(
            self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]
        ) -> dict[str, Any]:
            if len(args["city"]) > 1_000:
                raise ValueError("no such city")
            return args

    return [KnownCities()]
