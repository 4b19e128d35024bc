"""An async tool that blocks instead of awaiting."""

import time
from typing import Any

from deep_core import hookimpl


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="slow")

    async def measure(place: str) -> str:
        """Measure the wind in a place."""
        time.sleep(0.05)
        return f"2 m/s in {place}"

    toolset.add_function(measure, metadata={"tags": ["read"]})
    return [toolset]
