"""`deep worktree`: sessions in git worktrees of their own, listed, merged or dropped."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..failure import USAGE, Failure
from ..terminal.output import confirm, say
from ..terminal.screen import content_line, label

__all__ = ["worktree"]

_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
_name = click.argument("name", metavar="[NAME]", required=False, default="")


@click.group()
def worktree() -> None:
    """Sessions in git worktrees of their own: `deep run --worktree` and `/worktree new` in a chat begin one."""


@worktree.command("list")
def list_command() -> None:
    """List the worktrees of this folder's repository, and how much each changed."""
    from .worktrees import list_worktrees, summary

    found = list_worktrees(Path.cwd())
    for each in found:
        say(f"{label(each.name)}  {summary(each)}  {label(str(each.path))}")
    if not found:
        say("no worktrees; begin one with: deep run --worktree TASK")


@worktree.command("diff")
@_name
def diff_command(name: str) -> None:
    """Show what a worktree changed, with what is not committed; without NAME, the one of this folder."""
    from .worktrees import diff_of, find_worktree

    for line in diff_of(find_worktree(Path.cwd(), name)).splitlines():
        say(content_line(line))


@worktree.command("merge")
@_name
@_yes
def merge_command(name: str, yes: bool) -> None:
    """Show a worktree's diff, merge it into the branch of the main folder, and delete the worktree."""
    from .worktrees import find_worktree, merge

    found = find_worktree(Path.cwd(), name)
    _ask(found.name, "merge", yes=yes)
    say(f"merged {label(found.name)} into {label(merge(found))}")


@worktree.command("drop")
@_name
@_yes
def drop_command(name: str, yes: bool) -> None:
    """Show a worktree's diff, and delete the worktree with its branch."""
    from .worktrees import drop, find_worktree

    found = find_worktree(Path.cwd(), name)
    _ask(found.name, "drop", yes=yes)
    drop(found)
    say(f"dropped {label(found.name)}")


def _ask(name: str, verb: str, *, yes: bool) -> None:
    from .worktrees import diff_of, find_worktree, summary

    found = find_worktree(Path.cwd(), name)
    for line in diff_of(found).splitlines():
        say(content_line(line))
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"nobody is here to answer: {verb} it with --yes", USAGE)
    confirm(f"{summary(found)}. {verb} it?")
