"""What can be set for the file tools."""

# No postponed annotations: pydantic would compile and evaluate the text of each while the class is made.
from pydantic import Field

from deep_core import PluginOptions

__all__ = ["FilesystemOptions"]


class FilesystemOptions(PluginOptions):
    """Options of the plugin `filesystem`."""

    include_execute: bool = True
    """Offer `execute` where the workspace runs commands."""
    require_write_approval: bool = Field(default=False, json_schema_extra={"trusted": True})
    """`write_file` and `edit_file` ask first."""
    require_execute_approval: bool = Field(default=True, json_schema_extra={"trusted": True})
    """`execute` asks first."""
    read_lines: int = Field(default=2000, ge=1)
    """Lines of one `read_file`, at most."""
    read_chars: int = Field(default=40_000, ge=100, le=1_000_000)
    """Characters of one `read_file`, at most; a page ends before the line that would exceed it."""
    line_chars: int = Field(default=4_000, ge=10, le=100_000)
    """Characters of one line that `read_file` shows; the rest is read by byte."""
    list_limit: int = Field(default=100, ge=1)
    """Entries that `ls` and `glob` name; the others are counted."""
    grep_limit: int = Field(default=50, ge=1)
    """Files or lines that `grep` names; the others are counted."""
    grep_seconds: float = Field(default=20, gt=0)
    """Seconds that a `grep` or `glob` may take."""
    grep_bytes: int = Field(default=256 * 1024 * 1024, ge=1)
    """Files of more bytes are not searched by `grep` (nor those above `max_bytes` on a backend without ranges)."""
    max_bytes: int = Field(default=32 * 1024 * 1024, ge=1)
    """Bytes of a file that is edited, overwritten, or read on a backend that reads no ranges; larger is refused."""
    execute_chars: int = Field(default=20_000, ge=100)
    """Characters of a command's output that are shown: its beginning, its end, and where all of it is kept."""
    execute_seconds: int = Field(default=600, ge=1)
    """The longest `timeout` that `execute` accepts, in seconds."""
    ripgrep: bool = True
    """Use `rg` where the workspace has it. The answer is the same without."""
