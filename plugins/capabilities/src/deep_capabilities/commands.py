"""`deep capabilities list`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from deep_cli import config_option, one_line, say, say_json
from pydantic_ai.models.test import TestModel

from deep_core import Kernel, PluginWarning, agent_context

from .agents import Entry, find_entries
from .catalog import Importable, find_importable
from .options import PLUGIN, CapabilitiesOptions

__all__ = ["capabilities"]


@click.group("capabilities")
def capabilities() -> None:
    """List the Pydantic AI capabilities of the agent, and those that you can name."""


@capabilities.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@config_option
def list_capabilities(as_json: bool, config: Path | None) -> None:
    """List what the configuration names, then what Pydantic AI and its harness have here.

    The cost is an estimate of a request's tokens for tools and fixed instructions, four characters each; `-` if they
    are known only in a run. Nothing is run, and nothing is sent.
    """
    entries = _configured(config)
    importable = [*find_importable()]
    if as_json:
        say_json({"schema": 1, "entries": [*map(_entry, entries)], "importable": [*map(_importable, importable)]})
        return
    for entry in entries:
        say(f"{one_line(entry.name)}  {entry.status}  {one_line(entry.use, None)}")
        if entry.reason:
            say(f"  {one_line(entry.reason, None)}")
    if not entries:
        say(f"no capability is configured; [plugins.{PLUGIN}.options.entries.NAME] use = …", err=True)
    for home, title in (("core", "Pydantic AI"), ("harness", "its harness")):
        _say_all(title, [each for each in importable if each.home == home])


def _configured(config: Path | None) -> list[Entry]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)  # the list says the same
        with Kernel(config=config) as kernel:
            context = agent_context(kernel.create_agent(TestModel()), PLUGIN)
            return find_entries(context, context.options(CapabilitiesOptions))


def _say_all(title: str, found: Iterable[Importable]) -> None:
    found = list(found)
    if found:
        say(f"\nFrom {title}:")
    for each in found:
        cost = "-" if each.tokens is None else str(each.tokens)
        status = "" if each.status == "ready" else f"  {each.status}"
        say(f"  {each.use}  {cost}{status}")
        if each.summary:
            say(f"    {one_line(each.summary, None)}")
        if each.detail:
            say(f"    {one_line(each.detail, None)}")


def _entry(entry: Entry) -> dict[str, Any]:
    return {"name": entry.name, "use": entry.use, "status": entry.status, "reason": entry.reason}


def _importable(each: Importable) -> dict[str, Any]:
    return {
        "name": each.name,
        "use": each.use,
        "home": each.home,
        "summary": each.summary,
        "status": each.status,
        "detail": each.detail,
        "tools": [*each.tools],
        "tokens": each.tokens,
    }
