"""`deep explain`: the assembled agent, every part with its plugin and its cost."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..failure import USAGE, Failure
from ..flags import agent_option, config_option, json_option, plugin_option, verbose_option
from ..terminal.output import Lines, say_json, say_text
from ..terminal.screen import redact, redact_json, redirect_prints

if TYPE_CHECKING:
    from deep_core import Explanation

    from .preview import KnownWindow

__all__ = ["explain"]


@click.command()
@json_option
@click.option("--prompt", "prompt_only", is_flag=True, help="Print only the prompt.")
@plugin_option
@agent_option
@config_option
@verbose_option
def explain(
    as_json: bool, prompt_only: bool, plugin_files: tuple[Path, ...], agent_name: str | None, config: Path | None
) -> None:
    """Show the agent of `deep run`: sections, tools, processors, capabilities, and the cost of each.

    It needs no model and no key; tokens are an estimate (four characters each).
    """
    from ..plugins.files import load_plugin_files
    from .preview import preview, preview_own

    if agent_name is not None and (plugin_files or config is not None):
        raise Failure("--agent names a whole agent: leave out --plugin and --config", USAGE)
    with redirect_prints():
        if agent_name is not None:
            explanation, window = preview_own(agent_name)
        else:
            explanation, window = preview(load_plugin_files(plugin_files), config)
    if prompt_only:
        prompt = redact(explanation.prompt)
        say_text(prompt, sys.stdout)
    elif as_json:
        say_json(redact_json({**explanation.to_json(), "window": window._asdict()}))
    else:
        _print(explanation, window)


SOURCES: Mapping[str, str] = {
    "configured": "agent.model.context_window",
    "server": "its server says so",
    "list": "from the list of known models",
    "learned": "an overflow showed it",
    "guess": "a guess: nothing says it; set agent.model.context_window",
}


def _print(explanation: Explanation, window: KnownWindow) -> None:
    lines = Lines(wrap=True)
    _table(
        lines,
        "Prompt sections",
        ("section", "plugin", "tokens", ""),
        [(s.name, s.plugin, str(s.tokens), _words(live=s.live, locked=s.locked)) for s in explanation.sections],
    )
    _table(
        lines,
        "Tools",
        ("tool", "plugin", "tokens", "approval", "tags"),
        [
            (t.name, t.plugin, str(t.tokens), t.approval + (", on demand" if t.deferred else ""), ", ".join(t.tags))
            for t in explanation.tools
        ],
    )
    if sources := _sources(explanation):
        _table(lines, "Tools by where their plugin has them from", ("source", "tools", "tokens", ""), sources)
    _table(
        lines,
        "History processors",
        ("processor", "plugin", "phase"),
        [(p["name"], p["plugin"], p["phase"]) for p in explanation.history_processors],
    )
    _table(
        lines,
        "Capabilities, outermost first",
        ("id", "plugin"),
        [(c["id"] or "-", c["plugin"] or "-") for c in explanation.capabilities],
    )
    if explanation.contributions:
        rows = [(c["item"], c["plugin"], c["hook"], c["owner"]) for c in explanation.contributions]
        _table(lines, "Contributions to plugins' hooks, and skill loaders", ("item", "plugin", "hook", "of"), rows)
    if explanation.left_out:
        rows = [(item["plugin"], item["status"], item["reason"]) for item in explanation.left_out]
        _table(lines, "Left out, because they failed", ("plugin", "status", "reason"), rows)
    name = redact(window.model) if window.model else "the model (none is configured)"
    lines.line(f"window of {name}: {window.tokens:,} tokens ({SOURCES[window.source]})")
    parts = ", ".join(f"{plugin} {count:,}" for plugin, count in explanation.by_plugin().items())
    lines.line(f"{explanation.tokens:,} tokens a request (estimate)" + (f": {parts}" if parts else ""))


def _sources(explanation: Explanation) -> list[tuple[str, str, str, str]]:
    """Return each source, such as a server, with the number and the tokens of its tools, the most costly first."""
    costs: dict[tuple[str, bool], list[int]] = {}
    for tool in explanation.tools:
        if tool.source:
            costs.setdefault((tool.source, tool.deferred), []).append(tool.tokens)
    rows = sorted(costs.items(), key=lambda item: -sum(item[1]))
    return [(source, str(len(each)), f"{sum(each):,}", _words(on_demand=later)) for (source, later), each in rows]


def _words(**flags: bool) -> str:
    return ", ".join(word.replace("_", " ") for word, holds in flags.items() if holds)


def _table(lines: Lines, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines.line((title, "bold"))
    if not rows:
        lines.line("  none\n")
        return
    lines.table(columns, [[redact(cell) for cell in row] for row in rows], right="tokens")
    lines.line()
