"""A hook that does not exist."""

from typing import Any

from deep_core import hookimpl


@hookimpl
def deep_toolset() -> list[Any]:
    return []
