"""Every example runs by itself, offline, in an empty home, and prints what it is there to show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_pages import readers_environment

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SHOWS = {
    "embed_script.py": ["january,120", "January was best: 120."],
    "embed_server_sessions.py": [
        "5 sessions, 1 kind of first answer: I have started a list.",
        "then: Your list has one open item.",
        "ann: ['book a flight']",
    ],
    "per_tenant_kernels.py": [
        "acme: plugins backends, weather; tools forecast",
        "Oslo: 21 degrees celsius",
        "Unknown tool name: 'forecast'",
    ],
    "custom_plugin.py": [
        "state: ['Oslo']",
        "section weather.asked: 0 characters, live: True",
        "tool forecast of weather: read, network, asks: never",
    ],
    "approvals.py": ["tool: paid 90 to Ann; agent:", "tool: 90 is too much; agent:"],
    "structured_output.py": ["Invoice: Acme 129.50", "2 requests"],
}
NOT_RUN = {"scripted.py"}
"""Imported by the others."""


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*SHOWS, *NOT_RUN}


@pytest.mark.parametrize("name", SHOWS)
def test_an_example_shows_what_it_says(name: str, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=tmp_path,
        env=readers_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    for line in SHOWS[name]:
        assert line in result.stdout, result.stdout + result.stderr
    assert result.stderr == ""  # no warning either
