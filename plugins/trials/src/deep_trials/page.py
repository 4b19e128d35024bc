"""One static page of a run: a matrix whose cells open the conversation. No script, no file beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .comparing import by_contender
from .reports import LEGEND, columns, summaries, verdicts
from .rows import Row

__all__ = ["page_of", "write_page"]

NAME = "index.html"
LONGEST = 4_000
"""Most characters of one text of a conversation; the session has all of it."""
MARKS = {"solved": "✓", "unsolved": "✗"}
STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --line: #d9dbe0; --page: #fff; --card: #f6f7f9;
  --good: #14743c; --good-back: #e3f4e9; --bad: #a8291f; --bad-back: #fbe9e7; --odd: #7a5600; --odd-back: #fbf1d8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ec; --soft: #a3a8b0; --line: #3a3e45; --page: #15171a;
  --card: #1e2125; --good: #7fd9a1; --good-back: #17321f; --bad: #ff9d94; --bad-back: #3d1d1a; --odd: #f0c76b;
  --odd-back: #35290f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.125rem; margin: 2.5rem 0 .75rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); font-size: .875rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .75rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } th { font-weight: 600; color: var(--soft);
  white-space: normal; vertical-align: bottom; }
td.cells { text-align: center; } td.cells a { display: inline-block; min-width: 2.75rem;
  min-height: 2rem; padding: .25rem .5rem; margin: .125rem; border-radius: .375rem; font-size: .875rem;
  text-decoration: none; }
.solved { background: var(--good-back); color: var(--good); }
.unsolved { background: var(--bad-back); color: var(--bad); }
.other { background: var(--odd-back); color: var(--odd); }
a { color: inherit; } p { max-width: 48rem; }
@media (max-width: 480px) { th, td { padding: .4rem .5rem; } td:first-child { white-space: normal; min-width: 8rem; } }
a:focus-visible, summary:focus-visible { outline: 3px solid #3b82f6; outline-offset: 2px; }
section.trial { border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem; margin: .75rem 0;
  scroll-margin: 1rem; }
section.trial:target { border-color: #3b82f6; box-shadow: 0 0 0 2px #3b82f6; }
section.trial:not(:target) .talk { display: none; } section.trial h3 { font-size: 1rem; margin: 0; }
.part { margin: .75rem 0; padding: .5rem .75rem; background: var(--card); border-radius: .375rem; }
.part b { display: block; font-size: .8125rem; color: var(--soft); }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font: .875rem/1.45 ui-monospace, monospace; }
.badge { border-radius: .375rem; padding: .0625rem .5rem; font-size: .8125rem; }
"""


def write_page(rows: Sequence[Row], folder: Path) -> Path:
    """Write the page of a run beside its lines; return its path."""
    path = folder / NAME
    new = path.with_suffix(".new")
    new.write_text(page_of(rows, folder), encoding="utf-8")
    os.replace(new, path)
    return path


def page_of(rows: Sequence[Row], folder: Path) -> str:
    """Return the page. What a model, a file or a tool wrote is escaped."""
    title = f"{rows[0].suite}: {len({row.task for row in rows})} tasks, {len(rows)} trials"
    ids = {row.key: f"t{number}" for number, row in enumerate(rows, 1)}
    said = verdicts(rows)
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(_when(rows))}</p>',
        "<h2>Agents</h2>",
        *_table(*columns(summaries(rows))),
        f'<p class="soft">{escape(LEGEND)}</p>',
        *(f"<p>{escape(line)}</p>" for line in said),
        "<h2>Tasks</h2>",
        *_matrix(rows, ids),
        "<h2>Conversations</h2>",
        '<p class="soft">Choose a cell above, or a heading, to open one.</p>',
        *(_trial(row, ids, folder) for row in rows),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def _when(rows: Sequence[Row]) -> str:
    versions = rows[0].versions
    named = [
        f"{name} {versions[name]}"
        for name in ("deep-trials", "deep-agent-core", "pydantic-ai-slim")
        if name in versions
    ]
    return ", ".join(named)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield '<div class="wide"><table><thead><tr>'
    yield "".join(f'<th scope="col">{escape(each)}</th>' for each in titles) + "</tr></thead><tbody>"
    for cells in rows:
        yield f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in cells)}</tr>"
    yield "</tbody></table></div>"


def _matrix(rows: Sequence[Row], ids: Mapping[Any, str]) -> Iterator[str]:
    who = [*by_contender(rows)]
    yield '<div class="wide"><table><thead><tr><th scope="col">task</th>'
    yield "".join(f'<th scope="col">{escape(each)}</th>' for each in who) + "</tr></thead><tbody>"
    for task in dict.fromkeys(row.task for row in rows):
        yield f"<tr><td>{escape(task)}</td>"
        for each in who:
            found = [row for row in rows if row.task == task and row.who == each]
            yield f'<td class="cells">{"".join(_cell(row, ids[row.key]) for row in found)}</td>'
        yield "</tr>"
    yield "</tbody></table></div>"


def _kind(row: Row) -> str:
    return row.end if row.end in MARKS else "other"


def _cell(row: Row, target: str) -> str:
    label = escape(f"{row.task}, {row.who}, trial {row.n}: {row.end}")
    mark = escape(MARKS.get(row.end, row.end))
    return f'<a class="{_kind(row)}" href="#{target}" aria-label="{label}" title="{label}">{mark}</a>'


def _trial(row: Row, ids: Mapping[Any, str], folder: Path) -> str:
    target = ids[row.key]
    store = f"sqlite:///{(folder / row.folder / 'session.db').as_posix()}"
    facts = f"{row.seconds:g} s, {row.requests} requests, {row.calls} calls, {row.tokens_in + row.tokens_out:,} tokens"
    open_it = f"deep sessions show {row.session} --store {store}"
    note = f"<p>{escape(row.note)}</p>" if row.note else ""
    scores = ", ".join(f"{name}: {value}" for name, value in row.scores.items())
    return (
        f'<section class="trial" id="{target}"><h3><a href="#{target}">{escape(row.task)}</a> '
        f'<span class="badge {_kind(row)}">{escape(row.end)}</span></h3>'
        f'<p class="soft">{escape(row.who)}, trial {row.n}: {escape(facts)}</p>{note}'
        f'<div class="talk">{f"<p>{escape(scores)}</p>" if scores else ""}{"".join(_talk(row, folder))}'
        f'<p class="soft"><code>{escape(open_it)}</code></p><p><a href="#">Back to the top</a></p></div></section>'
    )


def _talk(row: Row, folder: Path) -> Iterator[str]:
    try:
        said: dict[str, Any] = json.loads((folder / row.folder / "transcript.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        yield '<p class="soft">This trial left no conversation.</p>'
        return
    for part in said["messages"]:
        if part["kind"] == "call":
            yield _part(f"call {part['tool']}", json.dumps(part["args"], ensure_ascii=False, indent=1))
            yield _part(f"result: {part['outcome']}", part["result"])
        else:
            yield _part(part["kind"], part["text"])


def _part(title: str, text: str) -> str:
    cut = f"{text[:LONGEST]}\n… {len(text) - LONGEST:,} characters more" if len(text) > LONGEST else text
    return f'<div class="part"><b>{escape(title)}</b><pre>{escape(cut)}</pre></div>'
