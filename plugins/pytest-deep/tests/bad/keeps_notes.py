"""Notes for every session, in one list for all of them."""

from typing import Any

from deep_core import hookimpl

NOTES: list[str] = []


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="notes")

    def note(text: str) -> str:
        """Keep a note."""
        NOTES.append(text)
        return "kept"

    toolset.add_function(note, metadata={"tags": ["write"]})
    return [toolset]
