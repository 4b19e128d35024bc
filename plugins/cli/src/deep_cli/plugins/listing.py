"""Print `deep plugins list` without click, whose import takes as long as the rest of the command."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deep_core import PluginWarning
from deep_core.plugin_api import visible

from ..terminal.output import as_json as dump_json
from ..terminal.screen import label, open_streams, redact
from .advice import rewrite_advice

if TYPE_CHECKING:
    from deep_core import PluginRecord

__all__ = ["as_json", "as_table", "plugin_list", "show"]

COLORS = {"active": 32, "disabled": 33, "blocked": 33}
"""Status -> ANSI color: green, yellow; red (31) for the others."""
COLUMNS = ("NAME", "VERSION", "DISTRIBUTION", "STATUS", "REASON")


def plugin_list(*, json: bool) -> str | None:
    """Return the list, or None if there are warnings or errors.

    The full command shows those: it starts over and gets the same ones.

    Args:
        json: the JSON form instead of the table.
    """
    from deep_core.plugin_api import find_plugins

    open_streams()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PluginWarning)
            found = find_plugins()
        colors = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        text = as_json(found.records) if json else as_table(found.records, colors=colors)
    except Exception:  # noqa: BLE001 - the full command raises it again
        return None
    return None if caught or found.warnings else text


def show(records: Sequence[PluginRecord], *, json: bool) -> None:
    """Print the list."""
    import click

    click.echo(as_json(records) if json else as_table(records, colors=True))


def as_table(records: Sequence[PluginRecord], *, colors: bool) -> str:
    """One line for each plugin, or more if its reason has several."""
    if not records:
        return rewrite_advice("No plugin is installed, so agents have no tools: pip install deep-everything")
    rows = [
        (r.name, r.version or "-", r.distribution or "-", r.status, redact(rewrite_advice(r.reason))) for r in records
    ]
    widths = [max(len(label(row[i])) for row in (COLUMNS, *rows)) for i in range(4)]
    lines = [_row(COLUMNS, widths), *(_row(row, widths, COLORS.get(row[3], 31) if colors else 0) for row in rows)]
    return "\n".join(line.rstrip() for line in lines)


def _row(row: tuple[str, ...], widths: list[int], color: int = 0) -> str:
    cells = [label(cell).ljust(width) for cell, width in zip(row[:4], widths, strict=True)]
    if color:
        cells[3] = cells[3].replace(row[3], f"\x1b[{color}m{row[3]}\x1b[0m", 1)
    # A reason may have several lines (all plugins of a clash); indent the others below the first.
    indent = "\n" + " " * (sum(widths) + 2 * len(widths))
    return "  ".join([*cells, visible(row[4]).replace("\n", indent)])


def as_json(records: Sequence[PluginRecord]) -> str:
    """The list as JSON."""
    return dump_json({"schema": 1, "plugins": [_json(record) for record in records]})


def _json(record: PluginRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "status": record.status,
        "reason": redact(rewrite_advice(record.reason)),
        "path": record.path,
        "editable": record.editable,
        "hooks": None if record.hooks is None else list(record.hooks),
    }
