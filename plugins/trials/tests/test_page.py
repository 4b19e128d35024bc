"""The page of a run: one file, no script, nothing of what a model wrote as markup, and every cell opens something."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from deep_trials.page import page_of, write_page
from deep_trials.reports import as_json, as_markdown, as_text

from plugins.trials.tests.written import row

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs


def rows_in(folder: Path) -> list:
    rows = [
        row("a", store="sqlite:///kept/a/session.db", note=HOSTILE),
        row(HOSTILE, passed=False, store="sqlite:///kept/b/session.db", scores={HOSTILE: 0.5}),
        row("a", agent="other", passed=False, end="timeout", store="sqlite:///kept/c/session.db"),
        row("a", agent="other", n=2, store="sqlite:///kept/d/session.db"),
    ]
    for name in "ab":
        (folder / "kept" / name).mkdir(parents=True)
        messages = [
            {"kind": "user", "text": HOSTILE},
            {"kind": "call", "tool": HOSTILE, "args": {HOSTILE: HOSTILE}, "outcome": "success", "result": "x" * 9_000},
            {"kind": "agent", "text": HOSTILE},
        ]
        said = {"answer": HOSTILE, "messages": messages}
        (folder / "kept" / name / "transcript.json").write_text(json.dumps(said), encoding="utf-8")
    return rows


def test_what_a_model_wrote_is_never_markup(tmp_path: Path) -> None:
    page = page_of(rows_in(tmp_path), tmp_path)
    found = Tags(page)
    assert found.tags.isdisjoint({"script", "img", "iframe", "link"})
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "src"]
    assert "default-src 'none'" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_every_cell_opens_a_conversation(tmp_path: Path) -> None:
    page = write_page(rows_in(tmp_path), tmp_path).read_text(encoding="utf-8")
    targets = re.findall(r'<a class="\w+" href="#(t\d+)"', page)
    assert targets == ["t1", "t3", "t4", "t2"]
    assert {*targets} == {*re.findall(r'<section class="trial" id="(t\d+)"', page)}
    assert page.count("This trial left no conversation.") == 2
    assert "5,000 characters more" in page
    assert "deep sessions show" in page


def test_scores_that_all_tasks_share_are_counted() -> None:
    rows = [
        row("a", scores={"utility": True, "resisted": False}, passed=False),
        row("b", scores={"utility": True}),
        row("c", scores={"utility": False, "resisted": True}, passed=False),
    ]
    assert "deep · m: utility 2 of 3, resisted 1 of 2" in as_text(rows)
    assert not [line for line in as_text([row("a", scores={"x": True}), row("b", scores={"y": True})]) if "x 1" in line]


def test_the_same_run_in_words(tmp_path: Path) -> None:
    rows = rows_in(tmp_path)
    text = "\n".join(as_text(rows))
    assert "s: 2 tasks, 4 trials" in text
    assert "a  other · m  1 of 2" in re.sub(r" {2,}", "  ", text)
    table = as_markdown(rows)
    assert "| a | solved | 1 of 2 |" in table
    assert json.loads(json.dumps(as_json(rows, "done", 0, "out"), allow_nan=False))["schema"] == 1
    assert as_text([]) == ["no trial was run"]
