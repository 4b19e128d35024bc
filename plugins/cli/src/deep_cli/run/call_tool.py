"""`deep call`: call one tool of the assembled agent, with a script in place of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_core import Kernel, tool_facts
from deep_core.plugin_api import suggest

from ..errors import explain_error
from ..failure import USAGE, Failure
from ..options import cli_options
from ..terminal.screen import redact
from ..terminal.waiting import waking
from .agent import make_agent
from .approval import ApprovalMode, Approver, Ask
from .call_arguments import parse_json, parse_pairs
from .progress import CliProgress
from .report import Report
from .reporter import Reporter
from .runner import converse

if TYPE_CHECKING:
    from pydantic_ai import ToolDefinition
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import DeepAgentDeps

__all__ = ["CallReport", "call_tool"]

CALL_ID = "deep-call"


@dataclass(frozen=True, kw_only=True)
class CallReport(Report):
    """The result of one call.

    Attributes:
        status: `done`; `failed` (the model got an error, or the run ended with one); `refused` (by policy or by the
            user, or unanswered).
        tool: the tool.
        plugin: the tool's plugin; `app` for a tool of no plugin.
        args: the arguments of the call.
        result: the text that the model gets; "" if the run ended with an error.
        error: the error that ended the run, in one line; None otherwise.
        milliseconds: how long the tool took; 0 if it did not run.
        decisions: the approvals, in order.
        exception: the exception behind `error`.
    """

    tool: str
    plugin: str
    args: Mapping[str, Any]
    result: str
    milliseconds: float

    def to_json(self) -> dict[str, Any]:
        """The JSON of `deep call --output json` (documented in the README of deep-cli)."""
        return {
            "schema": 1,
            "status": self.status,
            "exit_code": self.exit_code,
            "tool": self.tool,
            "plugin": self.plugin,
            "args": dict(self.args),
            "result": self.result,
            "error": self.error,
            "ms": round(self.milliseconds, 1),
            "approvals": [decision.to_json() for decision in self.decisions],
        }


def call_tool(
    tool: str,
    pairs: Sequence[str] = (),
    *,
    whole: str | None = None,
    backend: str | WorkspaceBackend | None = None,
    approve: ApprovalMode | None = None,
    ask: Ask | None = None,
    plugins: Sequence[object] = (),
    config: Path | None = None,
    reporter: Reporter | None = None,
) -> CallReport:
    """Call one tool of the agent of all installed plugins, and return what a model would get.

    Policy, approvals, containment, history processors and events apply as in a run. Blocks until the call is done; must
    not run inside an event loop.

    Args:
        tool: the name the model uses.
        pairs: the arguments as `key=value`.
        whole: all arguments as one JSON object, instead of `pairs`.
        backend: a name or an instance; None reads the configuration, then takes `local`.
        approve: `ask` about, `allow` or `deny` calls that need approval; None reads `[plugins.cli] options`.
        ask: asks the user, for `ask`; without it such calls are denied.
        plugins: modules or objects with hook implementations, in addition to the installed plugins.
        config: a configuration file; it is trusted.
        reporter: receives progress.

    Raises:
        Failure: the agent has no such tool, or the arguments are wrong.
        ConfigError: a configuration key or value is wrong.
        PluginError: a required plugin failed, two plugins clash, or no plugin provides the backend.
    """
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import UsageLimits

    from deep_core import create_default_deps

    listener = reporter or Reporter()
    progress = CliProgress(listener)
    with Kernel(plugins=[progress, *plugins], config=config) as kernel:
        script = _OneCall(tool, pairs, whole)
        agent = make_agent(kernel, FunctionModel(script.answer, model_name="deep-call"), backend).agent
        approver = Approver(approve or cli_options(kernel.config).approve, ask, listener.decided)
        deps: DeepAgentDeps[Any] = create_default_deps(kernel=kernel)
        failure: Exception | None = None
        with asyncio.Runner() as loop, waking(loop.get_loop()):
            try:
                converse(loop, agent, f"deep call {tool}", deps, approver, UsageLimits(request_limit=None))
            except Exception as error:  # noqa: BLE001 - the report holds the error that ended the run
                failure = error
        if script.problem is not None:
            raise script.problem from None
        if not script.plugin and failure is not None:
            raise failure  # the run ended before it called the tool
        refused = any(event.call_id == CALL_ID for event in progress.denied)
        refused |= any(not decision.approved for decision in approver.decisions)
        failed = failure is not None or script.outcome in ("failed", "retried")
        return CallReport(
            status="refused" if refused else "failed" if failed else "done",
            tool=tool,
            plugin=script.plugin,
            args=script.args,
            result=script.result,
            error=None if failure is None else _reason(failure),
            milliseconds=sum((step.milliseconds for step in progress.steps if step.tool == tool), 0.0),
            decisions=tuple(approver.decisions),
            exception=failure,
        )


def _reason(failure: Exception) -> str:
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    # With retries=0, a tool that asks for a retry ends the run.
    return redact(str(failure)) if isinstance(failure, UnexpectedModelBehavior) else explain_error(failure).message


class _OneCall:
    """The script: call the tool, read its result, end. Search first for a tool that is offered on demand.

    Attributes:
        plugin: the tool's plugin; "" before the call.
        args: the arguments of the call.
        outcome: as Pydantic AI names it: `success`, `failed`, `retried`, `denied`; "" before the result.
        result: the text that the model gets.
        problem: why there was no call.
    """

    def __init__(self, tool: str, pairs: Sequence[str], whole: str | None) -> None:
        self._tool = tool
        self._pairs = pairs
        self._whole = whole
        self._called = False
        self.plugin = ""
        self.args: Mapping[str, Any] = {}
        self.outcome = ""
        self.result = ""
        self.problem: Failure | None = None

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Answer a request of the agent."""
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart

        if not self.plugin:
            try:
                definition = self._find(info.model_request_parameters.function_tools)
                self.args = (
                    parse_pairs(self._tool, self._pairs, definition.parameters_json_schema)
                    if self._whole is None
                    else parse_json(self._whole)
                )
            except Failure as problem:
                self.problem = problem
                raise
            self.plugin = tool_facts(definition).plugin
            if definition.defer_loading:  # search for the tool first, as a model does
                return ModelResponse([ToolCallPart("search_tools", {"queries": [self._tool]}, f"{CALL_ID}-search")])
        if not self._called:
            self._called = True
            return ModelResponse([ToolCallPart(self._tool, dict(self.args), CALL_ID)])
        parts = [part for message in messages for part in message.parts]
        answers = [p for p in parts if isinstance(p, ToolReturnPart) and p.tool_call_id == CALL_ID]
        if not answers:
            # The tool made another agent with the same model.
            raise RuntimeError(f"{self._tool} calls a model, and deep call has none: try it with deep run")
        self._read(answers[-1])
        return ModelResponse([TextPart("done")])

    def _find(self, tools: Sequence[ToolDefinition]) -> ToolDefinition:
        by_name = {tool.name: tool for tool in tools}
        if self._tool in by_name:
            return by_name[self._tool]
        if not by_name:
            raise Failure("the agent has no tool; `deep plugins list` says why", USAGE)
        raise Failure(
            f"the agent has no tool {self._tool!r}.{suggest(self._tool, by_name)} `deep explain` lists its tools", USAGE
        )

    def _read(self, part: ToolReturnPart[Any]) -> None:
        lines = [part.model_response_str(wrap_if_error=False)]
        lines += [f"[{file.media_type}: {file.identifier}]" for file in part.files]
        self.outcome, self.result = part.outcome, "\n".join(line for line in lines if line)
