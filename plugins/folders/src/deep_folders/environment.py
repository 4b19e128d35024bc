"""What programs of folders get of this process's environment."""

from __future__ import annotations

__all__ = ["ENVIRONMENT", "NO_BYTE_CODE"]

ENVIRONMENT = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SYSTEMROOT",
    "TEMP",
    "TERM",
    "TMPDIR",
    "USER",
)
"""What a hook gets of this process's environment: no key of the user."""
NO_BYTE_CODE = {"PYTHONDONTWRITEBYTECODE": "1"}
"""For programs of folders: what they write beside their code would change the content that is pinned."""
