"""Approvals: ask the user about calls, or answer without asking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from deep_core.plugin_api import EVERY_CALL, Reason, are_answered, call_ids, call_path, reasons_of, words_of

from ..differences import lines_of, unified_diff
from ..terminal.asking import NO_ANSWER, Choice, Said
from .plan import CARRY_OUT, message_after, plan_choice
from .report import DecidedBy, Decision
from .rules import Always, Rules, is_edit

if TYPE_CHECKING:
    from pydantic_ai import DeferredToolRequests, DeferredToolResults
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.workspaces import WorkspaceBackend

__all__ = ["Answer", "ApprovalMode", "Approver", "Ask", "Question", "Refusal", "picture", "questions"]

T = TypeVar("T")
ApprovalMode: TypeAlias = Literal["ask", "allow", "deny"]


@dataclass(frozen=True)
class Refusal:
    """A denial with its reason.

    Attributes:
        reason: the user's words; the model reads them.
    """

    reason: str


Answer: TypeAlias = "Literal['yes', 'no', 'always', 'edits', 'keep edits', 'closed'] | Always | Refusal | Said"
"""`always`: approve this tool for the rest of the task; `Always`: what a rule covers. `edits`: yes, and to every other
edit; `keep edits`: also in later chats of the folder. `closed`: the input ended. `Said`: the answer to a `choice`."""
FIELDS = frozenset({"id", "path", "tool", "plugin", "identity", "args", "reason", "reasons", "question"})
"""Metadata keys that a `Question` has as fields."""
DIFF_CHARS = 400_000
"""Maximum characters of both versions; above it the question shows the arguments instead of a diff."""
EQUAL_PAIRS = 500_000
"""Maximum pairs of equal lines in both versions, which `difflib` compares one by one: half a second."""


@dataclass(frozen=True)
class Question:
    """One call that waits for the user.

    Attributes:
        call_id: the call's path: its id, for a subagent's call after those of the calls above it (`call_path`).
        tool: the tool.
        plugin: the tool's plugin.
        args: the arguments that the call would use.
        reasons: why it asks, each with its class.
        about: other facts from the plugin.
        diff: the change as a unified diff, for a call that writes a file; None for other calls.
        pictured: names of arguments that the diff shows completely; the question shows every other one as well.
        child: the type of the subagent that makes the call, outermost first (`reviewer > explorer`); "" for the
            agent itself.
        choice: what the model asks the user, if the call is such a question; its answer is `Said`.
        identity: the tool as it is now: its source, description and schema. "" if nothing says it: no rule fits then.
    """

    call_id: str
    tool: str
    plugin: str
    args: Mapping[str, Any]
    reasons: tuple[Reason, ...] = ()
    about: Mapping[str, Any] | None = None
    diff: str | None = None
    pictured: frozenset[str] = frozenset()
    child: str = ""
    choice: Choice | None = None
    identity: str = ""

    @property
    def is_choice(self) -> bool:
        """Whether the model asks the user."""
        return self.choice is not None

    @property
    def reason(self) -> str:
        """All reasons, in words."""
        return words_of(self.reasons)


Ask: TypeAlias = Callable[[Question], Answer]


async def questions(requests: DeferredToolRequests, backend: WorkspaceBackend | None) -> list[Question]:
    """List the calls to decide, with diffs for calls that write files, and the questions of the model.

    A `task` call that waits for its subagent is not a question: each call of the subagent is one.

    Args:
        requests: the output of the run.
        backend: the session's backend, which reads the files as they are now.
    """
    out: list[Question] = []
    asked = [call for call in requests.calls if Choice.of(requests.metadata.get(call.tool_call_id, {}))]
    for call in (*requests.approvals, *asked):
        # If a hook changed the arguments, the kernel puts those that would run under `args`.
        waiting = {"args": _args(call), **requests.metadata.get(call.tool_call_id, {})}
        waiting.update(path=call_path(call.tool_call_id), tool=call.tool_name)
        for child, facts in _list_calls(waiting):
            about = {key: value for key, value in facts.items() if key not in FIELDS}
            diff, pictured = await picture(facts["args"], backend)
            out.append(
                Question(
                    call_id=facts["path"],
                    tool=facts["tool"],
                    plugin=str(facts.get("plugin", "app")),
                    args=facts["args"],
                    reasons=reasons_of(facts),
                    about=about or None,
                    diff=diff,
                    pictured=pictured,
                    child=child,
                    choice=Choice.of(facts),
                    identity=str(facts.get("identity", "")),
                )
            )
    return out


def _list_calls(call: Mapping[str, Any], child: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """List the calls that need a decision, each with its subagents (`deep_subagents.decide` has the format)."""
    if "subagent" not in call:
        yield child, call
        return
    below = f"{child} > {call['subagent']}" if child else str(call["subagent"])
    for waiting in call["calls"]:
        yield from _list_calls(waiting, below)


def _args(call: ToolCallPart) -> Mapping[str, Any]:
    return call.args_as_dict()


async def picture(args: Mapping[str, Any], backend: WorkspaceBackend | None) -> tuple[str | None, frozenset[str]]:
    """Compute what a call would change from the shape of its arguments, for any plugin's file tool.

    Returns:
        The diff, and the arguments that it shows completely: another tool may use a `host` or a `command` besides.
    """
    nothing = (None, frozenset[str]())
    target = "path" if "path" in args else "file_path"
    path = args.get(target)
    content, old, new = args.get("content"), args.get("old_string"), args.get("new_string")
    writes, edits = isinstance(content, str), isinstance(old, str) and isinstance(new, str)
    if not isinstance(path, str) or not (writes or edits) or backend is None:
        return nothing
    before = await _read(path, backend)
    if before is None or len(before) + len(content if isinstance(content, str) else "") > DIFF_CHARS:
        return nothing
    before = _normalize(before)
    if isinstance(content, str):
        after = _normalize(content)
        used = {"content"}
    else:
        old, new = _normalize(cast("str", old)), _normalize(cast("str", new))
        count = before.count(old) if old else 0
        if not count or (count > 1 and not args.get("replace_all")):
            return nothing  # the edit would fail: its arguments say more than a diff
        if len(before) + count * len(new) > DIFF_CHARS:
            return nothing
        after = before.replace(old, new)
        used = {"old_string", "new_string", "replace_all"}
    now, then = lines_of(before), lines_of(after)
    if _equal_pairs(now, then) > EQUAL_PAIRS:
        return nothing
    lines = unified_diff(path, before, after, "now", "after")
    # An argument that was normalized is not in the picture as it is: a byte order mark, CRLF, a text for a switch.
    exact = {key for key in used if (isinstance(args.get(key), bool) if key == "replace_all" else _is_exact(args[key]))}
    diff = "".join(f"{line}\n" for line in lines)
    return diff, frozenset({target, *exact}) if diff else frozenset()


def _equal_pairs(before: Sequence[str], after: Sequence[str]) -> int:
    """Count the pairs of equal lines that `difflib` compares: it leaves out lines that are frequent in a long text."""
    now, then = Counter(before), Counter(after)
    most = len(after) // 100 + 1 if len(after) >= 200 else len(after)
    return sum(count * then[line] for line, count in now.items() if then[line] <= most)


def _is_exact(value: object) -> bool:
    return isinstance(value, str) and value == _normalize(value)


def _normalize(text: str) -> str:
    """Normalize line endings and byte order mark, as file tools do to compare."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


