"""A budget of a whole run: `5usd`, `200000tokens`, `50requests`, `10min`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from .rows import Row

__all__ = ["Budget", "parse_budget"]

Unit = Literal["usd", "tokens", "requests", "min"]
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(usd|tokens|requests|min)", re.I)


@dataclass(frozen=True)
class Budget:
    """What a run may use. A trial under way is finished, so a run ends a little above it.

    Attributes:
        most: so much.
        unit: of this.
        began: when, in seconds of `time.monotonic`.
    """

    most: float
    unit: Unit
    began: float = field(default_factory=time.monotonic)

    def left(self, rows: Iterable[Row]) -> float:
        """Return what is left after these trials; a trial without a price costs nothing."""
        if self.unit == "min":
            return self.most - (time.monotonic() - self.began) / 60
        return self.most - sum(_used(row, self.unit) for row in rows)

    def __str__(self) -> str:
        return f"{self.most:g} {self.unit}"


def _used(row: Row, unit: Unit) -> float:
    if unit == "usd":
        return row.usd or 0.0
    return row.tokens_in + row.tokens_out if unit == "tokens" else row.requests


def parse_budget(text: str) -> Budget:
    """Read a budget. Raises ValueError, saying how one is written."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"{text!r} is no budget: write 5usd, 200000tokens, 50requests or 10min")
    unit = found[2].lower()
    return Budget(float(found[1]), unit)  # type: ignore[arg-type]
