"""What can be set for uploads."""

# No postponed annotations: pydantic would compile and evaluate the text of each while the class is made.
from pydantic import Field, JsonValue

from deep_core import PluginOptions

__all__ = ["UploadsOptions"]

_TRUSTED: dict[str, JsonValue] = {"trusted": True}
"""A project's own file, which the model may have written, does not raise what a user may store."""


class UploadsOptions(PluginOptions):
    """Options of the plugin `uploads`."""

    max_file_bytes: int = Field(default=2 * 1024**3, ge=0, json_schema_extra=_TRUSTED)
    """Bytes of one upload; larger ones are refused."""
    max_files: int = Field(default=100, ge=0, json_schema_extra=_TRUSTED)
    """Uploads of one session; more are refused."""
    max_total_bytes: int = Field(default=4 * 1024**3, ge=0, json_schema_extra=_TRUSTED)
    """Bytes of all uploads of one session together."""
    whole_bytes: int = Field(default=32 * 1024**2, ge=0, json_schema_extra=_TRUSTED)
    """Bytes of one upload into a backend that cannot stream, or that keeps files in memory: there it is held whole."""
    section_chars: int = Field(default=2_000, ge=200, le=8_000)
    """Characters of the list in the conversation; beyond it the earliest uploads are counted only."""