async def _read(path: str, backend: WorkspaceBackend) -> str | None:
    """Read the file as text: "" if it does not exist, None if it cannot be shown."""
    from pydantic_ai.workspaces import Workspace, WorkspaceError

    workspace = backend if isinstance(backend, Workspace) else Workspace(backend)
    try:
        return await workspace.read_text(path)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, WorkspaceError):
        return None  # a folder, another encoding, too large, outside: the tool reports it


class Approver:
    """Decide the calls of one task that wait.

    Args:
        mode: `ask` the user, `allow` all or `deny` all.
        ask: asks the user; None denies.
        tell: receives every decision.
        rules: answers before a person does; None for none.
    """

    def __init__(
        self,
        mode: ApprovalMode,
        ask: Ask | None,
        tell: Callable[[Decision], None],
        rules: Rules | None = None,
    ) -> None:
        self.accepts_edits = rules is not None and rules.accepts_edits
        """Whether changes to a file are approved without a question."""
        self._rules = rules
        self._mode: ApprovalMode = mode
        self._ask = ask
        self._tell = tell
        self._always: set[str] = set()
        self.decisions: list[Decision] = []

    def decide(self, requests: DeferredToolRequests, waiting: list[Question]) -> DeferredToolResults:
        """Answer every call that waits. Other external calls get an error: no one here executes them.

        Args:
            requests: the output of the run.
            waiting: `questions(requests, …)`.
        """
        return self._answer(self.deciding(requests, waiting))

    def _answer(self, steps: Generator[Question, Answer, T]) -> T:
        try:
            question = next(steps)
            while True:
                question = steps.send("closed" if self._ask is None else self._ask(question))
        except StopIteration as end:
            return end.value

    def deciding(
        self, requests: DeferredToolRequests, waiting: list[Question]
    ) -> Generator[Question, Answer, DeferredToolResults]:
        """Yield each question that a person must answer, take the answer, and return what `decide` returns."""
        from pydantic_ai import ToolDenied

        own: dict[str, Any] = {}
        below: dict[str, Any] = {}
        calls: dict[str, Any] = {}
        for question in waiting:
            if question.choice is not None:
                answer = yield question
                said = answer.text if isinstance(answer, Said) else NO_ANSWER
                if question.child:
                    below[question.call_id] = said
                else:
                    calls[call_ids(question.call_id)[-1]] = said
                continue
            approved, by, reason = yield from self._decide(question)
            call_id = call_ids(question.call_id)[-1]
            self._record(Decision(question.tool, question.plugin, question.args, approved, by, call_id))
            decision = True if approved else ToolDenied(_denial_message(by, reason))
            if question.child:
                below[question.call_id] = decision
            else:
                own[call_id] = decision
        for call in requests.calls:
            if call.tool_call_id in calls:
                continue
            self._record(Decision(call.tool_name, "app", _args(call), False, "unanswered"))
            calls[call.tool_call_id] = "Not executed: no client executes this tool. Continue without it."
        results = requests.build_results(approvals=own, calls=calls)
        if below:
            from deep_subagents import decide  # installed, since only its calls have a `child`

            results.update(decide(requests, below))
        return results

    def decide_plan(self, plan: str, slots: Mapping[str, Any]) -> str | None:
        """Decide whether to carry out a plan (arguments of `plan_choice`), which is a decision on the call `plan`.

        Returns:
            The next message of the user: `CARRY_OUT`, or words on the plan; None if it is not approved.
        """
        return self._answer(self.deciding_plan(plan, slots))

    def deciding_plan(self, plan: str, slots: Mapping[str, Any]) -> Generator[Question, Answer, str | None]:
        """Yield the question about a plan if a person must answer it, and return what `decide_plan` returns."""
        if self._mode != "ask":
            by, message = self._mode, CARRY_OUT if self._mode == "allow" else None
        else:
            answer = yield Question("plan", "plan", "cli", {}, choice=plan_choice(plan, slots))
            by: DecidedBy = "unanswered" if answer == "closed" else "you"
            message = message_after(answer if isinstance(answer, Said) else None)
        if message in (None, CARRY_OUT):
            self._record(Decision("plan", "cli", {}, message is not None, by))
        return message

    def forget(self) -> None:
        """Forget the tools that the user always approved."""
        self._always.clear()
        if self._rules is not None:
            self._rules.forget()

    def _record(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self._tell(decision)

    def _decide(self, question: Question) -> Generator[Question, Answer, tuple[bool, DecidedBy, str]]:
        if self._mode != "ask":
            by: DecidedBy = self._mode
            return by == "allow", by, ""
        if question.identity in self._always and are_answered(question.reasons, EVERY_CALL):
            return True, "always", ""
        if self.accepts_edits and is_edit(question):
            return True, "mode", ""
        if self._rules is not None and self._rules.covering(question) is not None:
            return True, "always", ""
        answer = yield question
        if isinstance(answer, Always) and self._rules is not None:
            self._rules.add(answer)
            return True, "you", ""
        if answer in ("edits", "keep edits"):
            self.accepts_edits = True
            if answer == "keep edits" and self._rules is not None:
                self._rules.keep_edits(True)
            return True, "you", ""
        if answer == "always" and question.identity:
            self._always.add(question.identity)
        by = "unanswered" if answer == "closed" else "you"
        return answer in ("yes", "always"), by, answer.reason if isinstance(answer, Refusal) else ""


def _denial_message(by: DecidedBy, reason: str) -> str:
    """Tell the model why the call was denied, so that it does not try again."""
    if reason:
        return f"The user refused this call: {reason}"
    if by == "you":
        return "The user refused this call. Do not repeat it; continue without it, or say what you need."
    return (
        "This call needs an approval, and no user is here. Do not repeat it; continue without it, or say what remains."
    )
