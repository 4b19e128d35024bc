"""The directories of this machine with skills: a project's and the user's."""

from __future__ import annotations

import os
from typing import NamedTuple

__all__ = ["Root", "project_roots", "user_roots"]

FOLDERS = (".deep/skills", ".agents/skills", ".claude/skills")
"""Folders of skills in a project; the last two also in the home directory."""


class Root(NamedTuple):
    """A directory to search.

    Attributes:
        path: may be relative, to the current directory; `~` is expanded.
        within: symbolic links may lead anywhere below this directory; None: below `path` only.
        recursive: also search below folders that are not skills.
    """

    path: str
    within: str | None = None
    recursive: bool = True


def project_roots() -> list[Root]:
    """The project's directories, in the present working directory.

    Links may lead anywhere below it: tools that install skills link `.claude/skills/x` to `.agents/skills/x`.
    """
    here = os.getcwd()
    return [Root(os.path.join(here, folder), within=here) for folder in FOLDERS]


def user_roots() -> list[Root]:
    """The user's: `deep/skills` in the configuration directory, `~/.agents/skills` and `~/.claude/skills`."""
    from platformdirs import user_config_path

    home = os.path.expanduser("~")
    own = user_config_path("deep") / "skills"
    return [Root(str(own), within=home if own.is_relative_to(home) else None)] + [
        Root(os.path.join(home, folder), within=home) for folder in FOLDERS[1:]
    ]
