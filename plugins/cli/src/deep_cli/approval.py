"""Approvals: what a person is asked about a call, and what is answered without one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from .report import DecidedBy, Decision

if TYPE_CHECKING:
    from pydantic_ai import DeferredToolRequests, DeferredToolResults
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.workspaces import WorkspaceBackend

__all__ = ["Answer", "ApprovalMode", "Approver", "Ask", "Question", "Refusal", "questions"]

ApprovalMode: TypeAlias = Literal["ask", "allow", "deny"]


@dataclass(frozen=True)
class Refusal:
    """No, and why.

    Attributes:
        reason: in the person's words; the model is told.
    """

    reason: str


Answer: TypeAlias = "Literal['yes', 'no', 'always', 'closed'] | Refusal"
"""`always`: this tool, for the rest of the task. `closed`: the input ended, nobody answers any more."""
KNOWN = frozenset({"id", "path", "tool", "plugin", "args", "reason"})
"""What metadata says of a call that a `Question` has in a field of its own."""
DIFF_CHARS = 400_000
"""Characters of both versions: comparing more keeps a person waiting, so the arguments are shown as they are."""


@dataclass(frozen=True)
class Question:
    """One call that waits for a person.

    Attributes:
        call_id: the call's id; of a subagent's call its path: the `task` call's id, a slash, and its own.
        tool: the tool.
        plugin: whose tool it is.
        args: the arguments that would be used.
        reason: why it asks, "" where the tool always does.
        about: what else the plugin says of the call.
        diff: for a call that writes a file: what would change, as a unified diff; None for any other.
        child: the subagent that makes the call, by its type, the outermost first (`reviewer > explorer`); "" for the
            agent itself.
    """

    call_id: str
    tool: str
    plugin: str
    args: Mapping[str, Any]
    reason: str = ""
    about: Mapping[str, Any] | None = None
    diff: str | None = None
    child: str = ""


Ask: TypeAlias = Callable[[Question], Answer]


async def questions(requests: DeferredToolRequests, backend: WorkspaceBackend | None) -> list[Question]:
    """What there is to decide, with the diff of calls that write files.

    A `task` call that waits because its subagent asks is not itself a question: each call of the subagent is one.

    Args:
        requests: what a run ended with.
        backend: the session's, to read the files as they are now.
    """
    out: list[Question] = []
    for call in requests.approvals:
        # Where something changed the arguments after the model wrote them, the kernel says under `args` what would run.
        waiting = {"args": _args(call), **requests.metadata.get(call.tool_call_id, {})}
        waiting.update(path=call.tool_call_id, tool=call.tool_name)
        for child, asked in _asked(waiting):
            about = {key: value for key, value in asked.items() if key not in KNOWN}
            out.append(
                Question(
                    call_id=asked["path"],
                    tool=asked["tool"],
                    plugin=str(asked.get("plugin", "app")),
                    args=asked["args"],
                    reason=str(asked.get("reason", "")),
                    about=about or None,
                    diff=await _diff(asked["args"], backend),
                    child=child,
                )
            )
    return out


def _asked(call: Mapping[str, Any], child: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The calls that somebody has to decide on, each with whose it is (`deep_subagents.decide` has the format)."""
    if "subagent" not in call:
        yield child, call
        return
    below = f"{child} > {call['subagent']}" if child else str(call["subagent"])
    for waiting in call["calls"]:
        yield from _asked(waiting, below)


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
    before = _folded(before)
    if isinstance(content, str):
        after = _folded(content)
    else:
        old, new = _folded(cast("str", old)), _folded(cast("str", new))
        found = before.count(old) if old else 0
        if not found or (found > 1 and not args.get("replace_all")):
            return None  # the edit cannot work as it is written: the arguments say more than a diff
        after = before.replace(old, new)
    lines = difflib.unified_diff(_lines(before), _lines(after), f"{path} (now)", f"{path} (after)")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines)


def _folded(text: str) -> str:
    """The text as file tools compare it: they keep a file's line endings and its mark, whatever the model writes."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _lines(text: str) -> list[str]:
    """Its lines, each with its end. `splitlines` would end one at a form feed too."""
    return re.findall(r".*\n|.+", text)


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

        own: dict[str, Any] = {}
        below: dict[str, Any] = {}
        for question in asked:
            approved, by, reason = self._decide(question)
            call_id = question.call_id.rpartition("/")[2]
            self._record(Decision(question.tool, question.plugin, question.args, approved, by, call_id))
            decisions = below if question.child else own
            decisions[question.call_id] = True if approved else ToolDenied(_told(by, reason))
        calls: dict[str, Any] = {}
        for call in requests.calls:
            self._record(Decision(call.tool_name, "app", _args(call), False, "nobody"))
            calls[call.tool_call_id] = "Not executed: nobody here executes this tool. Go on without it."
        results = requests.build_results(approvals=own, calls=calls)
        if below:
            from deep_subagents import decide  # only its calls have a `child`, so it is there

            results.update(decide(requests, below))
        return results

    def forget(self) -> None:
        """Ask again about tools that were always to be approved."""
        self._always.clear()

    def _record(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self._tell(decision)

    def _decide(self, question: Question) -> tuple[bool, DecidedBy, str]:
        if self._mode != "ask":
            by: DecidedBy = self._mode
            return by == "allow", by, ""
        key = (question.plugin, question.tool)
        if key in self._always:
            return True, "always", ""
        answer = self._ask(question) if self._ask is not None else "closed"
        if answer == "always":
            self._always.add(key)
        by = "nobody" if answer == "closed" else "you"
        return answer in ("yes", "always"), by, answer.reason if isinstance(answer, Refusal) else ""


def _told(by: DecidedBy, reason: str) -> str:
    """What the model reads of a refusal: enough not to try the same again."""
    if reason:
        return f"The user refused this call and says: {reason}"
    if by == "you":
        return "The user refused this call. Do not repeat it; go on without it, or say what you would need."
    return (
        "This call needs an approval that nobody gives here. Do not repeat it; go on without it, or say what is left."
    )
