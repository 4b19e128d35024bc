"""`python -m benchmarks [ROW…] [--peers | --against REV] [--times N]`: measure, print, write results/latest.json.

A run of all rows writes its page too, and its numbers beside it: README.md and results/published.json, with the peers
PEERS.md and results/peers.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module

from benchmarks import against, peers, report
from benchmarks.measure import Bench, Contender, Figure

FLOOR, OURS = Contender("floor", "floor"), Contender("ours", "ours")
PEER_ROWS = ["cold_start", "create", "turn", "static_cost", "sessions", "compaction"]
"""The rows that measure peers."""
ROWS = [
    *PEER_ROWS,
    "command_line",
    "no_op",
    "cache_stability",
    "long_history",
    "big_files",
    "search",
    "big_output",
    "skills",
    "memory",
    "stored",
    "workers",
    "universe",
    "prompted",
    "everything",
    "page",
]
LONG_ROWS = ["cluster", "endurance", "outage", "retries"]
"""Rows that are measured by name only."""


def main() -> int:
    """Run the rows one after the other; return 1 if one is worse than at the other commit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}, which are the default; or {', '.join(LONG_ROWS)}"
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--peers", action="store_true", help="measure the peers of peers.txt too")
    other.add_argument("--against", metavar="REV", help="compare with that commit in place of the floor")
    parser.add_argument(
        "--times",
        type=float,
        default=1.0,
        metavar="N",
        help="multiply the rounds: 0.2 for a trial, 3 for a small difference",
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - {*ROWS, *LONG_ROWS}:
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join([*ROWS, *LONG_ROWS])}")
    if arguments.against:
        return _compare(arguments.against, arguments.rows or ROWS, arguments.times)
    environments = peers.install() if arguments.peers else []
    contenders = [FLOOR, *(contender for each in environments for contender in each.contenders), OURS]
    began = time.perf_counter()
    figures = _measured(Bench(contenders, arguments.times), arguments.rows or (PEER_ROWS if environments else ROWS))
    command = " ".join(["make bench-peers" if environments else "make bench", *arguments.rows])
    run = report.Run(command, (time.perf_counter() - began) / 60, figures, environments)
    report.RESULTS.mkdir(exist_ok=True)
    (report.RESULTS / "latest.json").write_text(report.as_json(run), encoding="utf-8")
    if not arguments.rows and arguments.times == 1:
        page, numbers = ("PEERS.md", "peers.json") if environments else ("README.md", "published.json")
        (report.RESULTS / numbers).write_text(report.as_json(run), encoding="utf-8")
        (report.HERE / page).write_text(report.as_page(run), encoding="utf-8")
    print(report.as_table(run))
    return 0


def _measured(bench: Bench, rows: Sequence[str]) -> list[Figure]:
    return [figure for row in rows for figure in _row(bench, row)]


def _row(bench: Bench, row: str) -> list[Figure]:
    started = time.perf_counter()
    figures = import_module(f"benchmarks.rows.{row}").measure(bench)
    print(f"{row}: {time.perf_counter() - started:.0f} s", flush=True)
    return figures


def _compare(revision: str, rows: Sequence[str], times: float) -> int:
    with against.checked_out(revision) as before:
        bench = Bench([before, Contender(OURS.name, OURS.module, floor=before.name)], times)
        found: list[against.Change] = []
        try:
            for row in rows:
                found += against.changes(_row(bench, row), before.name)
        finally:  # what was measured before a row failed, too
            print(against.as_table(found, before.name), flush=True)
    worse = [change.figure.name for change in found if change.worse]
    print("\n".join([f"\n{len(found)} rows, {len(worse)} of them worse by more than 3 %", *worse]))
    return 1 if worse else 0


sys.exit(main())
