"""Approvals: what a person is asked about a call, and what is answered without one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from .report import DecidedBy, Decision

if TYPE_CHECKING:
    from pydantic_ai import DeferredToolRequests, DeferredToolResults
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.workspaces import WorkspaceBackend

__all__ = ["Answer", "ApprovalMode", "Approver", "Ask", "Question", "questions"]

ApprovalMode: TypeAlias = Literal["ask", "allow", "deny"]
Answer: TypeAlias = Literal["yes", "no", "always", "closed"]
"""`always`: this tool, for the rest of the task. `closed`: the input ended, nobody answers any more."""
DIFF_CHARS = 400_000
"""Characters of both versions: comparing more keeps a person waiting, so the arguments are shown as they are."""


@dataclass(frozen=True)
class Question:
    """One call that waits for a person.

    Attributes:
        call_id: the call's id.
        tool: the tool.
        plugin: whose tool it is.
        args: the arguments that would be used.
        reason: why it asks, "" where the tool always does.
        about: what else the plugin says of the call: which subagent makes it, for one.
        diff: for a call that writes a file: what would change, as a unified diff; None for any other.
    """

    call_id: str
    tool: str
    plugin: str
    args: Mapping[str, Any]
    reason: str = ""
    about: Mapping[str, Any] | None = None
    diff: str | None = None


Ask: TypeAlias = Callable[[Question], Answer]


async def questions(requests: DeferredToolRequests, backend: WorkspaceBackend | None) -> list[Question]:
    """What there is to decide, with the diff of calls that write files.

    Args:
        requests: what a run ended with.
        backend: the session's, to read the files as they are now.
    """
    out: list[Question] = []
    for call in requests.approvals:
        about = dict(requests.metadata.get(call.tool_call_id, {}))
        # Where something changed the arguments after the model wrote them, the kernel says what would run.
        args = cast("Mapping[str, Any]", about.pop("args", None) or _args(call))
        out.append(
            Question(
                call_id=call.tool_call_id,
                tool=call.tool_name,
                plugin=str(about.pop("plugin", "app")),
                args=args,
                reason=str(about.pop("reason", "")),
                about=about or None,
                diff=await _diff(args, backend),
            )
        )
    return out


def _args(call: ToolCallPart) -> Mapping[str, Any]:
    return call.args_as_dict()


async def _diff(args: Mapping[str, Any], backend: WorkspaceBackend | None) -> str | None:
    """What a call would change, told by the shape of its arguments, so that any plugin's file tool has it."""
    path = args.get("path", args.get("file_path"))
    content, old, new = args.get("content"), args.get("old_string"), args.get("new_string")
    writes, edits = isinstance(content, str), isinstance(old, str) and isinstance(new, str)
    if not isinstance(path, str) or not (writes or edits) or backend is None:
        return None
    before = await _read(path, backend)
    if before is None or len(before) + len(content if isinstance(content, str) else "") > DIFF_CHARS:
        return None
    if isinstance(content, str):
        after = content
    else:
        old, new = cast("str", old), cast("str", new)
        if not old or old not in before:
            return None  # the edit cannot work as it is written: the arguments say more than an empty diff
        after = before.replace(old, new, -1 if args.get("replace_all") else 1)
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"{path} (now)", f"{path} (after)"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines)


async def _read(path: str, backend: WorkspaceBackend) -> str | None:
    """The file as text, "" where there is none yet, None where it cannot be shown as text."""
    from pydantic_ai.workspaces import Workspace, WorkspaceError

    workspace = backend if isinstance(backend, Workspace) else Workspace(backend)
    try:
        return await workspace.read_text(path)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, WorkspaceError):
        return None  # a folder, another encoding, too large, outside: the tool itself will say so


class Approver:
    """Decides the calls that wait, in one task.

    Args:
        mode: `ask` a person, `allow` or `deny` all.
        ask: asks the person; None where there is nobody to ask, which denies.
        tell: hears every decision.
    """

    def __init__(self, mode: ApprovalMode, ask: Ask | None, tell: Callable[[Decision], None]) -> None:
        self._mode: ApprovalMode = mode
        self._ask = ask
        self._tell = tell
        self._always: set[tuple[str, str]] = set()
        self.decisions: list[Decision] = []

    def decide(self, requests: DeferredToolRequests, asked: list[Question]) -> DeferredToolResults:
        """The answers to all that waits. A call that is to be executed elsewhere is told that nobody does.

        Args:
            requests: what the run ended with.
            asked: `questions(requests, …)`.
        """
        from pydantic_ai import ToolDenied

        approvals: dict[str, Any] = {}
        for question in asked:
            approved, by = self._decide(question)
            self._record(Decision(question.tool, question.plugin, question.args, approved, by))
            approvals[question.call_id] = True if approved else ToolDenied(_told(by))
        calls: dict[str, Any] = {}
        for call in requests.calls:
            self._record(Decision(call.tool_name, "app", _args(call), False, "nobody"))
            calls[call.tool_call_id] = "Not executed: nobody here executes this tool. Go on without it."
        return requests.build_results(approvals=approvals, calls=calls)

    def _record(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self._tell(decision)

    def _decide(self, question: Question) -> tuple[bool, DecidedBy]:
        if self._mode != "ask":
            by: DecidedBy = self._mode
            return by == "allow", by
        key = (question.plugin, question.tool)
        if key in self._always:
            return True, "always"
        answer = self._ask(question) if self._ask is not None else "closed"
        if answer == "always":
            self._always.add(key)
        by = "nobody" if answer == "closed" else "you"
        return answer in ("yes", "always"), by


def _told(by: DecidedBy) -> str:
    """What the model reads of a refusal: enough not to try the same again."""
    if by == "you":
        return "The user refused this call. Do not repeat it; go on without it, or say what you would need."
    return (
        "This call needs an approval that nobody gives here. Do not repeat it; go on without it, or say what is left."
    )
