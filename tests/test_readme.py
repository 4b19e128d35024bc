"""The README: what it shows is a real run, what it says was measured, and its commands do what they say."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.picture import PICTURE, draw, record, shown
from tests.console_pages import play

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
ROWS = {
    "characters of prompt and tools in each request": ("static characters a request", "values", "{:,.0f}"),
    "CPU of a turn, beside a bare agent that does the same": ("a turn, 50 turns", "ratios", "{:.2f}"),
    "turns a second of 40 sessions": ("40 sessions x 20 turns", "values", "{:,.0f}"),
}
"""A row of the table -> the figure, what is taken of it, and how it is written."""


def test_the_table_has_the_numbers_of_the_published_run() -> None:
    figures = json.loads((ROOT / "benchmarks" / "results" / "peers.json").read_text("utf-8"))["figures"]
    table = [
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in README.read_text("utf-8").splitlines()
        if line.startswith("|")
    ]
    assert [row[0] for row in table[2:]] == list(ROWS)
    for label, *cells in table[2:]:
        name, what, form = ROWS[label]
        figure = next(figure for figure in figures if figure["name"] == name)
        written = {who: form.format(figure[what][who]["median"]) for who in figure[what]}
        assert dict(zip(table[0][1:], cells, strict=True)) == {
            "deep" if who == "ours" else who: written[who] for who in ("ours", *table[0][2:])
        }


def text_of(picture: str) -> list[str]:
    """The words of a picture, without the numbers that differ from run to run."""
    words = "".join(ElementTree.fromstring(picture).itertext()).replace("\xa0", " ")
    return re.sub(r"[\d.]+( m?s)?", "0", words[words.index("deep demo") :]).split()


@pytest.mark.exhaustive
def test_the_picture_shows_what_the_demo_does_today() -> None:
    committed = PICTURE.read_text("utf-8")
    assert "http" not in committed.replace("http://www.w3.org/2000/svg", "")
    assert text_of(draw(shown(record()))) == text_of(committed)


def test_its_plugin_is_seen_to_be_called_with_no_key(tmp_path: Path) -> None:
    """Everything of the page that is typed behind a prompt, as a reader would type it."""
    scripts = str(Path(sys.executable).parent)
    variables = {
        "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
    }
    done = play(README, tmp_path, variables)
    assert [one.command.split()[1] for one in done] == ["call", "explain"]
