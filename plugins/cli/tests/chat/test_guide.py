"""docs/terminal.md: all that it says to type was typed, and its pictures are there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from plugins.cli.tests.guide import KEYS, walk
from tests.docs_pages import ROOT, blocks

PAGE = ROOT / "docs" / "terminal.md"
PLACEHOLDER = re.compile(r" [A-Z]+$")
"""A word of the reader's own at the end of a command, as in `/resume ID`."""


@pytest.mark.slow
def test_all_that_the_guide_says_to_type_is_typed(make_deep: Callable[..., Any]) -> None:
    done = walk(make_deep("backends", "filesystem", "demo", "summarization"), (100, 40))
    commands = [" ".join(["deep", *arguments]) for arguments in done.commands]
    assert {re.sub(r" [0-9a-f]{8}$", " ID", command) for command in commands} == {
        shlex.join(shlex.split(line.removeprefix("$ ")))
        for block in blocks(PAGE)
        if block.language == "console"
        for line in block.code.splitlines()
    }
    text = re.sub(r"^```.*?^```$", "", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    spans = [span for span in re.findall(r"`([^`\n]+)`", text) if re.match(r"[/!@][a-z]", span)]
    assert len(spans) > 20
    everything = "".join(done.typed)
    assert [span for span in spans if PLACEHOLDER.sub(" ", span) not in everything] == ["@data/march.csv"]  # completed
    keys = {name.strip("`") for name in re.findall(r"\*\*([A-Z][^* ]+|arrow up)\*\*", text)}
    assert keys | {"\\"} == set(KEYS)
    assert [key for key in KEYS if KEYS[key] not in everything] == []


def test_every_slash_command_is_in_the_guide() -> None:
    from deep_cli.chat.slash_commands import COMMANDS

    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in COMMANDS if not re.search(rf"`{name}[ `]", text)] == []
