"""Run child processes in turns, and make medians, spreads and ratios of their numbers.

Each contender runs in a process of its own, with its own interpreter: contenders share no heap, cache or garbage
collector, and a peer needs not install beside us. They take turns: while one works, the others wait.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import comb
from pathlib import Path
from typing import Any

__all__ = [
    "NOISE",
    "Bench",
    "Child",
    "Contender",
    "Figure",
    "Goal",
    "Spread",
    "alternate",
    "counted",
    "lockstep",
    "only",
    "ordered",
    "ready",
    "scratch",
    "variables",
]

NOISE = 0.05
"""The margin of gates that are ratios of times: four runs of the same code gave 1.13, 1.18, 1.21 and 1.24."""
REPOSITORY = Path(__file__).resolve().parent.parent
KEPT = ("PATH", "TMPDIR", "LANG", "LC_ALL", "SYSTEMROOT")


@dataclass(frozen=True)
class Contender:
    """One that is measured.

    Attributes:
        name: in the table.
        module: below `benchmarks.contenders`, or `module:ATTRIBUTE` of it.
        python: the interpreter that it runs in.
        repository: the checkout that it imports `benchmarks`, `tests` and the kernel from.
        floor: the name of the contender to compare with.
    """

    name: str
    module: str
    python: str = sys.executable
    repository: Path = REPOSITORY
    floor: str = "floor"

    def has(self, module: str) -> bool:
        """Whether its checkout has a contender: another commit may be older than `ours:WITHOUT_RIPGREP`."""
        name, _, attribute = module.partition(":")
        file = self.repository / "benchmarks" / "contenders" / f"{name}.py"
        return file.is_file() and f"\n{attribute or 'CONTENDER'} = " in file.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Spread:
    """Median, least, greatest and number of the values of the rounds.

    Attributes:
        between: the interval that holds the true median with a probability of 95 %, by the binomial distribution, which
            assumes nothing about the noise. With less than six rounds, from the least to the greatest.
    """

    median: float
    low: float
    high: float
    rounds: int
    between: tuple[float, float]

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        ranked, count = sorted(values), len(values)
        cut = 0  # values left out at each end
        while sum(comb(count, k) for k in range(cut + 2)) <= 0.025 * 2**count:
            cut += 1
        return cls(statistics.median(ranked), ranked[0], ranked[-1], count, (ranked[cut], ranked[-1 - cut]))

    def show(self, digits: int) -> str:
        """Format the median, and the spread if there is one."""
        number = f"{self.median:,.{digits}f}"
        return number if self.low == self.high else f"{number} ({self.low:,.{digits}f}-{self.high:,.{digits}f})"


@dataclass(frozen=True)
class Goal:
    """A limit of the value, or of the ratio to the floor.

    Attributes:
        limit: the number.
        of: `value` or `ratio`.
        least: the limit is a lower one.
        gate: a miss blocks a release; the page explains the miss of any other goal.
        margin: the share of the limit that counts as noise.
    """

    limit: float
    of: str = "value"
    least: bool = False
    gate: bool = False
    margin: float = 0.0

    def met(self, number: float) -> bool:
        return number >= self.limit if self.least else number <= self.limit * (1 + self.margin)

    def __str__(self) -> str:
        unit = " x floor" if self.of == "ratio" else ""
        margin = f", within {self.margin:.0%}" if self.margin else ""
        return f"{'>=' if self.least else '<='} {self.limit:,g}{unit}{margin}"


@dataclass
class Figure:
    """One line of the page.

    Attributes:
        name: what was measured.
        unit: of the values.
        values: contender -> spread.
        goal: for ours.
        ratios: contender -> spread of the ratios to its floor, each of two values of the same round.
        digits: after the decimal point.
        note: how to read it.
        table: show it as a column of the first table too.
    """

    name: str
    unit: str
    values: Mapping[str, Spread]
    goal: Goal | None = None
    ratios: Mapping[str, Spread] = field(default_factory=dict[str, Spread])
    digits: int = 1
    note: str = ""
    table: bool = False

    @property
    def met(self) -> bool | None:
        """Whether ours meets the goal; None without a goal."""
        if self.goal is None or "ours" not in self.values:
            return None
        return self.goal.met((self.ratios if self.goal.of == "ratio" else self.values)["ours"].median)


@dataclass(frozen=True)
class Bench:
    """Whom the rows measure, and how long.

    Attributes:
        contenders: all of them, floors included.
        times: the factor of all rounds.
    """

    contenders: Sequence[Contender]
    times: float = 1.0

    @property
    def ours(self) -> list[Contender]:
        """Ours, and the other commit of ours if there is one."""
        return [contender for contender in self.contenders if contender.module == "ours"]

    @property
    def own(self) -> list[Contender]:
        """Ours and its floor, for rows that do not measure peers."""
        return [contender for contender in self.contenders if contender.name == "floor" or contender.module == "ours"]

    def rounds(self, usual: int) -> int:
        """Return the number of rounds to measure."""
        return max(1, round(usual * self.times))

    def figure(
        self,
        name: str,
        unit: str,
        rounds: Sequence[Mapping[str, float]],
        goal: Goal | None = None,
        *,
        floor: str | None = None,
        **how: Any,
    ) -> Figure:
        """Make a figure from rounds with one value for each contender.

        Args:
            name: what was measured.
            unit: of the values.
            rounds: contender -> value, of each round.
            goal: for ours.
            floor: compares all with this contender in place of their own floor.
            **how: the other attributes of the figure.
        """
        values = {who: Spread.of([each[who] for each in rounds]) for who in rounds[0]}
        floors = {contender.name: contender.floor for contender in self.contenders}
        ratios: dict[str, Spread] = {}
        for who in values:
            base = floor or floors.get(who, "floor")
            if who != base and base in values and all(each[base] > 0 for each in rounds):
                ratios[who] = Spread.of([each[who] / each[base] for each in rounds])
        return Figure(name, unit, values, goal, ratios, **how)


def variables(home: Path, repository: Path = REPOSITORY) -> dict[str, str]:
    """Return the environment of a child process: no keys, no settings, byte code written, a home of its own."""
    kept = {key: os.environ[key] for key in KEPT if key in os.environ}
    return {**kept, "HOME": str(home), "PYTHONPATH": str(repository), "PYDANTIC_AI_NO_BANNER": "1"}


@contextmanager
def scratch() -> Generator[Path]:
    """Make a temporary directory."""
    path = Path(tempfile.mkdtemp(prefix="deep-bench-"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


class Child:
    """A process that runs `benchmarks.rows.<row>.child(contender, answer, **parameters)`.

    `child` calls `answer(value)`, which returns at the next question: in between the process waits. A row that times
    something answers None first, when everything is imported and warm.
    """

    def __init__(self, contender: Contender, row: str, home: Path, **parameters: Any) -> None:
        self.name = contender.name
        command = [contender.python, "-m", "benchmarks.child", row, contender.module, json.dumps(parameters)]
        # The child ends without cleaning up; its files go with `home`.
        env = {**variables(home, contender.repository), "TMPDIR": str(home)}
        self._process = subprocess.Popen(
            command,
            cwd=home,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def ask(self) -> Any:
        """Ask, and wait for the answer."""
        self.begin()
        return self.answer()

    def begin(self) -> None:
        """Ask."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Wait for the answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with exit code {self._process.wait()}; see its error above")
        return json.loads(line)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def ordered(contenders: Sequence[Any], number: int) -> Sequence[Any]:
    """Alternate the order, so that no contender always follows the same one."""
    return contenders if number % 2 else contenders[::-1]


