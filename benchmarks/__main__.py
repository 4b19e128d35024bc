"""`python -m benchmarks [ROW…] [--peers]`: measure, print the tables, write results/latest.json.

A run of all rows writes its page too, and its numbers beside it: README.md and results/published.json, with the peers
PEERS.md and results/peers.json.
"""

from __future__ import annotations

import argparse
import time
from importlib import import_module

from benchmarks import peers, report
from benchmarks.measure import Contender, Figure

CONTENDERS = [Contender("floor", "floor"), Contender("ours", "ours")]
ROWS = [
    "cold_start",
    "create",
    "turn",
    "static_cost",
    "sessions",
    "command_line",
    "no_op",
    "cache_stability",
    "compaction",
    "long_history",
    "big_files",
    "big_output",
    "skills",
    "memory",
]


def main() -> None:
    """Run the rows, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all by default")
    parser.add_argument("--peers", action="store_true", help="install and measure the peers of peers.txt too")
    arguments = parser.parse_args()
    if unknown := set(arguments.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    contenders = [CONTENDERS[0], *(peers.install() if arguments.peers else []), CONTENDERS[1]]
    began, figures = time.perf_counter(), list[Figure]()
    for row in arguments.rows or ROWS:
        started = time.perf_counter()
        figures += import_module(f"benchmarks.rows.{row}").measure(contenders)
        print(f"{row}: {time.perf_counter() - started:.0f} s", flush=True)
    command = " ".join(["make bench-peers" if arguments.peers else "make bench", *arguments.rows])
    run = report.Run(command, (time.perf_counter() - began) / 60, contenders, figures)
    results = report.HERE / "results"
    results.mkdir(exist_ok=True)
    (results / "latest.json").write_text(report.as_json(run), encoding="utf-8")
    if not arguments.rows:
        page, numbers = ("PEERS.md", "peers.json") if arguments.peers else ("README.md", "published.json")
        (results / numbers).write_text(report.as_json(run), encoding="utf-8")
        (report.HERE / page).write_text(report.as_page(run), encoding="utf-8")
    print(report.as_table(run))


main()
