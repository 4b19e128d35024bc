"""The first hour on the page: in each step and each look nothing is cut, covered, or beyond the window."""

# selenium leaves arguments without types
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="pip install selenium")

from tests.browser import browser

from .first_hour import LOOKS, faults, hour
from .gated import gated_model
from .served import serving
from .tabs import Tab

pytestmark = [pytest.mark.needs("Chromium"), pytest.mark.slow]


def test_each_step_of_the_first_hour_fits_the_window(tmp_path: Path) -> None:
    gate, files = tmp_path / "gate", tmp_path / "files"
    files.mkdir()
    seen = 0
    with (
        serving(tmp_path, models=lambda model_id: gated_model(gate), config="") as server,
        browser(tmp_path / "profile") as driver,
    ):
        tab = Tab(driver, server.page)
        for title in hour(server, tab, gate, files):
            for look, (dark, width) in LOOKS.items():
                tab.emulate(dark=dark)
                tab.width(width)
                tab.until(
                    lambda: not faults(tab), lambda title=title, look=look: f"{title}, {look}: {faults(tab)}"
                )  # once it is laid out
                seen += 1
            tab.width(None)
            tab.emulate()
        assert tab.errors() == []
    assert seen == 15 * len(LOOKS)
