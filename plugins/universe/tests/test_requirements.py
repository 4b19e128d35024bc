"""Every requirement of the tool universe has tests, and docs/tool-universe.md lists every driver."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from deep_universe import Universe

from plugins.universe.tests.requirements import DEFECTS, REQUIREMENTS, identifiers, shown_by

COUNTS = {"U": 14, "E": 12, "P": 11, "D": 10, "X": 20, "M": 9, "B": 6, "C": 3}
PAGE = Path(__file__).parents[3] / "docs" / "tool-universe.md"


def test_every_requirement_and_every_defect_is_listed() -> None:
    assert list(REQUIREMENTS) == [f"{letter}{n}" for letter, count in COUNTS.items() for n in range(1, count + 1)]
    assert list(DEFECTS) == list(range(1, 16))


@pytest.mark.slow
def test_every_requirement_and_every_defect_has_a_test_and_no_test_is_of_another() -> None:
    known = {*REQUIREMENTS, *(f"defect_{number}" for number in DEFECTS)}
    assert [name for name in known if not shown_by(name)] == []
    assert identifiers() == known


def test_every_driver_is_listed() -> None:
    section = PAGE.read_text(encoding="utf-8").split("| Driver | Renders |")[1].split("\n\n")[0]
    firsts = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = [name for cell in firsts for name in re.findall(r"`([a-z-]+)`", cell)]
    assert listed == [driver.name for driver in Universe().drivers]
