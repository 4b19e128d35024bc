"""The options of the todo list."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from pydantic import Field, JsonValue

from deep_core import PluginOptions

__all__ = ["TodoOptions"]

# A project's file, which the model may have written, cannot raise the user's limits.
_LOWER: dict[str, JsonValue] = {"project": "lower"}


class TodoOptions(PluginOptions):
    """Options of the plugin `todo`."""

    max_todos: int = Field(default=100, ge=1, le=1000, json_schema_extra=_LOWER)
    """Maximum todos in a list; `write_todos` rejects more."""
    todo_chars: int = Field(default=500, ge=20, le=5_000, json_schema_extra=_LOWER)
    """Maximum characters of one todo; `write_todos` rejects more."""
    section_chars: int = Field(default=2_000, ge=200, le=8_000, json_schema_extra=_LOWER)
    """Maximum characters of the list in the conversation; above it, completed todos are counted, then the last ones."""
