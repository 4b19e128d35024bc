"""What programs of folders get of this process's environment."""

from __future__ import annotations

import os

from deep_core.plugin_api import absolute_path

__all__ = ["ENVIRONMENT", "NO_BYTE_CODE", "hook_environment"]

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


def hook_environment(shell: str) -> dict[str, str]:
    """Return what a hook that this shell runs sees, before the folder's own variables."""
    found = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    if "PATH" in found:  # hooks start in the workspace: a relative entry would run its programs
        found["PATH"] = absolute_path(found["PATH"])
    return {**found, **NO_BYTE_CODE, "SHELL": shell}
