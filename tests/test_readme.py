"""The README: what it shows is a real run, what it says was measured, and its commands do what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.text import Text

from scripts.picture import ABOUT, PICTURE, draw, record, shown
from tests.console_pages import Typed, matches, play, typed
from tests.docs_pages import blocks

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
    today = draw(map(Text.from_ansi, shown(record())), "deep demo", ABOUT)
    assert text_of(today) == text_of(committed)


@pytest.mark.slow
def test_its_plugin_is_seen_to_be_called_with_no_key(tmp_path: Path) -> None:
    """What the part about the plugin shows, with what it prints, up to the plugin's distribution."""
    page = tmp_path / "README.md"
    page.write_text(README.read_text("utf-8").partition("## Write a plugin")[2].partition("To publish it")[0], "utf-8")
    scripts = str(Path(sys.executable).parent)
    variables = {
        "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
    }
    done = play(page, tmp_path, variables)
    assert [one.command.split()[1] for one in done] == ["call", "explain"]


MARK = "@@@ the next command @@@"


def script_of(page: Path) -> tuple[str, list[Typed]]:
    """One shell script of all that the page shows behind a prompt, and its commands. It saves files with a title."""
    lines, commands = list[str](), list[Typed]()
    for block in blocks(page):
        if block.title:
            lines.append(f"cat > {block.title} <<'END OF FILE'\n{block.code.rstrip()}\nEND OF FILE")
        elif block.language == "console":
            for one in typed(block):
                commands.append(one)
                lines += [f"echo '{MARK}'", one.command]
    return "\n".join(lines), commands


@pytest.mark.wheels
@pytest.mark.needs("git")
def test_everything_that_is_typed_in_a_fresh_clone_does_what_it_says(tmp_path: Path) -> None:
    """From the top, in one shell: the demo, a chat, a plugin that is called, and its distribution's tests."""
    clone = tmp_path / "deep"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    (clone / "README.md").write_bytes(README.read_bytes())  # the page that is tested, also before it is committed
    script, commands = script_of(clone / "README.md")
    words = [one.command.partition("#")[0].split() for one in commands]
    assert words[0] == ["make", "demo"]
    assert ["pytest", "-q"] in words
    own = {name: str(tmp_path / name.lower()) for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    of_the_tests = Path(sys.prefix).resolve()
    path = [entry for entry in os.environ["PATH"].split(os.pathsep) if Path(entry).resolve().parent != of_the_tests]
    own["PYTEST_DEBUG_TEMPROOT"] = str(tmp_path)  # as in tests.environments
    own["COMPILE"] = ""  # byte code of all modules: CI's own environment has it
    variables = {**os.environ, **own, "PATH": os.pathsep.join(path), "COLUMNS": "100", "LC_ALL": "C.UTF-8"}
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "MAKEFLAGS", "MAKELEVEL", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        variables.pop(name, None)
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=clone,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    printed = done.stdout.split(f"{MARK}\n")[1:]
    assert done.returncode == 0, f"{commands[len(printed) - 1].command}\n{done.stdout}"
    for one, text in zip(commands, printed, strict=True):
        assert one.output is None or matches(one.output, text), f"line {one.line}: $ {one.command}\n{text}"
    said = {one.command.partition("#")[0].strip(): text for one, text in zip(commands, printed, strict=True)}
    assert "Ran the tests again: all 6 tests pass." in said["make demo"]
    assert "Hello, deep." in next(text for command, text in said.items() if "| deep chat" in command)
