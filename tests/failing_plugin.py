"""The plugin of the failing provider's agents: a tool with an effect, a line in the file that NOTES names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from pydantic_ai import FunctionToolset
from pydantic_ai.toolsets import AbstractToolset

from deep_core import hookimpl

tools: FunctionToolset[Any] = FunctionToolset(id="notes")


@tools.tool_plain
def note(text: str) -> str:
    """Write a text down."""
    with open(os.environ["NOTES"], "a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    return "written down"


@hookimpl
def deep_toolsets(context: object) -> Iterable[AbstractToolset[Any]]:
    return [tools]
