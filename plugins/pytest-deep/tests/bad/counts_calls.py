"""A toolset that counts the calls of all sessions together."""

from typing import Any

from deep_core import hookimpl


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def forecast(self, city: str) -> str:
        """Tomorrow's weather in a city."""
        self.calls += 1
        return f"Sunny in {city}"


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="weather")
    toolset.add_function(Counter().forecast, metadata={"tags": ["read"]})
    return [toolset]
