"""A run in words: for the terminal, as Markdown, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from .comparing import Comparison, Summary, by_contender, compare, summarize
from .rows import Row

__all__ = [
    "as_json",
    "as_markdown",
    "as_text",
    "comparison_json",
    "comparison_lines",
    "markdown_of",
    "table",
    "verdicts",
]

MOST_NAMED = 4
MOST = 20
"""Most lines of tasks that were not solved; the page has all."""


def summaries(rows: Sequence[Row]) -> list[Summary]:
    """Return the summary of each contender."""
    return [summarize(who, theirs) for who, theirs in by_contender(rows).items()]


def percent(value: float) -> str:
    """Return a share in whole percent; `–` for none."""
    return "–" if math.isnan(value) else f"{value * 100:.0f} %"


def interval(summary: Summary) -> str:
    """Return the interval of a rate."""
    return f"{summary.low * 100:.0f}–{summary.high * 100:.0f} %" if summary.trials else "–"


def columns(found: Sequence[Summary]) -> tuple[list[str], list[list[str]]]:
    """Return titles and cells of the table of contenders; a column that says nothing is left out."""
    repeated = any(each.k > 1 for each in found)
    titles = ["agent", "solved", "rate", "95 %"]
    titles += [f"all of {found[0].k}", f"any of {found[0].k}"] if repeated else []
    prompted, priced = any(each.prompt for each in found), any(each.usd is not None for each in found)
    titles += ["calls", "tokens", *(["prompt"] if prompted else []), *(["usd"] if priced else []), "seconds"]
    rows: list[list[str]] = []
    for each in found:
        cells = [each.who, f"{each.solved} of {each.trials}", percent(each.rate), interval(each)]
        cells += [percent(each.all_of_k), percent(each.any_of_k)] if repeated else []
        cells += [f"{each.calls:.1f}", f"{each.tokens:,.0f}"]
        cells += [f"{each.prompt:,.0f}" if each.prompt else "–"] if prompted else []
        cells += ["–" if each.usd is None else f"{each.usd:.4f}"] if priced else []
        cells += [f"{each.seconds:.1f}"]
        rows.append(cells)
    return titles, rows


LEGEND_OF_PARTS = "tokens: what it adds to each request; difference: points, with the interval over tasks"
LEGEND = "a trial: calls, tokens, usd, seconds; a request: prompt and tools, estimated"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first column at the left, the others at the right."""
    all_rows = [[*titles], *map(list, rows)]
    widths = [max(len(row[column]) for row in all_rows) for column in range(len(titles))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in all_rows
    ]


def failed(rows: Sequence[Row]) -> list[str]:
    """Return a line for each task and contender that did not solve it."""
    lines: list[tuple[str, str, str, str]] = []
    for who, theirs in by_contender(rows).items():
        for task in dict.fromkeys(row.task for row in theirs):
            trials = [row for row in theirs if row.task == task]
            bad = [row for row in trials if not row.passed]
            if bad:
                many = f"{len(trials) - len(bad)} of {len(trials)}" if len(trials) > 1 else bad[0].end
                lines.append((task, who, many, bad[0].note))
    widths = [max((len(line[column]) for line in lines), default=0) for column in range(3)]
    shown = [
        f"  {task:{widths[0]}}  {who:{widths[1]}}  {end:{widths[2]}}  {note}".rstrip()
        for task, who, end, note in lines[:MOST]
    ]
    return [*shown, *([f"  and {len(lines) - MOST} more"] if len(lines) > MOST else [])]


def as_text(rows: Sequence[Row]) -> list[str]:
    """Return the lines for a terminal."""
    if not rows:
        return ["no trial was run"]
    titles, cells = columns(summaries(rows))
    names, shared = _short(rows)  # 80 columns have room for the table then
    cells = [[name, *line[1:]] for name, line in zip(names, cells, strict=True)]
    heading = f"{rows[0].suite}: {len({row.task for row in rows})} tasks, {len(rows)} trials"
    lines = [", ".join([heading, *shared]), "", *table(titles, cells), "", LEGEND]
    if parts := scores(rows):
        lines += ["", *parts]
    if bad := failed(rows):
        lines += ["", "not solved:", *bad]
    if lost := [row for row in rows if not row.counts]:
        lines += ["", f"{len(lost)} trials say nothing about the agent: the harness or the provider failed"]
    if said := verdicts(rows):
        lines += ["", *said]
    return lines


