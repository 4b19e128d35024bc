"""What `always` covers, and nothing more; where it is kept; and what /undo takes back."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest
from deep_backends import local_backend
from deep_cli.run.approval import Approver, Question
from deep_cli.run.rules import Always, Rule, Rules, is_edit, offers
from deep_cli.undo import FileLog
from hypothesis import given
from hypothesis import strategies as st

FOLDER = "/project/place"


def command(text: str, **more: Any) -> Question:
    return Question("1", "execute", "filesystem", {"command": text}, **more)


def write(path: str, **more: Any) -> Question:
    return Question("1", "write_file", "filesystem", {"path": path, "content": "x"}, **more)


def offered(question: Question) -> list[tuple[str, str]]:
    return [(rule.kind, rule.value) for rule in offers(question, FOLDER)]


@pytest.mark.parametrize(
    ("asked", "rules"),
    [
        (command("git status -s"), [("command", "git status"), ("tool", "")]),
        (command("pytest -q"), [("command", "pytest"), ("tool", "")]),
        (command("git status; rm -rf /"), [("tool", "")]),
        (command("X=1 git status"), [("tool", "")]),
        (command("git status", reason="the guard says so"), [("tool", "")]),
        (write("src/a.py"), [("path", "src/a.py"), ("path", "src/"), ("tool", "")]),
        (write("a.py"), [("path", "a.py"), ("tool", "")]),
        (write("../a.py"), [("tool", "")]),
    ],
)
def test_what_is_offered_is_the_narrowest_first(asked: Question, rules: list[tuple[str, str]]) -> None:
    assert offered(asked) == rules
    assert all(rule.covers(asked, FOLDER) for rule in offers(asked, FOLDER))


@given(st.text(st.sampled_from(" ;&|<>()$`\\\n'\"#*?{}=ab-"), max_size=20))
def test_a_prefix_covers_one_plain_command_and_no_shell(rest: str) -> None:
    rule = Rule("filesystem", "execute", "command", "git status")
    if rule.covers(command(f"git status{rest}"), FOLDER):
        assert not set(rest) & set(";&|<>()$`\\\n#*?{}")
        assert not rest or rest[0].isspace() or rest[0] in "'\""
    assert not rule.covers(command(f"git stash{rest}"), FOLDER)
    assert not rule.covers(command("git status", reason="why"), FOLDER)


@given(st.lists(st.sampled_from(["..", ".", "src", "a", "", "~"]), max_size=6))
def test_a_folder_covers_only_files_below_it(parts: list[str]) -> None:
    import os

    rule, path = Rule("filesystem", "write_file", "path", "src/"), "/".join(parts)
    below = os.path.normpath(os.path.join(FOLDER, path)).startswith(f"{FOLDER}/src/")
    assert rule.covers(write(path), FOLDER) == below


def test_a_link_out_of_the_folder_is_not_below_it(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "src" / "link").symlink_to(tmp_path / "other")
    rule = Rule("filesystem", "write_file", "path", "src/")
    assert rule.covers(write("src/a"), str(tmp_path))
    assert not rule.covers(write("src/link/a"), str(tmp_path))


def test_accept_edits_covers_changes_to_one_file_and_no_other_argument() -> None:
    assert is_edit(write("a"))
    assert not is_edit(write("a", reason="protected"))
    assert not is_edit(command("ls"))
    assert not is_edit(Question("1", "upload", "x", {"path": "a", "content": "b", "host": "h"}))


def test_kept_rules_are_the_users_alone_and_hold_in_the_next_chat(tmp_path: Path) -> None:
    folder, data = tmp_path / "project", tmp_path / "data"
    folder.mkdir()
    rules = Rules(str(folder), data)
    rule = Rule("filesystem", "execute", "command", "git status")
    rules.add(Always(rule, keep=True))
    rules.add(Always(Rule("filesystem", "execute", "command", "ls")))
    assert stat.S_IMODE(rules.file.stat().st_mode) == 0o600
    again = Rules(str(folder), data)
    assert again.covering(command("git status -s")) == rule
    assert again.covering(command("ls")) is None
    assert Rules(str(tmp_path), data).covering(command("git status")) is None  # another folder
    rules.file.write_text('{"schema": 1, "rules": [{"plugin": 1}]}')
    assert Rules(str(folder), data).covering(command("git status")) is None


def test_after_drop_no_rule_answers_in_this_chat_or_the_next(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    rules = Rules(str(folder), tmp_path / "data")
    kept, of_chat = Rule("filesystem", "execute", "command", "git status"), Rule("filesystem", "write_file", "tool")
    rules.add(Always(kept, keep=True))
    rules.add(Always(of_chat))
    assert (rules.kept, rules.of_chat) == ([kept], [of_chat])
    rules.drop()
    assert (rules.kept, rules.of_chat) == ([], [])
    assert rules.covering(command("git status")) is None
    assert Rules(str(folder), tmp_path / "data").covering(command("git status")) is None


def test_a_folder_in_which_the_agent_could_write_the_rules_keeps_none(tmp_path: Path) -> None:
    rules = Rules(str(tmp_path), tmp_path / "data")
    rules.add(Always(Rule("filesystem", "execute", "tool"), keep=True))
    assert not rules.can_keep
    assert not rules.file.exists()


def test_a_rule_answers_only_a_question_that_was_raised(tmp_path: Path) -> None:
    rules, asked = Rules(str(tmp_path), tmp_path / "data"), list[str]()
    rules.add(Always(Rule("filesystem", "execute", "tool")))

    def ask(question: Question) -> Any:
        asked.append(question.tool)
        return "no"

    approver = Approver("ask", ask, lambda decision: None, rules)
    from pydantic_ai import DeferredToolRequests
    from pydantic_ai.messages import ToolCallPart

    calls = [ToolCallPart("execute", {"command": "x"}, "1"), ToolCallPart("other", {}, "2")]
    waiting = [Question("1", "execute", "filesystem", {"command": "x"}), Question("2", "other", "app", {})]
    results = approver.decide(DeferredToolRequests(approvals=calls), waiting)
    assert asked == ["other"]
    assert results.approvals["1"] is True
    assert [decision.by for decision in approver.decisions] == ["always", "you"]


def test_undo_restores_what_tools_changed_and_leaves_what_something_else_changed(tmp_path: Path) -> None:
    backend, log = local_backend(tmp_path), FileLog()
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)

    async def change(path: str, text: str) -> None:
        await log.before(path, backend)
        (tmp_path / path).write_text(text)
        await log.after(path, backend)

    async def act() -> Any:
        log.begin(3)
        await change("a", "1")
        await change("a", "2")
        await change("new", "x")
        log.begin(7)
        await change("b", "y")
        (tmp_path / "b").write_text("mine")
        assert "+2" in await log.diff(backend)
        return await log.take_back(1, backend), await log.take_back(1, backend)

    second, first = asyncio.run(act())
    assert (second.entry, second.restored, second.left) == (7, (), ("b",))
    assert (first.entry, first.restored, first.left) == (3, ("a", "new"), ())
    assert (tmp_path / "a").read_text() == "a"
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "b").read_text() == "mine"
