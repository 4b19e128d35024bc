"""tests/promises.toml: every paragraph, point and row of six pages names the tests that show it, and they exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.environments import REPOSITORY

TABLE: dict[str, Any] = tomllib.loads((REPOSITORY / "tests" / "promises.toml").read_text(encoding="utf-8"))
FILES: dict[str, str] = TABLE.pop("files")
PAGES = ("security.md", "folders.md", "mcp.md", "serving-mcp.md", "browser.md", "durability.md")
"""tests/threats.md has its tests in itself: `test_threats_table.py`."""


def blocks(page: str) -> Iterator[str]:
    """Yield the paragraphs, points and rows of a page, without headings, pictures, comments and code."""
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.S)
    for part in re.split(r"\n\s*\n", text):
        part = part.strip()
        if part.startswith("|"):
            yield from part.splitlines()[2:]
        elif part.startswith("- "):
            yield from (" ".join(point.split())[2:] for point in re.split(r"\n(?=- )", part))
        elif part and not part.startswith(("#", "![")):
            yield " ".join(part.split())


def test_the_pages_are_those_of_the_table() -> None:
    assert (*TABLE,) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_every_promise_of_a_page_has_one_row_and_every_row_a_promise(page: str) -> None:
    found = {block: [row for row in TABLE[page] if block.startswith(row)] for block in blocks(page)}
    assert {block: rows for block, rows in found.items() if len(rows) != 1} == {}
    assert [row for row in TABLE[page] if [row] not in found.values()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_row_names_exists(page: str) -> None:
    for row, said in TABLE[page].items():
        if said.startswith("- "):
            continue
        words = said.split()
        assert words, row
        assert len(words) % 2 == 0, row
        for file, test in zip(words[::2], words[1::2], strict=True):
            assert f"def {test}(" in (REPOSITORY / FILES[file]).read_text(encoding="utf-8"), f"{row}: {file} {test}"


def test_every_file_is_used_and_few_rows_promise_nothing() -> None:
    rows = [said for page in PAGES for said in TABLE[page].values()]
    assert set(FILES) == {word for said in rows if not said.startswith("- ") for word in said.split()[::2]}
    assert sum(said.startswith("- ") for said in rows) < len(rows) / 7
