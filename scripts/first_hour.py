"""Write what a person sees in the first hour on a terminal, at each size: `python -m scripts.first_hour`."""

from __future__ import annotations

import time
from pathlib import Path

from plugins.cli.tests.first_hour import SIZES, hour, installed, seen, write_screens

STILL = 1.0
"""Seconds after which a screen is taken for whole."""


def main() -> None:
    """Write them."""
    for size in SIZES:
        screens: list[tuple[str, list[str]]] = []
        with installed() as deep:
            for title, terminal in hour(deep, size):
                if terminal.process.poll() is None:
                    end = time.monotonic() + STILL
                    terminal.until(lambda end=end: time.monotonic() > end, title)
                screens.append((title, seen(terminal, size)))
        print(write_screens(size, screens).relative_to(Path.cwd()))


if __name__ == "__main__":
    main()
