"""Ask the user about calls, with a diff of what they would change, and read the answers."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict

from deep_subagents import decide
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.workspaces import Workspace, WorkspaceBackend, WorkspaceError

__all__ = ["Approval", "Question", "Stale", "Verdict", "answers", "approval_of"]

DIFF_CHARS = 200_000
"""Maximum characters of both versions; above it the page shows the arguments."""
EQUAL_PAIRS = 500_000
"""Maximum pairs of equal lines in both versions, which `difflib` compares one by one: half a second."""


class Verdict(TypedDict, total=False):
    """The user's decision about one call, or the answer to a question of the model."""

    approve: bool
    reason: str
    answer: str


class Choice(TypedDict):
    """What the model asks the user; any other words are an answer too."""

    text: str
    options: list[str]


class Question(TypedDict):
    """One call that waits, with all that the user needs to decide.

    `path` names it: the call's id; for a subagent's, the ids of the calls above it and its own, with slashes.
    `pictured` are the arguments that the diff shows completely: the page shows every other one as well.
    `subagent` is the type of the subagent that makes it, or None for the agent itself. `choice`: a question.
    """

    path: str
    tool: str
    args: Mapping[str, Any]
    reason: str
    diff: str | None
    pictured: list[str]
    subagent: str | None
    choice: Choice | None


class Approval(TypedDict):
    """All calls that a run waits for. The run continues once every question is answered."""

    id: str
    questions: list[Question]


class Stale(ValueError):
    """The answer belongs to a question that is not open."""


async def approval_of(
    requests: DeferredToolRequests, backend: WorkspaceBackend | None, approval_id: str = ""
) -> Approval:
    """Build what the page asks about the calls that wait.

    Args:
        requests: the calls.
        backend: the files as they are now; None if they cannot be read, and there are no diffs.
        approval_id: names the question, so that an answer to an earlier one is not taken for its own.
    """
    questions = [*_questions(requests)]
    if backend is not None:
        for question in questions:
            question["diff"], question["pictured"] = await _picture(question["args"], Workspace(backend))
    return {"id": approval_id, "questions": questions}


def _questions(requests: DeferredToolRequests) -> Iterator[Question]:
    """Return the questions without their diffs."""
    for call in (*requests.approvals, *requests.calls):
        facts = {"args": call.args_as_dict()} | requests.metadata.get(call.tool_call_id, {})
        if call in requests.approvals or "question" in facts:
            yield from _below([facts | {"path": call.tool_call_id, "tool": call.tool_name}], None)


def _below(calls: Iterable[Mapping[str, Any]], subagent: str | None) -> Iterator[Question]:
    for call in calls:
        if "subagent" in call:  # a `task` call waits for calls below it: decide those
            yield from _below(call["calls"], call["subagent"])
        else:
            yield {
                "path": call["path"],
                "tool": call["tool"],
                "args": call["args"],
                "reason": call.get("reason", ""),
                "diff": None,
                "pictured": [],
                "subagent": subagent,
                "choice": call.get("question"),
            }


def answers(requests: DeferredToolRequests, verdicts: Mapping[str, Verdict]) -> DeferredToolResults:
    """Build the decisions on the calls that wait.

    Raises:
        Stale: a question is not answered, or an answer has no question.
    """
    asked = {question["path"]: question["choice"] is not None for question in _questions(requests)}
    if {path: "answer" in verdict for path, verdict in verdicts.items()} != asked:
        raise Stale("answer each call that is waiting, and only those")
    decisions = {path: _decision(verdict) for path, verdict in verdicts.items()}
    results = decide(requests, decisions)
    # External calls: no one executes them here, and the run must not wait for them.
    for call in requests.calls:
        results.calls.setdefault(call.tool_call_id, "Nobody here executes this tool.")
    return results


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
