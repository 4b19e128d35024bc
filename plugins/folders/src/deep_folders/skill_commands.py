"""`deep skills add`, beside the commands of deep-skills. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import click

from .commands import add_folder, yes_option

__all__ = ["skills"]


@click.group("skills")
def skills() -> None:
    """Add skills of others."""


@skills.command("add")
@click.argument("origin", metavar="PATH|URL")
@click.option("--path", default="", help="The folder inside it, such as skills/pdf.")
@click.option("--ref", default="", help="The branch or tag of a repository.")
@click.option("--name", default="", help="The name of their folder here. Default: its own.")
@yes_option
def add(origin: str, path: str, ref: str, name: str, yes: bool) -> None:
    """Add one skill, or a folder or git repository of skills; nothing else in it is used.

    They are copied and pinned by their content. `deep folders update` shows what changed, `deep folders remove` removes
    them.
    """
    add_folder(origin, path, ref, name, yes, programs=False, skills_only=True)
