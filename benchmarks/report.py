"""Report a run: the table on the terminal, the JSON, and the page."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure
from benchmarks.peers import Environment

__all__ = ["HERE", "RESULTS", "Run", "as_json", "as_page", "as_table"]

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
DISTRIBUTIONS = ("deep-agent-core", "pydantic-ai-slim", "pydantic", "pydantic-core", "anyio")


@dataclass(frozen=True)
class Run:
    """One run of the benchmarks.

    Attributes:
        command: as the user typed it.
        minutes: how long it took.
        figures: what came out.
        environments: of the peers.
    """

    command: str
    minutes: float
    figures: Sequence[Figure]
    environments: Sequence[Environment] = ()


def machine() -> dict[str, Any]:
    """Describe the machine, without its name and paths."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}, {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": [round(load, 1) for load in os.getloadavg()],
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {name: version(name) for name in DISTRIBUTIONS},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def as_json(run: Run) -> str:
    """Format everything for other programs."""
    figures = [
        {**asdict(figure), "goal": figure.goal and str(figure.goal), "met": figure.met} for figure in run.figures
    ]
    about = {"schema": 2, "command": run.command, "minutes": round(run.minutes, 1), "machine": machine()}
    environments = {each.requirement: dict(each.versions) for each in run.environments}
    return json.dumps({**about, "environments": environments, "figures": figures}, indent=2) + "\n"


def as_table(run: Run) -> str:
    """Format both tables as Markdown, for the terminal and the page."""
    return "\n\n".join(filter(None, (_contenders(run), _lines(run))))


def _contenders(run: Run) -> str:
    columns = [figure for figure in run.figures if figure.table]
    if not columns:
        return ""
    names = list(max((figure.values for figure in columns), key=len))
    heads = [f"{figure.name}, {figure.unit}" for figure in columns]
    rows = [["", *heads], ["---"] * (len(heads) + 1)]
    rows += [[who, *(_value(figure, who) for figure in columns)] for who in names]
    rows += [["**goal for ours**", *(str(figure.goal or "") for figure in columns)]]
    rows += [["**met**", *(_verdict(figure) for figure in columns)]]
    return _markdown(rows)


def _lines(run: Run) -> str:
    rows = [["what", "unit", "ours", "others", "goal", "met"], ["---"] * 6]
    for figure in run.figures:
        others = [f"{who}: {_value(figure, who)}" for who in figure.values if who != "ours"]
        name = f"{figure.name} ({figure.note})" if figure.note else figure.name
        rows.append(
            [name, figure.unit, _value(figure, "ours"), "; ".join(others), str(figure.goal or ""), _verdict(figure)]
        )
    return _markdown(rows)


def _value(figure: Figure, who: str) -> str:
    if who not in figure.values:
        return ""
    ratio = figure.ratios.get(who)
    value = figure.values[who].show(figure.digits)
    return f"{value}, **x {ratio.show(2)}**" if ratio is not None else value


def _verdict(figure: Figure) -> str:
    return {True: "yes", False: "**no**", None: ""}[figure.met]


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def as_page(run: Run) -> str:
    """Format README.md or PEERS.md."""
    about = machine()
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    missed = [figure for figure in run.figures if figure.met is False]
    met = sum(figure.met is True for figure in run.figures)
    parts = [
        (HERE / "page.md").read_text("utf-8").rstrip(),
        "## This run",
        f"`{run.command}`, {about['date']}, {run.minutes:.0f} minutes. {about['processor']}, {about['cores']} cores, "
        f"load {about['load'][0]} at the end; {about['system']}; {about['python']}; {versions}.",
        *(["\n".join(map(_environment, run.environments))] if run.environments else []),
        f"{met} goals met, {len(missed)} missed.",
        as_table(run),
    ]
    if missed:
        parts += ["## What is missed, and why", *(_explained(figure) for figure in missed)]
    return "\n\n".join(parts) + "\n"


def _environment(environment: Environment) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in environment.versions.items() if name != "python")
    floor, *peers = (contender.name for contender in environment.contenders)
    python, compare = environment.versions["python"], "compares" if len(peers) == 1 else "compare"
    return f"- {environment.requirement}: {python}, {versions}. {', '.join(peers)} {compare} with *{floor}*."


def _explained(figure: Figure) -> str:
    number = (figure.ratios if figure.goal and figure.goal.of == "ratio" else figure.values)["ours"].median
    unit = "x floor" if figure.goal and figure.goal.of == "ratio" else figure.unit
    reasons: dict[str, str] = json.loads((HERE / "reasons.json").read_text("utf-8"))
    starts = [start for start in reasons if figure.name.startswith(start)]
    reason = reasons[max(starts, key=len)] if starts else "Not looked into yet."
    kind = " This is a gate." if figure.goal and figure.goal.gate else ""
    return f"**{figure.name}**: {number:,.2f} {unit}, the goal is {figure.goal}.{kind} {reason}"
