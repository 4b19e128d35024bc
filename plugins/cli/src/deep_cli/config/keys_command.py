"""`deep keys`: store the keys of model providers."""

from __future__ import annotations

import sys

import click

from ..failure import USAGE, Failure
from ..terminal.output import ask_hidden, say
from ..terminal.screen import label

__all__ = ["keys"]


@click.group()
def keys() -> None:
    """Store the keys of model providers: in the system's keyring, else in a file that only you can read."""


@keys.command("set")
@click.argument("name", metavar="NAME")
def set_command(name: str) -> None:
    """Store the key of a provider (openai) or a variable (OPENAI_API_KEY). It is asked for, or read from stdin."""
    from .keys import set_key, variable_of

    variable = variable_of(name)
    value = ask_hidden(f"{variable}") if sys.stdin.isatty() else sys.stdin.read(10_000)
    if not value.strip():
        raise Failure(f"no key was given: type it, or pipe it: deep keys set {label(name)} < FILE", USAGE)
    say(f"{variable} is stored in {set_key(name, value)}")


@keys.command("list")
def list_command() -> None:
    """List which keys are stored, and where. It shows none."""
    from .keys import stored_keys

    found = stored_keys()
    for variable, where in found.items():
        say(f"{label(variable)}  {where}")
    if not found:
        say("no keys are stored: deep keys set openai")


@keys.command("delete")
@click.argument("name", metavar="NAME")
def delete_command(name: str) -> None:
    """Delete a stored key."""
    from .keys import delete_key, variable_of

    delete_key(name)
    say(f"deleted {variable_of(name)}")
