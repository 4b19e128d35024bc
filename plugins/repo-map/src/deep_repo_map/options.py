"""The options of the map."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from pydantic import Field, JsonValue

from deep_core import PluginOptions

__all__ = ["RepoMapOptions"]

# A project's file, which the model may have written, cannot turn the map on or raise the user's limits.
_LOWER: dict[str, JsonValue] = {"project": "lower"}


class RepoMapOptions(PluginOptions):
    """Options of the plugin `repo_map`."""

    enabled: bool = Field(default=False, json_schema_extra={"project": "off"})
    """Offer the tool."""
    tokens: int = Field(default=1_000, ge=100, le=20_000, json_schema_extra=_LOWER)
    """Tokens of a map, unless the model asks for another size."""
    max_tokens: int = Field(default=4_000, ge=100, le=20_000, json_schema_extra=_LOWER)
    """Maximum tokens of a map."""
    max_files: int = Field(default=2_000, ge=1, le=20_000, json_schema_extra=_LOWER)
    """Maximum files to parse; others are listed by name."""
    max_file_bytes: int = Field(default=256_000, ge=1_000, le=2_000_000, json_schema_extra=_LOWER)
    """Maximum bytes of a file to parse."""
    seconds: float = Field(default=20, gt=0, le=120, json_schema_extra=_LOWER)
    """Time limit of one call, in seconds; the map then has what was parsed until then."""
