"""A static site from the rows of checks: a page with all plugins, and one for each distribution."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, cast

__all__ = ["awaited", "read_rows", "write_site"]

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff;
overflow-wrap:break-word}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.4rem .6rem;border-bottom:1px solid #ccc;
vertical-align:top}td.short{white-space:nowrap}code{overflow-wrap:anywhere}.well{color:#075c2e}.bad{color:#a1130f}code{font-size:.9em}
@media(max-width:40rem){td,th{display:block;border:0;padding:.1rem 0}tr{display:block;border-bottom:1px solid #ccc;
padding:.5rem 0}thead{display:none}td[data-head]::before{content:attr(data-head) ": "}}
@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}a{color:#8ab4f8}.well{color:#7fd6a4}.bad{color:#ff9d97}
td,th,tr{border-color:#444}}
"""
PAGE = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
    "<style>{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
)


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the newest row of each distribution in a folder, by name.

    Each gets `runs`, all rows of the distribution, and its plugins get their `worth`, where the folder has it.

    Raises:
        OSError: one cannot be read.
        ValueError: one is no row; the message names the file.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    worths: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.json")):
        data: object = json.loads(path.read_text(encoding="utf-8"))
        row = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        if row.get("schema") == 1 and isinstance(row.get("parts"), list):
            worths |= {str(part["part"]): part for part in row["parts"]}
        elif row.get("schema") == 1 and isinstance(row.get("distribution"), str):
            rows.setdefault(_stem(row["distribution"]), []).append(row)
        else:
            raise ValueError(f"{path} is no row of deep plugins check, and no output of eval ablate")
    return [_joined(found, worths) for _, found in sorted(rows.items())]


def _joined(runs: list[dict[str, Any]], worths: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    runs = sorted(runs, key=lambda row: str(row["checked"]), reverse=True)
    plugins = [{**plugin, "worth": worths.get(plugin["name"])} for plugin in runs[0]["plugins"]]
    return {**runs[0], "plugins": plugins, "runs": runs}


def write_site(rows: Sequence[dict[str, Any]], out: Path, title: str) -> None:
    """Write the pages; those of other distributions that are there stay.

    Raises:
        OSError: the folder cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    body = "\n".join([f"<h1>{escape(title)}</h1>", *_table(rows)])
    (out / "index.html").write_text(PAGE.format(title=escape(title), style=STYLE, body=body), encoding="utf-8")
    for row in rows:
        name = row["distribution"]
        page = PAGE.format(title=escape(name), style=STYLE, body="\n".join(_about(row, title)))
        (out / _file(name)).write_text(page, encoding="utf-8")


def awaited(plugin: Mapping[str, Any]) -> Sequence[str]:
    """Return the options that a plugin without tools may wait for, such as the address of a service."""
    return () if plugin["tools"] or "deep_toolsets" not in plugin["hooks"] else plugin.get("options", ())


def _stem(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")


def _file(name: str) -> str:
    stem = _stem(name)
    return "index-.html" if stem == "index" else f"{stem}.html"  # no other name ends with "-"


def _table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    measured = any(plugin["worth"] for row in rows for plugin in row["plugins"])
    heads = ["Plugin", "What it does", "Tokens a request", *(["Worth"] if measured else []), "Check"]
    yield f"<table>\n<thead><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr></thead>"
    yield "<tbody>"
    for row in rows:
        name, version = escape(row["distribution"]), escape(str(row.get("version") or ""))
        known = [plugin["tokens"] for plugin in row["plugins"] if plugin.get("tokens") is not None]
        tokens = f"{sum(known):,}" if known else "not known"
        if any(map(awaited, row["plugins"])):
            tokens += " until configured"
        worth = ", ".join(_points(plugin["worth"]) for plugin in row["plugins"] if plugin["worth"])
        short = {"Tokens a request": tokens, "Check": _verdict(row)}
        if measured:
            short["Worth"] = worth or "not measured"
        cells = (f'<td class="short" data-head="{head}">{short[head]}</td>' for head in heads[2:])
        yield (
            f'<tr><td><a href="{_file(row["distribution"])}">{name}</a> {version}</td><td>{escape(row["summary"])}</td>'
            f"{''.join(cells)}</tr>"
        )
    yield "</tbody>\n</table>"


def _points(worth: Mapping[str, Any]) -> str:
    """The points of a difference with its interval: without, chance looks like worth."""
    low, high = (f"{worth[key] * 100:+.0f}" for key in ("low", "high"))
    return f"{worth['difference'] * 100:+.0f} ({low} to {high})"


def _verdict(row: dict[str, Any]) -> str:
    return '<span class="well">passed</span>' if row["well"] else '<span class="bad">failed</span>'


def _about(row: dict[str, Any], title: str) -> Iterator[str]:
    name = escape(row["distribution"])
    yield f'<p><a href="index.html">{escape(title)}</a></p>'
    yield f"<h1>{name} {escape(str(row.get('version') or ''))}</h1>"
    yield f"<p>{escape(row['summary'])}</p>\n<p>Check: {_verdict(row)}</p>"
    yield f"<p><code>deep plugins install {name}</code></p>"
    if row["problem"]:
        yield f'<p class="bad">{escape(row["problem"])}</p>'
    for plugin in row["plugins"]:
        yield f"<h2>Plugin <code>{escape(plugin['name'])}</code>: {escape(plugin['status'])}</h2>"
        if plugin["reason"]:
            yield f"<p>{escape(plugin['reason'])}</p>"
        if plugin.get("tokens") is not None:
            yield f"<p>{plugin['tokens']:,} tokens a request.</p>"
        for what in ("hooks", "options"):
            if plugin.get(what):
                yield f"<p>{what.capitalize()}: {_codes(plugin[what])}</p>"
        if awaited(plugin):
            yield "<p>It has no tools before it is configured.</p>"
        if worth := plugin["worth"]:
            said, tasks = escape(worth["sentence"].rstrip(".")), worth["tasks"]
            solved = f"{worth['with_it']:.0%} are solved with it, {worth['without']:.0%} without"
            yield f"<p>Worth: {said}. Of {tasks} tasks, {solved}.</p>"
        if plugin["tools"]:
            yield "<p>Tools and their tags:</p>\n<ul>"
            for tool in plugin["tools"]:
                yield f"<li><code>{escape(tool['name'])}</code>: {escape(', '.join(tool['tags']) or 'no tags')}</li>"
            yield "</ul>"
    yield from _tests("Conformance suite", row["conformance"])
    if row["suite"] is not None:
        yield from _tests("Its own tests", row["suite"])
    yield "<h2>Versions</h2>\n<ul>"
    for run in row["runs"]:
        versions = ", ".join(f"{escape(key)} {escape(value)}" for key, value in run["versions"].items())
        yield (
            f"<li>{_verdict(run)}: {escape(str(run.get('version') or 'no version'))} with {versions or 'nothing'}, "
            f"{escape(_when(run['checked']))}</li>"
        )
    yield "</ul>"


def _tests(what: str, tests: dict[str, Any]) -> Iterator[str]:
    yield f"<h2>{what}</h2>\n<p>{tests['passed']} passed, {tests['failed']} failed, {tests['skipped']} skipped.</p>"
    if tests["problems"]:
        yield f"<ul>{''.join(f'<li>{escape(problem)}</li>' for problem in tests['problems'])}</ul>"


def _when(checked: str) -> str:
    return f"{checked[:10]} {checked[11:16]} UTC" if checked.endswith("+00:00") else checked


def _codes(names: Sequence[str]) -> str:
    return ", ".join(f"<code>{escape(name)}</code>" for name in names)
