"""What each plugin costs and what it is worth: the same tasks with it and without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from .comparing import compare
from .reports import LEGEND_OF_PARTS, percent, table
from .rows import Row
from .runs import Contender
from .suites import Suite

__all__ = ["Part", "Worth", "ablated", "parts_of", "worth_json", "worth_lines", "worths"]

ALWAYS = ("backends", "deep_core", "pydantic_ai", "sessions", "trials")
"""What a trial itself stands on."""


@dataclass(frozen=True)
class Part:
    """What can be left out.

    Attributes:
        kind: `plugin` or `tool`.
        name: its name.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return self.name if self.kind == "plugin" else f"{self.kind}:{self.name}"


@dataclass(frozen=True)
class Worth:
    """What a part costs and what it is worth.

    Attributes:
        part: in words.
        tokens: what it adds to each request.
        tasks: that were run with and without it.
        with_it: share of them that the whole agent solves.
        without: share that the agent without it solves.
        difference: what it adds.
        low: of the interval of the difference.
        high: of it.
        p: of McNemar's exact test.
        lost: tasks that are solved with it only.
        gained: tasks that are solved without it only.
        sentence: what can be said.
    """

    part: str
    tokens: int
    tasks: int
    with_it: float
    without: float
    difference: float
    low: float
    high: float
    p: float
    lost: Sequence[str]
    gained: Sequence[str]
    sentence: str


def parts_of(rows: Iterable[Row], suite: Suite) -> list[Part]:
    """Return the plugins that contribute to the whole agent, and that no task of the suite requires by its nature."""
    required = {name for task in suite.tasks for name in task.file.deep.requires} | {*ALWAYS}
    found = {name for row in rows for name in row.contributing}
    return [Part("plugin", name) for name in sorted(found - required)]


def ablated(whole: Contender, part: Part) -> Contender:
    """Return the contender without a part."""
    if part.kind == "plugin":
        return replace(whole, without=str(part), disable=[*whole.disable, part.name])
    return replace(whole, without=str(part), hide=" | ".join(filter(None, (whole.hide, f"name:{part.name}"))))


def worths(rows: Sequence[Row]) -> list[Worth]:
    """Return what each part that was left out is worth: the one with the largest loss first.

    Raises:
        ValueError: no trial of the whole agent says anything about it.
    """
    whole = [row for row in rows if not row.without]
    found: list[Worth] = []
    for part in dict.fromkeys(row.without for row in rows if row.without):
        rest = [row for row in rows if row.without == part]
        said = compare(rest, whole)
        found.append(
            Worth(
                part=part,
                tokens=_cost(part, whole, rest),
                tasks=said.tasks,
                with_it=said.second_rate,
                without=said.first_rate,
                difference=said.difference,
                low=said.low,
                high=said.high,
                p=said.p,
                lost=_only(whole, rest),
                gained=_only(rest, whole),
                sentence=said.sentence,
            )
        )
    return sorted(found, key=lambda each: (-each.difference, -each.tokens, each.part))


def _cost(part: str, whole: Sequence[Row], rest: Sequence[Row]) -> int:
    """Return the tokens that a part adds to a request. Tasks differ, as where one has skills: the mean."""
    if ":" not in part:
        return round(_mean(row.plugins.get(part, 0) for row in whole if row.prompt))
    # A trial's folder is named in what deep-sessions says of the workspace, and names differ in length.
    sums = [_mean(row.prompt - row.plugins.get("sessions", 0) for row in rows if row.prompt) for rows in (whole, rest)]
    return round(sums[0] - sums[1])


def _mean(values: Iterable[float]) -> float:
    listed = [*values]
    return fmean(listed) if listed else 0.0


def _only(these: Iterable[Row], others: Iterable[Row]) -> list[str]:
    solved = {row.task for row in others if row.passed}
    counted = {row.task for row in others if row.counts}
    return sorted({row.task for row in these if row.passed and row.task in counted} - solved)


TITLES = ("without", "tokens", "with it", "without it", "difference", "95 %", "solved only with it")


def worth_lines(found: Sequence[Worth]) -> list[str]:
    """Return the table for a terminal."""
    cells = [_cells(each) for each in found]
    lines = table(TITLES[:-1], [row[:-1] for row in cells])
    listed = [f"{line}  {row[-1]}".rstrip() for line, row in zip(lines, [[*TITLES], *cells], strict=True)]
    return [*listed, "", LEGEND_OF_PARTS]


def _cells(each: Worth) -> list[str]:
    return [
        each.part,
        str(each.tokens),
        percent(each.with_it),
        percent(each.without),
        f"{each.difference * 100:+.0f}" if each.difference else "0",
        f"{each.low * 100:+.0f} to {each.high * 100:+.0f}",
        ", ".join(each.lost),
    ]


def worth_json(found: Sequence[Worth], folder: str) -> Mapping[str, Any]:
    """Return the documented JSON form."""
    return {"schema": 1, "folder": folder, "parts": [vars(each) for each in found]}
