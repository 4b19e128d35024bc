"""From rows to statements: how often each contender solves, and which of two solves more."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from .numbers import effective_size, interval_of_difference, mcnemar, needed, pass_all, pass_any, wilson
from .rows import End, Row

__all__ = ["Comparison", "Ratio", "Summary", "by_contender", "compare", "compare_runs", "summarize"]

SHOWN = 0.05
"""A difference with a smaller p-value is shown."""
SMALLEST = 0.05
"""The difference whose number of tasks is named where none was seen."""


@dataclass(frozen=True)
class Summary:
    """What a contender did.

    Attributes:
        who: the contender, in words.
        tasks: how many.
        trials: that say something about it.
        solved: of them.
        rate: pass@1.
        low: of its interval.
        high: of its interval.
        k: trials of a task.
        all_of_k: pass^k; the rate if k is 1.
        any_of_k: pass@k; the rate if k is 1.
        ends: how many trials ended how.
        tokens: per trial, in and out.
        prompt: estimated tokens of prompt and tools in a request; 0 if unknown.
        usd: per trial; None if no price is known.
        seconds: per trial.
        calls: per trial.
        spent: US dollars, all trials together; None if no price is known.
    """

    who: str
    tasks: int
    trials: int
    solved: int
    rate: float
    low: float
    high: float
    k: int
    all_of_k: float
    any_of_k: float
    ends: Mapping[End, int]
    tokens: float
    prompt: float
    usd: float | None
    seconds: float
    calls: float
    spent: float | None


@dataclass(frozen=True)
class Ratio:
    """A cost of the second contender in shares of the first's, over tasks that both solved."""

    name: str
    value: float


@dataclass(frozen=True)
class Comparison:
    """Which of two contenders solves more of the same tasks.

    Attributes:
        first: in words.
        second: in words.
        tasks: those that both have.
        first_rate: of the first, on those tasks.
        second_rate: of the second.
        difference: second less first.
        low: of its interval.
        high: of its interval.
        only_first: tasks that the first solves more often.
        only_second: tasks that the second solves more often.
        p: of McNemar's exact test.
        needed: how many tasks would show a difference as large as the one seen; None where one is shown.
        ratios: of costs.
    """

    first: str
    second: str
    tasks: int
    first_rate: float
    second_rate: float
    difference: float
    low: float
    high: float
    only_first: int
    only_second: int
    p: float
    needed: int | None
    ratios: Sequence[Ratio]

    @property
    def is_shown(self) -> bool:
        """Whether the difference is more than chance."""
        return self.p < SHOWN

    def worse_by(self, points: float) -> bool:
        """Whether the second solves fewer tasks by more than a share, such as 0.05."""
        # Half a task of a million is rounding.
        return -self.difference > points + 1e-9

    @property
    def sentence(self) -> str:
        """What can be said, in one sentence."""
        rates = f"{self.first_rate:.0%} and {self.second_rate:.0%} of {self.tasks} tasks, p = {self.p:.2g}"
        if self.is_shown:
            word = "more" if self.difference > 0 else "fewer"
            return f"{self.second} solves {word} than {self.first}: {rates}"
        size = abs(self.difference) or SMALLEST
        shown = f"no difference shown ({rates})"
        return f"{shown}; to show one of {size * 100:.0f} points, n = {self.needed:,} would be needed"


