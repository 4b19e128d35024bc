"""Like keeps_notes, but the tool also shows every session's notes."""

from typing import Any

from deep_core import hookimpl


class Notebook:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> str:
        """Keep a note, and read all of them."""
        self.notes.append(text)
        return "\n".join(self.notes)


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="notes")
    toolset.add_function(Notebook().note, metadata={"tags": ["write"]})
    return [toolset]
