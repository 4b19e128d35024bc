"""An invoice and its lines."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .money import percent, to_cents


@dataclass(frozen=True)
class Line:
    """One line: what, how many, and the price of one in cents."""

    description: str
    quantity: int
    price: int

    @property
    def total(self) -> int:
        """The price of all of them, in cents."""
        return self.quantity * self.price


@dataclass(frozen=True)
class Invoice:
    """The lines of an invoice and its tax rate in percent."""

    lines: tuple[Line, ...]
    tax_rate: str = "0"

    @property
    def net(self) -> int:
        """The sum of the lines, in cents."""
        return sum(line.total for line in self.lines)

    @property
    def tax(self) -> int:
        """The tax on the sum, in cents."""
        return percent(self.net, self.tax_rate)

    @property
    def gross(self) -> int:
        """What is to be paid, in cents."""
        return self.net + self.tax


def read_lines(rows: Iterable[str]) -> tuple[Line, ...]:
    """Read CSV with the columns description, quantity and price."""
    table = csv.DictReader(rows)
    return tuple(Line(row["description"], int(row["quantity"]), to_cents(row["price"])) for row in table)


def load(path: Path, tax_rate: str = "0") -> Invoice:
    """The invoice in a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return Invoice(read_lines(file), tax_rate)