def by_contender(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each contender, in the order in which they come."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.who, []).append(row)
    return found


def by_task(rows: Iterable[Row]) -> dict[str, list[bool]]:
    """Return whether each trial that counts passed, by task."""
    found: dict[str, list[bool]] = {}
    for row in rows:
        if row.counts:
            found.setdefault(row.task, []).append(row.passed)
    return found


def summarize(who: str, rows: Sequence[Row]) -> Summary:
    """Return what a contender did."""
    tasks = by_task(rows)
    counted = [row for row in rows if row.counts]
    trials, solved = len(counted), sum(row.passed for row in counted)
    rate = solved / trials if trials else math.nan
    size = effective_size(tasks)
    low, high = wilson(rate * size, size) if trials else (0.0, 1.0)
    k = min(map(len, tasks.values()), default=1)
    priced = [row.usd for row in rows if row.usd is not None]
    return Summary(
        who=who,
        tasks=len({row.task for row in rows}),
        trials=trials,
        solved=solved,
        rate=rate,
        low=low,
        high=high,
        k=k,
        all_of_k=fmean(pass_all(sum(each), len(each), k) for each in tasks.values()) if tasks else math.nan,
        any_of_k=fmean(pass_any(sum(each), len(each), k) for each in tasks.values()) if tasks else math.nan,
        ends=dict(Counter(row.end for row in rows)),
        tokens=_mean(row.tokens_in + row.tokens_out for row in counted),
        prompt=_mean(row.prompt for row in counted if row.prompt),
        usd=fmean(priced) if priced else None,
        seconds=_mean(row.seconds for row in counted),
        calls=_mean(row.calls for row in counted),
        spent=math.fsum(priced) if priced else None,
    )


def compare(first: Sequence[Row], second: Sequence[Row]) -> Comparison:
    """Compare two contenders by the tasks that both have. Trials that failed outside of the agent are left out.

    Raises:
        ValueError: they have no task in common.
    """
    one, two = by_task(first), by_task(second)
    common = [task for task in one if task in two]
    if not common:
        raise ValueError("the two have no task in common that says anything about both")
    differences = [fmean(two[task]) - fmean(one[task]) for task in common]
    only_first = sum(each < 0 for each in differences)
    only_second = sum(each > 0 for each in differences)
    difference = math.fsum(differences) / len(common)
    low, high = interval_of_difference(differences)
    p = mcnemar(only_first, only_second)
    size = difference or SMALLEST
    share = (only_first + only_second) / len(common)
    return Comparison(
        first=first[0].who,
        second=second[0].who,
        tasks=len(common),
        first_rate=fmean(fmean(one[task]) for task in common),
        second_rate=fmean(fmean(two[task]) for task in common),
        difference=difference,
        low=low,
        high=high,
        only_first=only_first,
        only_second=only_second,
        p=p,
        needed=None if p < SHOWN else max(needed(size, share), len(common) + 1),
        ratios=_ratios(first, second),
    )


def compare_runs(first: Sequence[Row], second: Sequence[Row]) -> list[Comparison]:
    """Compare two runs: contenders that are in both, each with itself; else all with the only one of the other run.

    Raises:
        ValueError: no contender is in both runs and both have several, or two have no task in common.
    """
    one, two = by_contender(first), by_contender(second)
    if both := [who for who in one if who in two]:
        return [compare(one[who], two[who]) for who in both]
    if len(one) > 1 and len(two) > 1:
        raise ValueError(f"no contender is in both runs: {', '.join(one)} and {', '.join(two)}")
    return [compare(mine, theirs) for mine in one.values() for theirs in two.values()]


def _ratios(first: Sequence[Row], second: Sequence[Row]) -> list[Ratio]:
    """Return costs among the solved only: who gives up early is cheap."""
    both = {row.task for row in first if row.passed} & {row.task for row in second if row.passed}
    kept = [[row for row in rows if row.passed and row.task in both] for rows in (first, second)]
    found: list[Ratio] = []
    for name in ("calls", "tokens", "usd", "seconds"):
        costs = [_by_task(rows, name) for rows in kept]
        if costs[0] and costs[1] and sum(costs[0].values()) > 0:
            found.append(Ratio(name, sum(costs[1].values()) / sum(costs[0].values())))
    return found


def _by_task(rows: Iterable[Row], name: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in rows:
        value = row.tokens_in + row.tokens_out if name == "tokens" else getattr(row, name)
        if value is not None:
            found.setdefault(row.task, []).append(value)
    return {task: fmean(values) for task, values in found.items()}


def _mean(values: Iterable[float]) -> float:
    listed = [*values]
    return fmean(listed) if listed else 0.0
