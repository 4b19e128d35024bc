"""Who answers without a person: each reason x each mode and kept answer, with real tools and a real question."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import pytest
from deep_acp.permissions import choices_of
from deep_backends import local_backend
from deep_cli.run.approval import Approver, Question, questions
from deep_cli.run.rules import Always, Rules, offers
from deep_sessions import WaitingCalls, questions_of
from deep_web.approvals import approval_of
from pydantic_ai import DeferredToolRequests
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from deep_core import Ask, Kernel, ToolCall, create_default_deps
from tests.plugins_by_hand import plugin

ORDINARY = ("notes.txt", "src/a.py")
RUNS_LATER = (".git/hooks/pre-commit", "to-hook", "in/hooks/post-merge", ".GIT/config", ".envrc", ".vscode/a", "to-rc")


def always(call: ToolCall) -> bool:
    return True


WAYS: dict[str, dict[str, Any]] = {
    "the option": {"config": {"plugins": {"filesystem": {"options": {"require_write_approval": True}}}}},
    "require_approval": {"config": {"plugins": {"filesystem": {"require_approval": "name:write_file"}}}},
    "a rule by name": {"config": {"agent": {"interrupt_on": {"write_file": True}}}},
    "a rule by tag": {"config": {"agent": {"interrupt_on": "write"}}},
    "a predicate": {"interrupt_on": {"write_file": always}},
    "a guard": {"config": {"plugins": {"filesystem": {"options": {"require_write_approval": True}}}}, "guard": "no"},
    "a guard without words": {"config": {"agent": {"interrupt_on": "write"}}, "guard": ""},
}
"""How a write comes to ask."""
STANDING = ("the option", "require_approval", "a rule by name", "a rule by tag")
"""Those after which accept-edits does not ask about an ordinary file."""


def asked(root: Path, way: str, path: str) -> DeferredToolRequests:
    """Return the question about a write that asks in this way."""
    settings = dict(WAYS[way])
    text, config = settings.pop("guard", None), settings.pop("config", None)

    def check(call: ToolCall, context: Any) -> Ask | None:
        return None if text is None else Ask(text)

    plugins = [deep_backends, deep_filesystem, plugin("guard", check_call=check)]
    call = ToolCallPart("write_file", {"path": path, "content": "#!/bin/sh\n"}, "c1")
    model = FunctionModel(lambda messages, info: ModelResponse([call if len(messages) == 1 else TextPart("done")]))
    with Kernel(plugins=plugins, discover=False, config=config) as kernel:
        agent = kernel.create_agent(model, backend=local_backend(root), **settings)
        output = asyncio.run(agent.run("go", deps=create_default_deps(kernel=kernel))).output
    assert isinstance(output, DeferredToolRequests)
    return output


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / "to-hook").symlink_to(".git/hooks/pre-push")
    (root / "in").symlink_to(".git")
    (root / "to-rc").symlink_to(".bashrc")
    (root / "src").mkdir()
    return root


def question_of(requests: DeferredToolRequests) -> Question:
    (question,) = asyncio.run(questions(requests, None))
    return question


def is_answered(question: Question, approver: Approver) -> bool:
    """Whether the approver answers by itself: the person who is asked says no."""
    call = ToolCallPart(question.tool, {**question.args}, question.call_id)
    return approver.decide(DeferredToolRequests(approvals=[call]), [question]).approvals[question.call_id] is True


@pytest.mark.parametrize("path", [*ORDINARY, *RUNS_LATER])
@pytest.mark.parametrize("way", WAYS)
def test_accept_edits_answers_that_a_file_changes_and_nothing_else(root: Path, way: str, path: str) -> None:
    question = question_of(asked(root, way, path))
    approver = Approver("ask", lambda question: "no", lambda decision: None)
    approver.accepts_edits = True
    assert is_answered(question, approver) == (way in STANDING and path in ORDINARY)


@pytest.mark.parametrize("path", [*ORDINARY, *RUNS_LATER])
@pytest.mark.parametrize("way", WAYS)
def test_what_was_approved_always_covers_no_reason_of_its_own(root: Path, way: str, path: str, tmp_path: Path) -> None:
    rules = Rules(str(root), tmp_path / "data")
    for rule in offers(question_of(asked(root, "the option", "notes.txt")), str(root)):
        rules.add(Always(rule, keep=True))
    covered = way in (*STANDING, "a predicate") and path in ORDINARY
    question = question_of(asked(root, way, path))
    for known in (rules, Rules(str(root), tmp_path / "data")):
        approver = Approver("ask", lambda question: "no", lambda decision: None, known)
        assert is_answered(question, approver) == covered
    # Nor does any interface offer to cover it.
    assert bool(offers(question, str(root))) == covered
    (shown,) = questions_of(asked(root, way, path))
    assert ("allow_always" in [option.kind for option in choices_of(shown, str(root))]) == covered


@pytest.mark.parametrize("path", [*ORDINARY, *RUNS_LATER])
@pytest.mark.parametrize("way", WAYS)
def test_every_interface_shows_every_reason(root: Path, way: str, path: str) -> None:
    requests = asked(root, way, path)
    kinds = {"rule" if way == "a predicate" else "write"}
    kinds |= {"runs_later"} if path in RUNS_LATER else set()
    kinds |= {"guard"} if "guard" in way else set()
    stored = WaitingCalls(**vars(requests), approval="of this session")
    (shown,) = asyncio.run(approval_of(stored, None))["questions"]
    (heard,) = questions_of(requests)
    assert {reason["kind"] for reason in shown["reasons"]} == kinds
    assert {reason.kind for reason in question_of(requests).reasons} == kinds
    assert {reason.kind for reason in heard.reasons} == kinds
    assert all((reason.text or reason.kind) in heard.reason for reason in heard.reasons)


OTHERS: dict[str, bool] = {
    # another file: whether what was approved for `src/a.py`, or for its folder, is for it too
    "src/a.py": True, "./src/a.py": True, "src/../src/a.py": True, "src/b.py": False, "a.py": False, "src/a.pyc": False,
    "src": False, "SRC/a.py": False, "src/a.py/x": False, "../src/a.py": False, "to-hook": False, "src/to-a": False,
}  # fmt: skip


@pytest.mark.parametrize("path", OTHERS)
def test_a_rule_about_one_file_is_for_no_other(root: Path, path: str, tmp_path: Path) -> None:
    (root / "src" / "to-a").symlink_to("../notes.txt")
    question = question_of(asked(root, "the option", "src/a.py"))
    file, folder, _ = offers(question, str(root))
    other = replace(question, args={**question.args, "path": path})
    assert file.covers(other, str(root)) is OTHERS[path]
    assert folder.covers(other, str(root)) is (OTHERS[path] or path in ("src/b.py", "src/a.pyc", "src/a.py/x"))


@pytest.mark.parametrize("changed", ["description", "schema", "server", "name"])
def test_a_tool_that_changed_is_covered_by_nothing_that_was_kept(root: Path, changed: str, tmp_path: Path) -> None:
    question = question_of(asked(root, "the option", "notes.txt"))
    rules = Rules(str(root), tmp_path / "data")
    for rule in offers(question, str(root)):
        rules.add(Always(rule, keep=True))
    approver = Approver("ask", lambda question: "always", lambda decision: None)
    assert is_answered(question, approver)
    key, _, digest = question.identity.partition("@")
    other = {"server": f"{key}-of-another@{digest}", "name": f"{key}x@{digest}"}.get(changed, f"{key}@{digest[::-1]}")
    for known in (question, replace(question, identity=other), replace(question, identity="")):
        for each in (rules, Rules(str(root), tmp_path / "data")):
            answers = Approver("ask", lambda question: "no", lambda decision: None, each)
            assert is_answered(known, answers) == (known is question)
        never = Approver("ask", lambda question: "no", lambda decision: None)
        never._always = approver._always
        assert is_answered(known, never) == (known is question)


@pytest.mark.parametrize("mode", ["accept edits", "always", "kept"])
def test_a_question_with_empty_reasons_is_covered_by_nothing(root: Path, mode: str, tmp_path: Path) -> None:
    question = question_of(asked(root, "the option", "notes.txt"))
    rules = Rules(str(root), tmp_path / "data")
    for rule in offers(question, str(root)) if mode == "kept" else ():
        rules.add(Always(rule))
    approver = Approver("ask", lambda question: "always", lambda decision: None, rules)
    if mode == "always":
        assert is_answered(question, approver)
    approver._ask = lambda question: "no"
    approver.accepts_edits = mode == "accept edits"
    assert is_answered(question, approver)
    assert not is_answered(replace(question, reasons=()), approver)


def test_the_rows_are_what_they_seem(root: Path) -> None:
    assert len(WAYS) * len((*ORDINARY, *RUNS_LATER)) * 3 == 189
    assert os.path.realpath(root / "to-hook").endswith("/.git/hooks/pre-push")