def _short(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return the names of contenders without the model or the agent that all share, and what that is."""
    firsts = [theirs[0] for theirs in by_contender(rows).values()]
    models, agents = {row.model for row in firsts}, {row.agent for row in firsts}
    if len(models) == 1 and models != {""}:
        return [replace(row, model="").who for row in firsts], [*models]
    if len(agents) == 1 and "" not in models:
        return [replace(row, agent=row.model, model="").who for row in firsts], [*agents]
    return [row.who for row in firsts], []


def scores(rows: Sequence[Row]) -> list[str]:
    """Return a line for each contender of a suite whose tasks have the same several scores: how often each holds."""
    counted = [row for row in rows if row.scores]
    named = [*dict.fromkeys(name for row in counted for name, value in row.scores.items() if isinstance(value, bool))]
    shared = {name for name in named if sum(name in row.scores for row in counted) > len(counted) / 2}
    if len(named) < 2 or shared != {*named}:
        return []
    lines: list[str] = []
    for who, theirs in by_contender(counted).items():
        held = ((name, [bool(row.scores[name]) for row in theirs if name in row.scores]) for name in named)
        lines.append(f"{who}: {', '.join(f'{name} {sum(each)} of {len(each)}' for name, each in held if each)}")
    return lines


def verdicts(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each contender but the first, which it is compared with."""
    return [_said(first, second) for first, second in _pairs(rows)]


def _pairs(rows: Sequence[Row]) -> list[tuple[Sequence[Row], Sequence[Row]]]:
    groups = [*by_contender(rows).values()]
    return [(groups[0], other) for other in groups[1:]]


def _said(first: Sequence[Row], second: Sequence[Row]) -> str:
    try:
        found = compare(first, second)
        return found.sentence if found.is_shown else f"{found.first} and {found.second}: {found.sentence}"
    except ValueError as error:
        return f"{second[0].who}: {error}"


def as_markdown(rows: Sequence[Row]) -> str:
    """Return a run as Markdown: the table, and one of the tasks."""
    titles, cells = columns(summaries(rows))
    who = [*by_contender(rows)]
    tasks = [*dict.fromkeys(row.task for row in rows)]
    lines = [f"# {rows[0].suite}", "", *_markdown(titles, cells), "", f"{LEGEND}."]
    lines += ["", *_markdown(["task", *who], [[task, *(cell(rows, task, each) for each in who)] for task in tasks])]
    if said := verdicts(rows):
        lines += ["", *(f"- {each}" for each in said)]
    return "\n".join(lines) + "\n"


def markdown_of(rows: Sequence[Row]) -> list[str]:
    """Return the table of a run that is published, without seconds, and what was not solved if that is little."""
    titles, cells = columns(summaries(rows))
    shown = [titles.index(title) for title in ("agent", "solved", "rate", "95 %", "calls", "tokens")]
    table = _markdown([titles[at] for at in shown], [[line[at] for at in shown] for line in cells])
    missed = {
        who: [row.task for row in theirs if not row.passed and row.counts] for who, theirs in by_contender(rows).items()
    }
    if max(map(len, missed.values())) > MOST_NAMED:
        return table
    lines = [f"- not solved by {who}: {', '.join(tasks)}" for who, tasks in missed.items() if tasks]
    return [*table, "", *lines, *(f"- {each}" for each in verdicts(rows))]


def cell(rows: Iterable[Row], task: str, who: str) -> str:
    """Return what a contender did with a task: how it ended, or how many of its trials passed."""
    found = [row for row in rows if row.task == task and row.who == who]
    if not found:
        return ""
    return found[0].end if len(found) == 1 else f"{sum(row.passed for row in found)} of {len(found)}"


def _markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"

    return [line(titles), "|" + "---|" * len(titles), *map(line, rows)]


def as_json(rows: Sequence[Row], end: str, left: int, folder: str) -> dict[str, Any]:
    """Return the documented JSON form of a run."""
    return {
        "schema": 1,
        "suite": rows[0].suite if rows else "",
        "end": end,
        "left": left,
        "folder": folder,
        "summaries": [_finite(asdict(each)) for each in summaries(rows)],
        "comparisons": [_finite(asdict(compare(*pair))) for pair in _pairs(rows) if _comparable(pair)] if rows else [],
        "trials": [asdict(row) for row in rows],
    }


def _comparable(pair: tuple[Sequence[Row], Sequence[Row]]) -> bool:
    tasks = [{row.task for row in rows if row.counts} for rows in pair]
    return bool(tasks[0] & tasks[1])


def _finite(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return data without nan, which JSON does not have."""
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in data.items()}


def comparison_lines(found: Comparison) -> list[str]:
    """Return a comparison for a terminal."""
    rows = [
        ["solved", percent(found.first_rate), percent(found.second_rate)],
        ["only this one", str(found.only_first), str(found.only_second)],
        *([each.name, "1", f"{each.value:.2f}"] for each in found.ratios),
    ]
    points = f"{found.difference * 100:+.0f} points, 95 %: {found.low * 100:+.0f} to {found.high * 100:+.0f}"
    lines = table([f"{found.tasks} tasks", found.first, found.second], rows)
    ratios = ["calls, tokens, usd and seconds: shares, over tasks that both solved"] if found.ratios else []
    return [*lines, "", points, found.sentence, *ratios]


def comparison_json(found: Comparison) -> dict[str, Any]:
    """Return the documented JSON form of a comparison."""
    return {"schema": 1, **_finite(asdict(found)), "shown": found.is_shown, "sentence": found.sentence}
