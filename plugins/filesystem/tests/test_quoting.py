"""Names of files cannot hide or move text, and every shown name can be given back."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from deep_backends import local_backend
from deep_filesystem.quoting import escape, quoted, unescape
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_ai.workspaces import Workspace

from tests.drawn import sample

CONTROLS = "\x1b[2K\r\n\t\x9b\u202e\u2066\u200b\u00ad\u061c\u2060\ufeff\u3164\u034f\ufe0f\U000e0041\U000e0100\udcff"
HIDDEN = [*CONTROLS.replace("[2K", "")]


@pytest.mark.slow
def test_no_character_of_the_kinds_that_hide_is_shown_raw() -> None:
    kinds = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    hidden = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in kinds)
    assert [code for code in HIDDEN if not escape(code).isascii()] == []
    assert escape(hidden).isascii()


@given(st.text(st.one_of(st.sampled_from([*HIDDEN, "\\", "x", "1", "b", "u", "/", "."]), st.characters())))
@example("\\x1b")
@example("\\\\x1b\x1b")
def test_a_shown_name_is_the_name_again(name: str) -> None:
    if "\0" not in name:
        assert unescape(escape(name)) == name
    assert "\n" not in quoted(name)


@pytest.mark.parametrize(
    "text", ["..\\x2fsecret", ".\\x67it/config", "\\u002e\\u002e/x", "\\x00", "\\U00110000", "C:\\temp"]
)
def test_an_escape_that_we_never_write_is_left_alone(text: str) -> None:
    # A rule that checks the path of a call must see the path that is used.
    assert unescape(text) == text


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("hidden", sample(HIDDEN, *HIDDEN[::4]), ids=lambda char: hex(ord(char)))
async def test_every_answer_shows_it_and_takes_it_back(root: Path, new_session: Any, hidden: str) -> None:
    session = new_session(Workspace(local_backend(root)))
    name = f"a{hidden}b.txt"
    (root / f"d{hidden}").mkdir()
    (root / f"d{hidden}" / name).write_text("text\n")
    shown, folder = escape(name), escape(f"d{hidden}")
    assert await session.ok("ls") == f"{folder}/"
    assert await session.ok("ls", folder) == f"{shown} (5 bytes)"
    path = f"{folder}/{shown}"
    assert await session.ok("read_file", path) == "1\ttext"
    if hidden != "\udcff":  # searches leave out names that are not Unicode, as ripgrep does
        assert await session.ok("glob", "**/*.txt") == path
        assert await session.ok("glob", path) == path
        assert await session.ok("grep", "text") == path
        assert await session.ok("grep", "text", path, output_mode="content") == f"{path}:1: text"
    assert await session.ok("edit_file", path, "text", "next") == f"Edited {path}: 1 replacement, line 1."
    assert hidden not in await session.failed("read_file", f"d{hidden}/a{hidden}c.txt")
    assert shown in await session.failed("read_file", f"{folder}/a{hidden}b.tx")
    assert (await session.failed("read_file", f"{folder}/none")).startswith(f"{folder}/none: ")


@pytest.mark.anyio
async def test_a_backslash_in_a_name_is_itself(root: Path, new_session: Any) -> None:
    session = new_session(Workspace(local_backend(root)))
    for name in ("a\\x1b.txt", "a\x1b.txt", "C:\\temp"):
        (root / name).write_text(f"{name!a}\n")
    shown = [line.split(" ")[0] for line in (await session.ok("ls")).splitlines()]
    assert shown == ["C:\\\\temp", "a\\x1b.txt", "a\\\\x1b.txt"]
    assert "x1b" in await session.ok("read_file", "a\\x1b.txt")
    assert await session.ok("read_file", "a\\x1b.txt") != await session.ok("read_file", "a\\\\x1b.txt")
    assert await session.ok("read_file", "C:\\temp") == await session.ok("read_file", "C:\\\\temp")
    (root / "a\x1b.txt").unlink()
    assert await session.ok("read_file", "a\\x1b.txt") == await session.ok("read_file", "a\\\\x1b.txt")
