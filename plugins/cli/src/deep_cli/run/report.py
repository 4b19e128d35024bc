"""The result of one task, which `run_task` returns and `--output json` prints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ..failure import INTERRUPTED
from ..terminal.screen import redact
from .changes import FileChange

__all__ = ["DecidedBy", "Decision", "Denial", "PromptCost", "Report", "RunReport", "Status", "Step"]

Status = Literal["done", "truncated", "filtered", "waiting", "failed", "cancelled", "refused"]
DecidedBy = Literal["you", "always", "mode", "allow", "deny", "unanswered"]
EXIT_CODES: Mapping[Status, int] = {
    **dict.fromkeys(("truncated", "filtered", "failed"), 1),
    **dict.fromkeys(("waiting", "refused"), 3),
    "done": 0,
    "cancelled": INTERRUPTED,
}
"""The exit codes of `deep run` and `deep call`."""
NOT_WHOLE: Mapping[str, Status] = {"length": "truncated", "filtered": "filtered", "incomplete": "truncated"}
"""How a last answer that is not whole is reported, by how its request ended."""


@dataclass(frozen=True)
class Step:
    """One tool call that ran.

    Attributes:
        tool: the name that the model uses.
        plugin: the tool's plugin; `app` for a tool of no plugin.
        args: the validated arguments.
        outcome: `started`, `success`, `failed` (the model got an error), `retried` (the model was asked to retry) or
            `interrupted` (the user stopped it).
        milliseconds: how long it took.
        error: the error, None on success.
        depth: 0 in the agent, 1 in a subagent, and so on.
        call_id: the call's id.
        task: the descriptions of the tasks of the subagents that led to the call, outermost first.
        result: the text that the model gets, "" unless it succeeded.
        diff: what it changed in a file; None if it changed none, or more than a person reads.
    """

    tool: str
    plugin: str
    args: Mapping[str, Any]
    outcome: Literal["started", "success", "failed", "retried", "interrupted"]
    milliseconds: float
    error: str | None = None
    depth: int = 0
    call_id: str = ""
    task: tuple[str, ...] = ()
    result: str = ""
    diff: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The step in `--output json`, without the arguments, which may be whole files."""
        return {
            "tool": self.tool,
            "plugin": self.plugin,
            "outcome": self.outcome,
            "ms": round(self.milliseconds, 1),
            "error": None if self.error is None else redact(self.error),
            "depth": self.depth,
        }


@dataclass(frozen=True)
class Decision:
    """The decision about a call that needed approval.

    Attributes:
        tool: the tool.
        plugin: the tool's plugin.
        args: the arguments in the question.
        approved: whether it ran.
        by: `you`; `always` (your earlier answer); `mode` (accept-edits); `allow` or `deny` (from `--approve`);
            `unanswered` (no terminal to ask on).
        call_id: the call's id, "" if unknown.
    """

    tool: str
    plugin: str
    args: Mapping[str, Any]
    approved: bool
    by: DecidedBy
    call_id: str = ""

    def to_json(self) -> dict[str, Any]:
        """The decision in `--output json`."""
        return {"tool": self.tool, "plugin": self.plugin, "approved": self.approved, "by": self.by}


@dataclass(frozen=True)
class Denial:
    """A call that did not run, because the policy or the decision about it denied it.

    Attributes:
        tool: the tool.
        plugin: the tool's plugin, "" if unknown.
        by: `policy`, or as in `Decision`.
        reason: what the model reads.
        depth: 0 in the agent, 1 in a subagent, and so on.
    """

    tool: str
    plugin: str
    by: DecidedBy | Literal["policy"]
    reason: str
    depth: int

    def to_json(self) -> dict[str, Any]:
        """The denial in `--output json`."""
        return {**asdict(self), "reason": redact(self.reason)}


@dataclass(frozen=True)
class PromptCost:
    """The cost of prompt and tools in every request, as `Kernel.explain` estimates it.

    Attributes:
        tokens: the sum.
        by_plugin: each plugin's part of it.
    """

    tokens: int
    by_plugin: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Report(ABC):
    """The result of a command that ran the agent.

    Attributes:
        status: `done`, `failed` or `refused`.
        error: the error in one line; None otherwise.
        decisions: the approvals, in order.
        exception: the exception behind `error`.
    """

    status: Status
    error: str | None
    decisions: tuple[Decision, ...]
    exception: BaseException | None = field(default=None, repr=False, compare=False)

    @property
    def exit_code(self) -> int:
        """0 done, 1 failed, 3 an approval was denied or unanswered, 130 cancelled."""
        return EXIT_CODES[self.status]

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The JSON of `--output json` (documented in the README of deep-cli)."""


@dataclass(frozen=True, kw_only=True)
class RunReport(Report):
    """The result of one task.

    Attributes:
        status: `done`; `truncated` or `filtered` (the last answer is not whole); `waiting` (no one could answer
            an approval, so the call or the plan was not carried out); `refused` (an approval was denied); `failed` (the
            run ended with an error); `cancelled` (someone stopped it).
        output: the model's last answer, "" if the run failed.
        error: one line with the problem and what to type, None for `done`, `waiting` and `refused`.
        exception: the exception behind `error`.
        model: the model's id.
        backend: the backend's name, or the type of a given instance.
        requests: requests that a model answered, including subagents'.
        input_tokens: the provider's count over all requests.
        output_tokens: the same.
        steps: the tool calls that ran, in the order they ended.
        decisions: the approvals, in order.
        files: the changed files.
        files_by: how `files` was found: `folder` (names, sizes and times of the folder compared before and after)
            or `tools` (paths that tools wrote, if the folder is remote or too large to compare).
        prompt: the cost of prompt and tools in every request; None if the run failed, or nothing measured it.
        session: the stored session; None without one.
        denials: the calls that did not run, in order.
        finish_reason: how the last request ended, as `RunResult.finish_reason` says; None without one.
        retryable: whether a run that failed can succeed if it is tried again.
        retry_after: seconds after which the provider asks to try again; None if it does not say.
        code: the stable name of the error; "" without one.
    """

    output: str
    model: str
    backend: str
    requests: int
    input_tokens: int
    output_tokens: int
    steps: tuple[Step, ...]
    files: tuple[FileChange, ...]
    files_by: Literal["folder", "tools"]
    prompt: PromptCost | None
    session: str | None = None
    denials: tuple[Denial, ...] = ()
    finish_reason: str | None = None
    code: str = ""
    retryable: bool = False
    retry_after: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON of `deep run --output json` (documented in the README of deep-cli)."""
        return {
            "schema": 1,
            "status": self.status,
            "exit_code": self.exit_code,
            "finish_reason": self.finish_reason,
            "output": self.output,
            "error": self.error,
            "code": self.code or None,
            "retryable": self.retryable,
            "retry_after": self.retry_after,
            "model": self.model,
            "backend": self.backend,
            "requests": self.requests,
            "tokens": {"input": self.input_tokens, "output": self.output_tokens},
            "prompt": None
            if self.prompt is None
            else {"tokens": self.prompt.tokens, "by_plugin": dict(self.prompt.by_plugin)},
            "steps": [step.to_json() for step in self.steps],
            "approvals": [decision.to_json() for decision in self.decisions],
            "denials": [denial.to_json() for denial in self.denials],
            "files": [{"path": change.path, "change": change.change} for change in self.files],
            "files_by": self.files_by,
            "session": self.session,
        }
