"""Report a problem: where, what, and what to change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest

__all__ = ["Problem", "report"]


@dataclass(frozen=True)
class Problem:
    """A problem that a plugin must fix.

    Attributes:
        where: the file, hook, tool, section or slot.
        what: what is wrong.
        change: how to fix it.
    """

    where: str
    what: str
    change: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}\n    change: {self.change}"


def report(label: str, problems: Iterable[Problem]) -> None:
    """Fail the test with all problems, or pass."""
    items = list(problems)
    if items:
        lines = "\n  ".join(map(str, items))
        pytest.fail(f"plugin {label}\n  {lines}", pytrace=False)
