"""What a page asks the user about calls that wait, with a diff of what they would change, and the answers."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from deep_sessions import Question, WaitingCalls, answer_questions, questions_of
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.workspaces import Workspace, WorkspaceBackend, WorkspaceError

from deep_core.plugin_api import ReasonKind

if TYPE_CHECKING:
    from .standing import Standing

__all__ = ["Approval", "AskedCall", "AskedReason", "Verdict", "answers", "approval_of"]

DIFF_CHARS = 200_000
"""Most characters of both versions; above it the page shows the arguments."""
EQUAL_PAIRS = 500_000
"""Most pairs of equal lines in both versions, which `difflib` compares one by one: half a second."""


class Verdict(TypedDict, total=False):
    """The user's decision about one call, or the answer to a question of the model."""

    approve: bool
    reason: str
    answer: str


class Choice(TypedDict):
    """What the model asks the user; any other words are an answer too."""

    text: str
    options: list[str]


class AskedReason(TypedDict):
    """One reason why a call asks, with its class (`tool_expressions.ReasonKind`) and the plugin that asks."""

    kind: ReasonKind
    text: str
    plugin: str


class AskedCall(TypedDict):
    """One call that waits, with all that the user needs to decide.

    `path` names it: the call's id; for a subagent's, the ids of the calls above it and its own, with slashes.
    `pictured` are the arguments that the diff shows completely: the page shows every other one as well.
    `subagent` is the type of the subagent that makes it, or None for the agent itself. `choice`: a question.
    `identity` is the tool as it is now; `reason` has all `reasons` in words. `always`: rules that could cover it, in
    words. `edit`: whether the mode `accept-edits` does. Both are empty where there are no rules.
    """

    path: str
    tool: str
    plugin: str
    args: Mapping[str, Any]
    identity: str
    reason: str
    reasons: list[AskedReason]
    diff: str | None
    pictured: list[str]
    subagent: str | None
    choice: Choice | None
    always: list[str]
    edit: bool


class Approval(TypedDict):
    """The calls of a run that wait for the user. The run continues once every question is answered."""

    id: str
    questions: list[AskedCall]


async def approval_of(
    requests: WaitingCalls,
    backend: WorkspaceBackend | None,
    *,
    standing: Standing | None = None,
    covered: Collection[str] = (),
) -> Approval:
    """Build what the page asks about the calls that wait.

    Args:
        requests: the calls.
        backend: the files as they are now; None if they cannot be read, and there are no diffs.
        standing: what rules could cover; None for none.
        covered: the paths of questions that need no answer.
    """
    asked = [_asked(question, standing) for question in questions_of(requests) if question.path not in covered]
    if backend is not None:
        for call in asked:
            call["diff"], call["pictured"] = await _picture(call["args"], Workspace(backend))
    return {"id": requests.approval, "questions": asked}


def _asked(question: Question, standing: Standing | None) -> AskedCall:
    return {
        "path": question.path,
        "tool": question.tool,
        "plugin": question.plugin,
        "args": question.args,
        "identity": question.identity,
        "reason": question.reason,
        "reasons": [{"kind": each.kind, "text": each.text, "plugin": each.plugin} for each in question.reasons],
        "diff": None,
        "pictured": [],
        "subagent": question.agent or None,
        "choice": {"text": question.text, "options": [*question.options]} if question.text else None,
        "always": [] if standing is None else [rule.about for rule in standing.offers(question)],
        "edit": standing is not None and question.is_edit,
    }


def answers(requests: DeferredToolRequests, verdicts: Mapping[str, Verdict]) -> DeferredToolResults:
    """Build the decisions on the calls that wait.

    Raises:
        ValueError: a question is not answered, an answer has no question, or a call that is none is answered with text.
    """
    asked = {question.path: bool(question.text) for question in questions_of(requests)}
    if {path: "answer" in verdict for path, verdict in verdicts.items()} != asked:
        raise ValueError("answer each call that waits, and only those; a question of the model with text")
    return answer_questions(requests, {path: _decision(verdict) for path, verdict in verdicts.items()})


def _decision(verdict: Verdict) -> bool | str | ToolDenied:
    if "answer" in verdict:
        return verdict["answer"]
    return True if verdict.get("approve") else ToolDenied(_refusal(verdict.get("reason", "")))


def _refusal(reason: str) -> str:
    said = f" and said: {reason}" if reason else "."
    return f"The user refused this call{said}"


async def _picture(args: Mapping[str, Any], workspace: Workspace) -> tuple[str | None, list[str]]:
    """Compute what a call would change from the shape of its arguments, for every plugin's file tool.

    Compares like file tools, which keep a file's line endings and byte order mark.

    Returns:
        The diff, and the arguments that it shows completely: another tool may use a `host` or a `command` besides.
    """
    path = args.get("path")
    content, old, new = (_folded(args.get(name)) for name in ("content", "old_string", "new_string"))
    if not isinstance(path, str):
        return None, []
    if content is not None:
        before, after = await _text(path, workspace), content
        used = ["content"]
    elif old is not None and new is not None:
        before = await _text(path, workspace)
        found = before.count(old) if before is not None and old else 0
        if before is None or not found or (found > 1 and not args.get("replace_all")):
            return None, []  # the edit would fail: its arguments say more than a diff
        if len(before) + found * len(new) > DIFF_CHARS:
            return None, []
        after = before.replace(old, new)
        used = ["old_string", "new_string"]
    else:
        return None, []
    if before is None or len(before) + len(after) > DIFF_CHARS:
        return None, []
    now, then = _lines(before), _lines(after)
    if _equal_pairs(now, then) > EQUAL_PAIRS:
        return None, []
    name = path.replace("\n", "\\n")  # it must not make up lines of the diff
    lines = difflib.unified_diff(now, then, f"{name} (now)", f"{name} (after)")
    diff = "\n".join(line[:-1] if line.endswith("\n") else f"{line}\n\\ no newline at the end" for line in lines)
    # Not what was folded: the diff does not show a byte order mark or CRLF.
    pictured = ["path", *(key for key in used if args[key] == _folded(args[key]))]
    if isinstance(args.get("replace_all"), bool) and used != ["content"]:
        pictured.append("replace_all")
    return diff, pictured if diff else []


def _equal_pairs(before: Sequence[str], after: Sequence[str]) -> int:
    """Count the pairs of equal lines that `difflib` compares: it leaves out lines that are frequent in a long text."""
    now, then = Counter(before), Counter(after)
    most = len(after) // 100 + 1 if len(after) >= 200 else len(after)
    return sum(count * then[line] for line, count in now.items() if then[line] <= most)


def _folded(value: object) -> str | None:
    return value.removeprefix("\ufeff").replace("\r\n", "\n") if isinstance(value, str) else None


def _lines(text: str) -> list[str]:
    # Not splitlines: it splits at a line separator or a form feed and would hide such changes.
    return re.findall(r"[^\n]*\n|[^\n]+", text)


async def _text(path: str, workspace: Workspace) -> str | None:
    try:
        return _folded(await workspace.read_text(path))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, WorkspaceError):
        return None  # a folder, another encoding, too large, outside: the tool reports it
