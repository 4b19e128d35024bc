"""Imports Pydantic AI when it is imported."""

from typing import Any

from pydantic_ai import FunctionToolset

from deep_core import hookimpl


@hookimpl
def deep_toolsets() -> list[Any]:
    return [FunctionToolset[Any](id="none")]
