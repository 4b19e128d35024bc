"""What `always` covers, and nothing more; where it is kept; and what /undo takes back."""

from __future__ import annotations

import asyncio
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deep_backends import local_backend
from deep_cli.run.approval import Approver, Question
from deep_cli.run.rules import Always, Rule, Rules, is_edit, offers
from deep_cli.undo import FileLog
from hypothesis import given
from hypothesis import strategies as st

from deep_core.plugin_api import ACCEPT_EDITS, EVERY_CALL, Reason

FOLDER = "/project/place"
RUNS, WRITES = Reason("command", "it runs a command", "filesystem"), Reason("write", "it changes files", "filesystem")
RULE = Reason("rule", "a rule of interrupt_on asks")
OTHERS = [Reason(kind, "of its own") for kind in ("guard", "runs_later", "network", "changed")]
"""What no answer for every call covers."""


def command(text: str, *more: Reason, why: tuple[Reason, ...] = (RUNS,), tool: str = "execute") -> Question:
    return Question("1", tool, "filesystem", {"command": text}, (*why, *more), identity=f"filesystem:{tool}@1")


def write(path: str, *more: Reason, why: tuple[Reason, ...] = (WRITES,)) -> Question:
    args = {"path": path, "content": "x"}
    return Question("1", "write_file", "filesystem", args, (*why, *more), identity="filesystem:write_file@1")


def rule_of(tool: str, kind: Any, value: str = "") -> Rule:
    return Rule("filesystem", tool, kind, value, f"filesystem:{tool}@1")


def offered(question: Question) -> list[tuple[str, str]]:
    return [(rule.kind, rule.value) for rule in offers(question, FOLDER)]


