"""What programs of folders get of this process's environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from deep_core.plugin_api import absolute_path

__all__ = ["ENVIRONMENT", "NO_BYTE_CODE", "SECRET", "hook_environment", "is_named"]

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
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD|CREDENTIAL|AUTH(?!OR)|COOKIE", re.I)
"""The name of a variable that may be a secret: `SG_*` does not hand it over."""
_LOGIN = re.compile(r"://[^/\s@]*:[^/\s@]*@")


def hook_environment(shell: str, names: Sequence[str] = ()) -> dict[str, str]:
    """Return what a hook that this shell runs sees, before the folder's own variables.

    Args:
        shell: the program.
        names: the further variables that the user hands to the folder; `SG_*` for all that begin so.
    """
    found = {name: os.environ[name] for name in (*ENVIRONMENT, *_named(names)) if name in os.environ}
    if "PATH" in found:  # hooks start in the workspace: a relative entry would run its programs
        found["PATH"] = absolute_path(found["PATH"])
    return {**found, **NO_BYTE_CODE, "SHELL": shell}


def is_named(name: str, names: Sequence[str]) -> bool:
    """Whether one of these names, or beginnings as `SG_*`, is that of a variable; of a secret, only its whole name."""
    if name in names:
        return True
    begins = any(given.endswith("*") and name.startswith(given[:-1]) for given in names)
    return begins and SECRET.search(name) is None


def _named(names: Sequence[str]) -> Iterator[str]:
    for name, value in os.environ.items():
        if name in names or (is_named(name, names) and not _LOGIN.search(value)):
            yield name
