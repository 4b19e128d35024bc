"""What came of one task: the value that `run_task` returns and that `--output json` prints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .changes import FileChange
from .screen import redact

__all__ = ["DecidedBy", "Decision", "PromptCost", "Report", "RunReport", "Status", "Step"]

Status = Literal["done", "failed", "refused"]
DecidedBy = Literal["you", "always", "allow", "deny", "nobody"]
EXIT_CODES: Mapping[Status, int] = {"done": 0, "failed": 1, "refused": 3}
"""Contract, section 10."""


@dataclass(frozen=True)
class Step:
    """One tool call that ran.

    Attributes:
        tool: the tool, by the name the model calls it.
        plugin: whose tool it is; `app` for none of a plugin.
        args: the validated arguments.
        outcome: `success`, `failed` (the model got an error to read) or `retried` (it was asked to try again).
        milliseconds: how long it took.
        error: what went wrong, None on success.
        depth: 0 in the agent, 1 in a subagent, and so on.
    """

    tool: str
    plugin: str
    args: Mapping[str, Any]
    outcome: Literal["success", "failed", "retried"]
    milliseconds: float
    error: str | None = None
    depth: int = 0

    def to_json(self) -> dict[str, Any]:
        """The step in `--output json`; the arguments are left out, they may be whole files."""
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
    """What was decided about a call that needed approval.

    Attributes:
        tool: the tool.
        plugin: whose tool it is.
        args: the arguments that were asked about.
        approved: whether it ran.
        by: `you`; `always` (your earlier answer for this tool); `allow` or `deny` (`--approve` said so); `nobody`
            (there was nobody to ask).
        call_id: the call's own id, "" where it is not told.
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
class PromptCost:
    """What prompt and tools cost in every request, as `Kernel.explain` estimates it.

    Attributes:
        tokens: all of it.
        by_plugin: each plugin's part; rounded up one by one, so they may add up to a little more.
    """

    tokens: int
    by_plugin: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Report(ABC):
    """What came of what the agent did, as a command ends with it.

    Attributes:
        status: `done`, `failed` or `refused`.
        error: what went wrong, in one line; None otherwise.
        decisions: the approvals, in order.
        exception: the exception behind `error`.
    """

    status: Status
    error: str | None
    decisions: tuple[Decision, ...]
    exception: BaseException | None = field(default=None, repr=False, compare=False)

    @property
    def exit_code(self) -> int:
        """0 done, 1 failed, 3 an approval was refused or could not be asked."""
        return EXIT_CODES[self.status]

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """What `--output json` prints (documented in the README of deep-cli)."""


@dataclass(frozen=True, kw_only=True)
class RunReport(Report):
    """What came of one task.

    Attributes:
        status: `done`; `failed` (the run ended with an error); `refused` (it ended, and an approval was refused or
            could not be asked).
        output: the model's last answer, "" where the run failed.
        error: one line that says what went wrong and what to type, None unless the run failed.
        exception: the exception behind `error`.
        model: the model's id.
        backend: the backend's name, or its type where an instance was given.
        requests: requests that a model answered, subagents' included.
        input_tokens: as the provider counted them, over all requests.
        output_tokens: the same.
        steps: the tool calls that ran, in the order in which they ended.
        decisions: the approvals, in order.
        files: what changed.
        files_by: how `files` was found: `folder` (the folder before and after was compared: names, sizes and times)
            or `tools` (paths that tools wrote, where the folder is not on this machine or too large to compare).
        prompt: what prompt and tools cost in every request; None where the run failed.
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

    def to_json(self) -> dict[str, Any]:
        """What `deep run --output json` prints (documented in the README of deep-cli)."""
        return {
            "schema": 1,
            "status": self.status,
            "exit_code": self.exit_code,
            "output": self.output,
            "error": self.error,
            "model": self.model,
            "backend": self.backend,
            "requests": self.requests,
            "tokens": {"input": self.input_tokens, "output": self.output_tokens},
            "prompt": None
            if self.prompt is None
            else {"tokens": self.prompt.tokens, "by_plugin": dict(self.prompt.by_plugin)},
            "steps": [step.to_json() for step in self.steps],
            "approvals": [decision.to_json() for decision in self.decisions],
            "files": [{"path": change.path, "change": change.change} for change in self.files],
            "files_by": self.files_by,
        }
