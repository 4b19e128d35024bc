"""The first hour on a terminal looks as its pages in `screens/` do, which a person has read."""

from __future__ import annotations

import pytest

from plugins.cli.tests.first_hour import SIZES, hour, installed, read_screens, seen


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=["80x24", "160x50", "40x24"])
def test_each_screen_of_the_first_hour_is_the_one_that_was_read(size: tuple[int, int]) -> None:
    expected, titles = read_screens(size), list[str]()
    with installed() as deep:
        for title, terminal in hour(deep, size):
            titles.append(title)
            if terminal.process.poll() is None:
                terminal.until(lambda title=title, terminal=terminal: seen(terminal, size) == expected[title], title)
            shown = seen(terminal, size)
            assert shown == expected[title], "\n".join(terminal.lines)
    assert titles == [*expected]
