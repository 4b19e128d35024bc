"""The process in which a contender is measured; see `measure.Child`."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """Run the row's `child`; it answers when it is asked, line by line."""
    row, contender, parameters = sys.argv[1:]
    out, sys.stdout = sys.stdout, sys.stderr  # what a contender prints must not stand among the answers

    def answer(value: Any) -> None:
        print(json.dumps(value), file=out, flush=True)
        wait()

    def wait() -> None:
        if not sys.stdin.readline():
            os._exit(0)

    wait()
    import_module(f"benchmarks.rows.{row}").child(contender, answer, **json.loads(parameters))


main()
