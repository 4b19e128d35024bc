"""The process in which a contender is measured; see `measure.Child`."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """Run the row's `child`, which writes one answer for each line that it reads."""
    row, contender, parameters = sys.argv[1:]
    out, sys.stdout = sys.stdout, sys.stderr  # a contender's own output must not mix with the answers

    def answer(value: Any) -> None:
        print(json.dumps(value), file=out, flush=True)
        wait()

    def wait() -> None:
        if not sys.stdin.readline():
            os._exit(0)

    wait()
    import_module(f"benchmarks.rows.{row}").child(contender, answer, **json.loads(parameters))


main()
