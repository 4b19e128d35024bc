"""The command: `python3 -m invoices FILE [--tax PERCENT]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .invoice import load
from .money import show


def main() -> None:
    """Print an invoice."""
    parser = argparse.ArgumentParser(prog="invoices", description="Print the invoice in a CSV file.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--tax", default="0", help="tax rate in percent")
    arguments = parser.parse_args()
    invoice = load(arguments.file, arguments.tax)
    for line in invoice.lines:
        print(f"{line.quantity:>4} x {line.description:<24}{show(line.total):>16}")
    for name, cents in (("net", invoice.net), ("tax", invoice.tax), ("to pay", invoice.gross)):
        print(f"{name:<31}{show(cents):>16}")


if __name__ == "__main__":
    main()
