"""The options of the memory."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from collections.abc import Callable
from typing import Any

from pydantic import Field, JsonValue

from deep_core import PluginOptions

__all__ = ["MemoryOptions"]

# A project's file, which the model may have written, cannot turn the memory on or raise the user's limits.
_OFF: dict[str, JsonValue] = {"project": "off"}
_LOWER: dict[str, JsonValue] = {"project": "lower"}


class MemoryOptions(PluginOptions):
    """Options of the plugin `memory`."""

    enabled: bool = Field(default=False, json_schema_extra=_OFF)
    """Offer the tools and the index."""
    write: bool = Field(default=True, json_schema_extra=_OFF)
    """Offer `remember` and `forget` too; without them only people write the notes."""
    project: str | None = Field(default=None, min_length=1, max_length=200)
    """The name of the memory. Without one, each directory that a session works in has its own."""
    owner: str | Callable[[Any], str] | None = None
    """The tenant: a name, or in code a function of the session (`deps`). Each owner has memories of its own."""
    note_chars: int = Field(default=1_000, ge=50, le=10_000, json_schema_extra=_LOWER)
    """Maximum characters of one note; `remember` rejects more."""
    max_topics: int = Field(default=200, ge=1, le=1_000, json_schema_extra=_LOWER)
    """Maximum topics of a memory; `remember` opens no more."""
    topic_chars: int = Field(default=20_000, ge=1_000, le=200_000, json_schema_extra=_LOWER)
    """Maximum characters of one topic; `remember` adds no more."""
    recall_chars: int = Field(default=6_000, ge=500, le=50_000, json_schema_extra=_LOWER)
    """Maximum characters of an answer of `recall`."""
    index_chars: int = Field(default=1_100, ge=300, le=1_150, json_schema_extra=_LOWER)
    """Maximum characters of the index in the conversation: 300 tokens with its frame."""
