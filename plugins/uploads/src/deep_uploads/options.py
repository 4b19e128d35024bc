"""The options of uploads."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from pydantic import Field, JsonValue

from deep_core import PluginOptions

__all__ = ["UploadsOptions"]

_LOWER: dict[str, JsonValue] = {"project": "lower"}
"""A project's file, which the model may have written, cannot raise the user's limits."""


class UploadsOptions(PluginOptions):
    """Options of the plugin `uploads`."""

    max_file_bytes: int = Field(default=2 * 1024**3, ge=0, json_schema_extra=_LOWER)
    """Maximum bytes of one upload."""
    max_files: int = Field(default=100, ge=0, json_schema_extra=_LOWER)
    """Maximum uploads of one session."""
    max_total_bytes: int = Field(default=4 * 1024**3, ge=0, json_schema_extra=_LOWER)
    """Maximum bytes of all uploads of one session together."""
    whole_bytes: int = Field(default=32 * 1024**2, ge=0, json_schema_extra=_LOWER)
    """Maximum bytes of one upload into a backend that cannot stream, or that stores files in memory."""
    section_chars: int = Field(default=2_000, ge=200, le=8_000, json_schema_extra=_LOWER)
    """Maximum characters of the list in the conversation; beyond it the earliest uploads are only counted."""
