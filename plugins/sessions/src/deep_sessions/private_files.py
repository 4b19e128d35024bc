"""Files that only their user reads, replaced as a whole: keys, kept approvals, records of installations."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["replace_private"]


def replace_private(file: Path, text: str) -> None:
    """Write a file that only its user reads, so that a reader sees the old text or the new one.

    Raises:
        OSError: its folder cannot be made, or is not writable.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=file.parent)  # readable by the user alone
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(temporary, file)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