@pytest.mark.parametrize(
    ("asked", "rules"),
    [
        (command("git status -s"), [("command", "git status"), ("tool", "")]),
        (command("pytest -q"), [("command", "pytest"), ("tool", "")]),
        (command("git status; rm -rf /"), [("tool", "")]),
        (command("X=1 git status"), [("tool", "")]),
        (command("git status", Reason("guard", "the guard says so")), []),
        (command("git status", why=()), []),
        (write("a.py", Reason("runs_later", "git runs it")), []),
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
    rule = rule_of("execute", "command", "git status")
    if rule.covers(command(f"git status{rest}"), FOLDER):
        assert not set(rest) & set(";&|<>()$`\\\n#*?{}")
        assert not rest or rest[0].isspace() or rest[0] in "'\""
    assert not rule.covers(command(f"git stash{rest}"), FOLDER)
    assert not any(rule.covers(command("git status", other), FOLDER) for other in OTHERS)


@given(st.lists(st.sampled_from(["..", ".", "src", "a", "", "~"]), max_size=6))
def test_a_folder_covers_only_files_below_it(parts: list[str]) -> None:
    import os

    rule, path = rule_of("write_file", "path", "src/"), "/".join(parts)
    below = os.path.normpath(os.path.join(FOLDER, path)).startswith(f"{FOLDER}/src/")
    assert rule.covers(write(path), FOLDER) == below


def test_a_link_out_of_the_folder_is_not_below_it(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "src" / "link").symlink_to(tmp_path / "other")
    rule = rule_of("write_file", "path", "src/")
    assert rule.covers(write("src/a"), str(tmp_path))
    assert not rule.covers(write("src/link/a"), str(tmp_path))


def test_accept_edits_covers_changes_to_one_file_and_no_other_argument() -> None:
    assert is_edit(write("a"))
    assert not any(is_edit(write("a", other)) for other in (*OTHERS, RULE, RUNS))
    assert not is_edit(write("a", why=()))
    assert not is_edit(command("ls", why=(WRITES,)))
    assert not is_edit(Question("1", "upload", "x", {"path": "a", "content": "b", "host": "h"}, (WRITES,)))


@given(st.lists(st.sampled_from([RUNS, WRITES, RULE, *OTHERS]), max_size=4))
def test_an_answer_covers_a_question_if_it_covers_all_of_its_reasons_and_there_is_one(reasons: list[Reason]) -> None:
    kinds = {reason.kind for reason in reasons}
    edit, run = write("a", why=tuple(reasons)), command("git status", why=tuple(reasons))
    assert is_edit(edit) == (bool(kinds) and kinds <= ACCEPT_EDITS)
    assert rule_of("write_file", "tool").covers(edit, FOLDER) == (bool(kinds) and kinds <= EVERY_CALL)
    assert rule_of("write_file", "path", "a").covers(edit, FOLDER) == (
        bool(kinds) and kinds <= {"rule", "tool", "write"}
    )
    assert rule_of("execute", "command", "git").covers(run, FOLDER) == (
        bool(kinds) and kinds <= {"rule", "tool", "command"}
    )


def test_a_rule_is_about_the_tool_as_it_was(tmp_path: Path) -> None:
    rules = Rules(str(tmp_path / "project"), tmp_path / "data")
    rules.add(Always(rule_of("execute", "tool"), keep=True))
    for known in (rules, Rules(str(tmp_path / "project"), tmp_path / "data")):
        assert known.covering(command("ls")) is not None
        assert known.covering(replace(command("ls"), identity="filesystem:execute@2")) is None
        assert known.covering(replace(command("ls"), identity="")) is None
    nameless = Rule("filesystem", "execute", "tool")
    assert not nameless.covers(replace(command("ls"), identity=""), FOLDER)


def test_always_in_a_task_is_about_the_tool_as_it_was_and_its_standing_reasons() -> None:
    from pydantic_ai import DeferredToolRequests
    from pydantic_ai.messages import ToolCallPart

    asked = list[Question]()

    def ask(question: Question) -> Any:
        asked.append(question)
        return "always"

    approver = Approver("ask", ask, lambda decision: None)
    changed = replace(command("ls"), identity="filesystem:execute@2")
    for question in (command("ls"), command("ls"), command("ls", *OTHERS[:1]), changed, command("ls")):
        approver.decide(DeferredToolRequests(approvals=[ToolCallPart("execute", {}, "1")]), [question])
    assert asked == [command("ls"), command("ls", *OTHERS[:1]), changed]


def test_kept_rules_are_the_users_alone_and_hold_in_the_next_chat(tmp_path: Path) -> None:
    folder, data = tmp_path / "project", tmp_path / "data"
    folder.mkdir()
    rules = Rules(str(folder), data)
    rule = rule_of("execute", "command", "git status")
    rules.add(Always(rule, keep=True))
    rules.add(Always(rule_of("execute", "command", "ls")))
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
    kept, of_chat = rule_of("execute", "command", "git status"), rule_of("write_file", "tool")
    rules.add(Always(kept, keep=True))
    rules.add(Always(of_chat))
    assert (rules.kept, rules.of_chat) == ([kept], [of_chat])
    rules.drop()
    assert (rules.kept, rules.of_chat) == ([], [])
    assert rules.covering(command("git status")) is None
    assert Rules(str(folder), tmp_path / "data").covering(command("git status")) is None


def test_a_folder_in_which_the_agent_could_write_the_rules_keeps_none(tmp_path: Path) -> None:
    rules = Rules(str(tmp_path), tmp_path / "data")
    rules.add(Always(rule_of("execute", "tool"), keep=True))
    assert not rules.can_keep
    assert not rules.file.exists()


def test_a_rule_answers_only_a_question_that_was_raised(tmp_path: Path) -> None:
    rules, asked = Rules(str(tmp_path), tmp_path / "data"), list[str]()
    rules.add(Always(rule_of("execute", "tool")))

    def ask(question: Question) -> Any:
        asked.append(question.tool)
        return "no"

    approver = Approver("ask", ask, lambda decision: None, rules)
    from pydantic_ai import DeferredToolRequests
    from pydantic_ai.messages import ToolCallPart

    calls = [ToolCallPart("execute", {"command": "x"}, "1"), ToolCallPart("other", {}, "2")]
    waiting = [command("x"), Question("2", "other", "app", {}, (Reason("tool", "by itself"),), identity="app:other@1")]
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


def _log_of(tmp_path: Path) -> tuple[Any, FileLog, Any]:
    backend, log = local_backend(tmp_path), FileLog()

    async def change(path: str, text: str | None) -> None:
        await log.before(path, backend)
        if text is not None:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
        await log.after(path, backend)

    return backend, log, change


def test_undo_removes_the_folders_that_the_turn_made_and_no_others(tmp_path: Path) -> None:
    backend, log, change = _log_of(tmp_path)
    (tmp_path / "old").mkdir()

    async def act() -> list[str]:
        log.begin(1)
        await change("src/new/part.py", "x")
        await change("src/new/deeper/other.py", "x")
        await change("old/file.py", "x")
        await change("kept/file.py", "x")
        (tmp_path / "kept/mine").write_text("mine")
        log.begin(2)
        await change("src/new/late.py", "x")
        await log.take_back(1, backend)
        assert (tmp_path / "src/new/part.py").exists()
        await log.take_back(1, backend)
        return sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*"))

    assert asyncio.run(act()) == ["kept", "kept/mine", "old"]


def test_undo_names_only_files_that_it_changed(tmp_path: Path) -> None:
    backend, log, change = _log_of(tmp_path)
    (tmp_path / "denied").write_text("a")
    (tmp_path / "there-and-back").write_text("a")

    async def act() -> Any:
        log.begin(1)
        await change("denied", None)
        await change("never/made", None)
        await change("there-and-back", "b")
        log.begin(2)
        await change("there-and-back", "a")
        await change("changed", "b")
        (tmp_path / "denied").write_text("mine")
        return await log.take_back(2, backend)

    done = asyncio.run(act())
    assert (done.restored, done.left) == (("changed",), ())
    assert (tmp_path / "denied").read_text() == "mine"


def test_undo_knows_a_file_by_all_of_its_names(tmp_path: Path) -> None:
    backend, log, change = _log_of(tmp_path)
    (tmp_path / "a").write_text("0")
    (tmp_path / "link").symlink_to("a")

    async def act() -> Any:
        log.begin(1)
        for number, name in enumerate(["a", "./a", "link", str(tmp_path / "a")]):
            await change(name, str(number + 1))
        return await log.take_back(1, backend)

    done = asyncio.run(act())
    assert (done.restored, done.left) == (("a",), ())
    assert (tmp_path / "a").read_text() == "0"
    assert (tmp_path / "link").is_symlink()