def ready(*children: Child) -> list[Any]:
    """Wait until all are warm. They work at once, since none of this is timed."""
    for child in children:
        child.begin()
    return [child.answer() for child in children]


def counted(contenders: Sequence[Contender], row: str, rounds: int = 1, **parameters: Any) -> list[dict[str, Any]]:
    """Measure what a busy machine does not change: all contenders work at once."""
    out: list[dict[str, Any]] = []
    for _ in range(rounds):
        with scratch() as home, ExitStack() as stack:
            children = [stack.enter_context(Child(contender, row, home, **parameters)) for contender in contenders]
            out.append({child.name: answer for child, answer in zip(children, ready(*children), strict=True)})
    return out


def alternate(contenders: Sequence[Contender], row: str, rounds: int, **parameters: Any) -> list[dict[str, Any]]:
    """Measure rounds in which each contender answers once, in a fresh process that is warm.

    A first round is dropped: it writes the byte code and fills the disk's cache.
    """
    out: list[dict[str, Any]] = []
    with scratch() as home:
        for number in range(rounds + 1):
            with ExitStack() as stack:
                children = [stack.enter_context(Child(contender, row, home, **parameters)) for contender in contenders]
                ready(*children)
                answers = {child.name: child.ask() for child in ordered(children, number)}
            out.append({contender.name: answers[contender.name] for contender in contenders})
    return out[1:]


def lockstep(
    contenders: Sequence[Contender], row: str, rounds: int, slices: int, *, sets: int = 1, **parameters: Any
) -> list[dict[str, Any]]:
    """Measure rounds of `slices` answers, one of each contender in turn; a round's values are the means of its slices.

    Slices are tens of milliseconds long: a disturbance of the machine hits all contenders, so ratios are steadier than
    values. The processes live through all rounds of a set and are warm before the first.

    Args:
        contenders: who answers.
        row: whose `child` they run.
        rounds: of each set.
        slices: of a round.
        sets: how often all processes start anew. Where a process lies in memory does not change while it lives: of 16
            pairs of processes of the floor, one took 0.93 to 1.17 of the other (medians of seven rounds).
        parameters: of `child`.
    """
    out: list[dict[str, Any]] = []
    for _ in range(sets):
        with scratch() as home, ExitStack() as stack:
            children = [stack.enter_context(Child(contender, row, home, **parameters)) for contender in contenders]
            ready(*children)
            for number in range(rounds):
                totals = {child.name: dict[str, float]() for child in children}
                for index in range(slices):
                    for child in ordered(children, number + index):
                        for key, value in child.ask().items():
                            totals[child.name][key] = totals[child.name].get(key, 0.0) + value / slices
                out.append(totals)
    return out


def only(rounds: Sequence[Mapping[str, Mapping[str, float]]], key: str) -> list[dict[str, float]]:
    """Select one of the values of each contender's answers."""
    return [{who: values[key] for who, values in each.items()} for each in rounds]
