"""`deep plugins`: what is installed, told without importing any of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from deep_cli.failure import USAGE, Failure
from deep_cli.flags import json_option, verbose_option
from deep_cli.screen import plain, redact

if TYPE_CHECKING:
    from deep_core import PluginRecord

__all__ = ["plugins"]

COLOURS = {"active": "green", "disabled": "yellow", "blocked": "yellow"}
COLUMNS = ("NAME", "VERSION", "DISTRIBUTION", "STATUS", "REASON")


@click.group()
@verbose_option
def plugins() -> None:
    """The installed plugins and what became of them."""


@plugins.command("list")
@json_option
@verbose_option
@click.pass_context
def list_plugins(ctx: click.Context, as_json: bool) -> None:
    """List every plugin with its status; no plugin is imported.

    `active` would load, or did when it was last loaded; every other status has its reason and what to type.
    """
    import warnings

    from deep_core import PluginWarning
    from deep_core.kernel import survey

    found = survey()
    for message in found.warnings:
        warnings.warn(message, PluginWarning, stacklevel=1)
    if as_json:
        click.echo(json.dumps({"schema": 1, "plugins": [_json(r) for r in found.records]}, indent=2))
        return
    if not found.records:
        click.echo("No plugin is installed, so agents have no tools: pip install deep-all")
        return
    rows = [(r.name, r.version or "-", r.distribution or "-", r.status, redact(r.reason)) for r in found.records]
    widths = [max(len(row[i]) for row in (COLUMNS, *rows)) for i in range(4)]
    click.echo(_row(COLUMNS, widths).rstrip())
    for row in rows:
        click.echo(_row(row, widths, COLOURS.get(row[3], "red")).rstrip())


@plugins.command("uninstall")
@click.argument("name", metavar="PLUGIN")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@verbose_option
def uninstall(name: str, yes: bool) -> None:
    """Uninstall a plugin's distribution; the plugin is not imported.

    PLUGIN is a plugin's or a distribution's name.
    """
    from deep_cli.removal import distribution_of, remove
    from deep_core.kernel import survey

    records = survey().records
    distribution = distribution_of(name, records)
    others = [record.name for record in records if record.distribution == distribution]
    if not yes:
        if not click.get_text_stream("stdin").isatty():
            raise Failure(f"there is no terminal to ask on; add --yes to uninstall {distribution}", USAGE)
        click.confirm(f"Uninstall {distribution} (plugins: {', '.join(others)})?", abort=True)
    remove(distribution)
    click.echo(f"Uninstalled {distribution}.")


def _row(row: tuple[str, ...], widths: list[int], colour: str | None = None) -> str:
    cells = [plain(cell).ljust(width) for cell, width in zip(row[:4], widths, strict=True)]
    if colour is not None:
        cells[3] = click.style(cells[3], fg=colour)
    # A reason may have several lines (who clashes with whom); all but the first stand below it.
    indent = "\n" + " " * (sum(widths) + 2 * len(widths))
    return "  ".join([*cells, plain(row[4]).replace("\n", indent)])


def _json(record: PluginRecord) -> dict[str, Any]:
    """One plugin in the documented form (contract, section 10)."""
    return {
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "status": record.status,
        "reason": redact(record.reason),
        "path": record.path,
        "editable": record.editable,
        "hooks": None if record.hooks is None else list(record.hooks),
    }
