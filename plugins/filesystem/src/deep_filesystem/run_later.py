"""Files that programs of the user run by themselves: at the next git command, at the next `cd`, at the next start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai.exceptions import ApprovalRequired

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from .access import Place

__all__ = ["FILES", "FOLDERS", "ask_before_writing", "runs_later"]

# Only what runs although the user did not choose it: a Makefile, a test or a package's scripts are not here.
FOLDERS = {
    ".git": "git runs its hooks, and the programs that its configuration names",
    ".hg": "Mercurial runs the hooks that its configuration names",
    ".husky": "git runs its hooks, once husky is installed",
    ".vscode": "the editor runs its tasks and uses the programs that its settings name",
    ".idea": "the editor runs its configurations",
    ".devcontainer": "the editor runs its commands",
    ".direnv": "direnv reads it when you enter the folder",
    ".ssh": "ssh runs the commands that its configuration names",
}
"""Why writing anything in a folder of this name asks."""
FILES = {
    ".envrc": "direnv runs it when you enter the folder",
    "mise.toml": "mise runs its hooks when you enter the folder",
    ".mise.toml": "mise runs its hooks when you enter the folder",
    ".pre-commit-config.yaml": "git runs what it names, once pre-commit is installed",
    "lefthook.yml": "git runs what it names, once lefthook is installed",
    ".npmrc": "npm runs the shell that it names",
    ".yarnrc.yml": "yarn runs the programs that it names",
    "sitecustomize.py": "Python runs it at every start",
    "usercustomize.py": "Python runs it at every start",
    **dict.fromkeys((".profile", ".bashrc", ".bash_profile", ".bash_login"), "the shell runs it at its start"),
    **dict.fromkeys((".zshenv", ".zprofile", ".zshrc", ".zlogin"), "the shell runs it at its start"),
}
"""Why writing a file of this name asks."""


def runs_later(path: str) -> str | None:
    """Why a path is of a file that runs by itself, or None. Ignores case, as some file systems do."""
    names = [name for name in path.casefold().split("/") if name]
    reasons = [FOLDERS[name] for name in names if name in FOLDERS]
    return reasons[0] if reasons else FILES.get(names[-1]) if names else None


async def ask_before_writing(ctx: RunContext[Any], place: Place) -> None:
    """Ask before a file is written that runs by itself, by whatever name: links are followed.

    Raises:
        ApprovalRequired: a person must decide.
    """
    if ctx.tool_call_approved or not (runs_later(place.absolute) or runs_later(place.real)):
        return
    # Not the folders above the workspace: it may be in one of these as a whole.
    root = (await ctx.workspace.working_dir()).rstrip("/") + "/"
    inside = [path.removeprefix(root) for path in (place.absolute, place.real)]
    if reason := next(filter(None, map(runs_later, inside)), None):
        raise ApprovalRequired({"plugin": "filesystem", "reason": f"{place.shown} can run programs later: {reason}"})
