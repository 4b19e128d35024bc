"""What can be set for the todo list."""

# No postponed annotations: pydantic would compile and evaluate the text of each while the class is made.
from pydantic import Field

from deep_core import PluginOptions

__all__ = ["TodoOptions"]


class TodoOptions(PluginOptions):
    """Options of the plugin `todo`."""

    max_todos: int = Field(default=100, ge=1, le=1000)
    """Todos in a list; `write_todos` refuses more."""
    todo_chars: int = Field(default=500, ge=20, le=5_000)
    """Characters of one todo; `write_todos` refuses more."""
    section_chars: int = Field(default=2_000, ge=200, le=8_000)
    """Characters of the list in the conversation; beyond it the completed ones are counted, then the last ones."""
