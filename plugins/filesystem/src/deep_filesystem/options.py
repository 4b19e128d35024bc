"""The options of the file tools."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from pydantic import Field, JsonValue

from deep_core import PluginOptions

__all__ = ["FilesystemOptions"]

# A project's file, which the model may have written, cannot raise the user's limits.
_LOWER: dict[str, JsonValue] = {"project": "lower"}


class FilesystemOptions(PluginOptions):
    """Options of the plugin `filesystem`."""

    include_execute: bool = Field(default=True, json_schema_extra={"project": "off"})
    """Add `execute` if the workspace runs commands."""
    require_write_approval: bool = Field(default=False, json_schema_extra={"project": "on"})
    """`write_file` and `edit_file` need approval."""
    require_execute_approval: bool = Field(default=True, json_schema_extra={"project": "on"})
    """`execute` needs approval."""
    read_lines: int = Field(default=2000, ge=1, json_schema_extra=_LOWER)
    """Maximum lines of one `read_file`."""
    read_chars: int = Field(default=40_000, ge=100, le=1_000_000, json_schema_extra=_LOWER)
    """Maximum characters of one `read_file`; a page ends before the line that would exceed it."""
    line_chars: int = Field(default=4_000, ge=10, le=100_000, json_schema_extra=_LOWER)
    """Maximum characters of one line in `read_file`; the rest is read by byte."""
    list_limit: int = Field(default=100, ge=1, json_schema_extra=_LOWER)
    """Maximum entries that `ls` and `glob` list; the others are counted."""
    grep_limit: int = Field(default=50, ge=1, json_schema_extra=_LOWER)
    """Maximum files or lines that `grep` lists; the others are counted."""
    grep_seconds: float = Field(default=20, gt=0, json_schema_extra=_LOWER)
    """Time limit of a `grep` or `glob`, in seconds."""
    grep_bytes: int = Field(default=256 * 1024 * 1024, ge=1, json_schema_extra=_LOWER)
    """Maximum bytes of a file that `grep` searches (at most `max_bytes` on a backend without range reads)."""
    max_bytes: int = Field(default=32 * 1024 * 1024, ge=1, json_schema_extra=_LOWER)
    """Maximum bytes of a file to edit, overwrite, or read on a backend without range reads."""
    document_seconds: float = Field(default=20, gt=0, json_schema_extra=_LOWER)
    """Time limit for reading a document or picture, in seconds."""
    document_memory: int = Field(default=1024**3, ge=128 * 1024**2, json_schema_extra=_LOWER)
    """Maximum bytes of memory of the process that reads a document or picture; on Linux."""
    document_pixels: int = Field(default=50_000_000, ge=1, json_schema_extra=_LOWER)
    """Maximum pixels of a picture, width times height."""
    execute_chars: int = Field(default=20_000, ge=100, json_schema_extra=_LOWER)
    """Maximum characters shown of a command's output: beginning, end, and the path of all of it."""
    execute_seconds: int = Field(default=600, ge=1, json_schema_extra=_LOWER)
    """Maximum `timeout` of `execute`, in seconds."""
    background_commands: int = Field(default=50, ge=0, json_schema_extra=_LOWER)
    """Maximum commands of a session that run in the background."""
    background_bytes: int = Field(default=10 * 1024**2, ge=4096, json_schema_extra=_LOWER)
    """Maximum bytes of the log of a background command; of more, the last are kept."""
    background_seconds: int = Field(default=43_200, ge=1, json_schema_extra=_LOWER)
    """Maximum time of a background command, in seconds."""
    ripgrep: bool = Field(default=True, json_schema_extra={"project": "off"})
    """Use `rg` if the workspace has it. The result is the same without."""
