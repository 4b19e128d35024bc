"""Run one task on the current folder and report it. `deep run` and `deep demo` add a screen to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deep_core import Kernel
from deep_core.plugin_api import visible

from ..errors import explain_error
from ..failure import Failure
from ..options import cli_options
from ..plugins.files import files_as_label, files_of
from ..terminal.screen import label, one_line
from ..terminal.waiting import waking
from .agent import AgentSetup, find_agent, make_agent, own_agent
from .approval import ApprovalMode, Approver, Ask, questions
from .attach import Message, with_files
from .changes import FileChange, Snapshot, compare, snapshot
from .names import AGENT, new_id
from .plan import CARRY_OUT, is_planned
from .progress import CliProgress
from .report import NOT_WHOLE, DecidedBy, Denial, PromptCost, RunReport, Status
from .reporter import Reporter
from .rules import Rules
from .stored import StoredSession

if TYPE_CHECKING:
    from pydantic_ai import Agent, AgentRunResult
    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model
    from pydantic_ai.usage import UsageLimits
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import DeepAgentDeps

__all__ = ["Interrupted", "converse", "run_task"]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a task.

    Args:
        report: what it did.
    """

    def __init__(self, report: RunReport) -> None:
        super().__init__()
        self.report = report


def run_task(
    task: str | None,
    *,
    model: str | Model | None = None,
    backend: str | WorkspaceBackend | None = None,
    files: Sequence[Path] = (),
    given: str = "",
    approve: ApprovalMode | None = None,
    ask: Ask | None = None,
    plugins: Sequence[object] = (),
    config: str | os.PathLike[str] | None = None,
    folder: Path | None = None,
    max_requests: int | None = None,
    reporter: Reporter | None = None,
    session: str | None = None,
    store: str | None = None,
    keep: bool = False,
    plan: bool = False,
    rules: Rules | None = None,
    choose: Callable[[], str] | None = None,
    agent: str | None = None,
    measure: bool = True,
) -> RunReport:
    """Let an agent of all installed plugins do one task, and report the result.

    Blocks until it is done; must not run inside an event loop. Errors during the run (of the provider, a limit) are in
    the report; errors before the first request are raised.

    Args:
        task: the task, in words; None continues the last run of `session`.
        model: a model, or its id; None reads the configuration.
        backend: a name or an instance; None reads the configuration, then takes `local`.
        files: UTF-8 text files and pictures to attach to the task.
        given: a text to attach to the task, such as what was piped to the command.
        approve: how to decide calls that need approval: `ask`, `allow` or `deny`; None reads
            `[plugins.cli] options` (`ask` by default).
        ask: asks the user, for `ask`; without it such calls are denied.
        plugins: modules or objects with hook implementations, in addition to the installed ones.
        config: a configuration file; it is trusted.
        folder: where to work; None means the current directory. The process changes to it during the task.
        max_requests: maximum requests; None reads `[plugins.cli] options` (200 by default).
        reporter: receives progress.
        session: the stored session to continue or begin; None stores nothing, unless `keep`.
        store: the URL of its store; None means the user's own.
        keep: store the conversation under a new id of this folder, which `deep chat --resume` takes too. If the store
            fails, the task runs all the same, and `reporter` gets a note.
        plan: plan first: only tools that read until `ask` (or `approve="allow"`) approves the plan, which is the
            output otherwise.
        rules: answer questions before `ask` does.
        choose: returns a model if none is named.
        agent: the name of an agent of your own, `module:attribute` or `file.py:attribute`; None for deep's.
        measure: whether the report says what prompt and tools cost, for which every plugin is asked once more.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: a required plugin failed, two plugins clash, or no plugin provides the backend.
        Failure: no model is named, or a file cannot be attached.
        Interrupted: Ctrl-C; it has the report.
        Exception: any error of the model's provider before the first request: no key, no package, no such model.
    """
    if task is None and session is None:
        raise TypeError("run_task(None) continues a stored session: name it with session=…")
    listener = reporter or Reporter()
    paths = [path.resolve() for path in files]
    with contextlib.chdir(folder or Path.cwd()):
        progress = CliProgress(listener)
        # One loop for all: a provider's client is tied to the loop that first used it.
        with Kernel(plugins=[progress, *plugins], config=config) as kernel, asyncio.Runner() as loop:
            options = cli_options(kernel.config)
            mode = approve or options.approve
            has_person = ask is not None and mode == "ask"
            is_stored = session is not None or keep
            if agent is not None:
                from .watch import WatchCapability

                own = loop.run(find_agent(agent, str(Path.cwd())))
                setup = own_agent(kernel, own, WatchCapability(progress, counts=True), model)
            else:
                setup = make_agent(
                    kernel,
                    model,
                    backend,
                    is_stored=is_stored,
                    has_person=has_person,
                    edits_ask=has_person,
                    choose=choose,
                )
            prompt = (
                None if task is None else with_files(task, paths, options.attach_chars, given, model=setup.agent.model)
            )
            approver = Approver(mode, ask, listener.decided, rules)
            keep = keep and session is None
            session = new_id(os.path.realpath(Path.cwd())) if keep else session
            job = _Job(kernel, setup, progress, listener, approver, session, store, keep=keep, plan=plan)
            job.measure = measure
            job.labels = {**files_as_label(files_of(plugins)), **({AGENT: agent} if agent else {})}
            listener.begin(task or f"continue {session}", job.model, job.backend, Path.cwd())
            report = job.run(prompt, max_requests or options.max_requests, loop)
            listener.end(report)
            return report


Found = tuple[tuple[FileChange, ...], Literal["folder", "tools"]]
"""The changed files, and how they were found, as `RunReport` has them."""


class _Job:
    """One task."""

    def __init__(
        self,
        kernel: Kernel,
        setup: AgentSetup,
        progress: CliProgress,
        reporter: Reporter,
        approver: Approver,
        session: str | None,
        store: str | None,
        *,
        keep: bool,
        plan: bool,
    ) -> None:
        self.session = session
        self.store = store
        self.keep = keep
        self.kernel = setup.kernel
        self.setup = setup
        self.agent = setup.agent
        self.modes = setup.modes
        self.plan: bool = plan
        self.finish_reason: str | None = None
        self.labels: Mapping[str, str] = {}
        """Kept with the run, besides model, backend and folder."""
        self.measure = True
        self.progress = progress
        self.reporter = reporter
        self.approver = approver
        self.model = setup.model
        self.backend = setup.backend

    def run(self, prompt: Message | None, max_requests: int, loop: asyncio.Runner) -> RunReport:
        from deep_sessions import as_agent_error, finish_reason
        from pydantic_ai.usage import UsageLimits

        from deep_core import create_default_deps

        folder = Path.cwd()
        before = snapshot(folder)
        deps: DeepAgentDeps[Any] = create_default_deps(kernel=self.kernel)
        output, failure = "", None
        root: str | None = str(folder)
        with waking(loop.get_loop()):
            try:
                limits = UsageLimits(request_limit=max_requests)
                stored = self._open(loop, limits)
                if stored is not None:
                    output = self._run_stored(stored, loop, prompt, deps)
                elif prompt is not None:
                    output = self._run_here(loop, prompt, deps, limits)
            except Failure:  # nothing began: the session is another folder's
                raise
            except Exception as error:  # noqa: BLE001 - the report holds the error that ended the run
                failure, self.finish_reason = error, finish_reason((), as_agent_error(error))
            except KeyboardInterrupt as stop:
                found = self._files(folder, before, root)
                self.reporter.interrupted(found[0], self.session)
                raise Interrupted(self._report("", "cancelled", "interrupted", None, found)) from stop
            if deps.backend is not None:
                root = loop.run(_working_dir(deps.backend))
        status, error = self._status(failure)
        return self._report(output, status, error, failure, self._files(folder, before, root))

    def _status(self, failure: Exception | None) -> tuple[Status, str | None]:
        """Return how it ended, and one line about that."""
        from deep_sessions import NOT_WHOLE as WORDS
        from deep_sessions import RunAborted, as_agent_error

        if failure is not None:
            aborted = isinstance(as_agent_error(failure), RunAborted)
            return "cancelled" if aborted else "failed", explain_error(failure, self.model).message
        reason = self.finish_reason or ""
        if (status := NOT_WHOLE.get(reason)) is not None:
            return status, f"the answer is not whole: {WORDS[reason]}{way_on(self.session)}"
        missing = {decision.by for decision in self.approver.decisions if not decision.approved}
        return ("waiting" if "unanswered" in missing else "refused" if missing else "done"), None

    def _report(
        self, output: str, status: Status, error: str | None, failure: Exception | None, found: Found
    ) -> RunReport:
        from deep_sessions import as_agent_error

        files, files_by = found
        known = None if failure is None else as_agent_error(failure)
        return RunReport(
            status=status,
            output=output,
            error=error,
            exception=failure,
            finish_reason=self.finish_reason,
            code="" if known is None else known.code,
            retryable=known is not None and known.retryable,
            retry_after=None if known is None else known.retry_after,
            model=self.model,
            backend=self.backend,
            requests=self.progress.spent.requests,
            input_tokens=self.progress.spent.input_tokens,
            output_tokens=self.progress.spent.output_tokens,
            steps=tuple(self.progress.steps),
            decisions=tuple(self.approver.decisions),
            files=files,
            files_by=files_by,
            prompt=None if status in ("failed", "cancelled") else self._prompt_cost(),
            session=self.session,
            denials=tuple(self._denials()),
        )

    def _denials(self) -> Iterator[Denial]:
        """Yield what policy denied, and what was denied when it asked."""
        denied = [decision for decision in self.approver.decisions if not decision.approved]
        by: dict[str, DecidedBy | Literal["policy"]] = {decision.call_id: decision.by for decision in denied}
        for event in self.progress.denied:
            yield Denial(event.tool, event.plugin, by.get(event.call_id, "policy"), event.reason, event.depth)

    def _open(self, loop: asyncio.Runner, limits: UsageLimits) -> StoredSession | None:
        """Open the session's store. One that nobody asked for may fail: the task runs without it."""
        if self.session is None:
            return None
        from deep_sessions import AgentError, SessionNotFound, default_store, folder_store, open_store

        folder = os.path.realpath(Path.cwd())
        store = loop.run(folder_store(open_store(self.store or default_store(), kernel=self.kernel), folder))
        if self.keep:
            try:
                with contextlib.suppress(SessionNotFound):
                    loop.run(store.info(self.session))
            except AgentError as error:
                self.reporter.note(f"this conversation is not stored: {one_line(error.message, None)}")
                self.session = None
                loop.run(store.aclose())
                return None
        stream = self.progress.stream if self.reporter.streams else None
        labels = {"model": self.model, "backend": self.backend, "folder": visible(folder)}
        labels |= self.labels
        how: dict[str, Any] = {"usage_limits": limits, "on_events": stream}
        return StoredSession(self.session, store, self.kernel, self.agent, loop, self.approver, how, labels, self.modes)

    def _run_here(self, loop: asyncio.Runner, prompt: Message, deps: DeepAgentDeps[Any], limits: UsageLimits) -> str:
        from deep_sessions import end_of_response

        how: dict[str, Any] = {"stream": self.progress.stream if self.reporter.streams else None}
        while self.plan:
            result = converse(loop, self.modes.planner, prompt, deps, self.approver, limits, **how)
            output, how["history"] = str(result.output), result.all_messages()
            message = self.approver.decide_plan(output, json.loads(deps.dump())["slots"])
            if message is None:
                return output
            prompt, self.plan = message, message != CARRY_OUT
        result = converse(loop, self.agent, prompt, deps, self.approver, limits, **how)
        self.finish_reason = end_of_response(result.response).kind
        return str(result.output)

    def _run_stored(
        self, stored: StoredSession, loop: asyncio.Runner, prompt: Message | None, deps: DeepAgentDeps[Any]
    ) -> str:
        try:
            loop.run(stored.take_up())
            # A session without a task continues in the mode of its last run.
            stored.plan = self.plan or (prompt is None and is_planned(stored.state()[0]))
            while stored.plan:
                output = stored.converse(prompt)
                prompt = self.approver.decide_plan(output, stored.state()[1])
                if prompt is None:
                    return output
                stored.plan = prompt != CARRY_OUT
            return stored.converse(prompt)
        finally:
            self.finish_reason = stored.finish_reason
            deps.backend = stored.backend
            loop.run(stored.close())

    def _files(self, folder: Path, before: Snapshot | None, root: str | None) -> Found:
        """List the changes: compare the folder if the tools worked in it, else read the calls."""
        here = root is not None and os.path.realpath(root) == os.path.realpath(folder)
        after = snapshot(folder) if before is not None and here else None
        if before is not None and after is not None:
            return compare(before, after), "folder"
        paths = {
            step.args["path"]: None
            for step in self.progress.steps
            if step.outcome == "success"
            and isinstance(step.args.get("path"), str)
            and ("content" in step.args or "new_string" in step.args)
        }
        return tuple(FileChange(path, "written") for path in paths), "tools"

    def _prompt_cost(self) -> PromptCost | None:
        if self.setup.own is not None or not self.measure:
            return None
        try:
            with self.progress.mute():
                explanation = self.kernel.explain(self.agent)
            return PromptCost(explanation.tokens, explanation.by_plugin())
        except Exception as error:  # noqa: BLE001 - the task is done, only its measurement failed
            self.reporter.note(f"the prompt could not be measured: {explain_error(error, self.model).message}")
            return None


def way_on(session: str | None) -> str:
    """Return the command that goes on from an answer that is not whole; "" without a stored session."""
    return f"; go on with: deep run --session {label(session)} continue" if session else ""


def converse(
    loop: asyncio.Runner,
    agent: Agent[Any, Any],
    prompt: Message,
    deps: DeepAgentDeps[Any],
    approver: Approver,
    limits: UsageLimits,
    stream: EventStreamHandler[Any] | None = None,
    history: Sequence[ModelMessage] = (),
) -> AgentRunResult[Any]:
    """Run the agent, again with the answers while calls wait for them; return its result.

    Ask between runs, outside the loop, so that Ctrl-C ends a question like everything else.
    """
    from pydantic_ai import DeferredToolRequests

    how: dict[str, Any] = {"message_history": history or None, "event_stream_handler": stream}
    result = loop.run(agent.run(prompt, deps=deps, usage_limits=limits, **how))
    while isinstance(result.output, DeferredToolRequests):
        waiting = loop.run(questions(result.output, deps.backend))
        answers = approver.decide(result.output, waiting)
        result = loop.run(
            agent.run(
                message_history=result.all_messages(),
                deferred_tool_results=answers,
                deps=deps,
                usage=result.usage,
                usage_limits=limits,
                event_stream_handler=stream,
            )
        )
    return result


async def _working_dir(backend: WorkspaceBackend) -> str | None:
    """Where the tools worked; None if the backend no longer knows, so it is not this folder."""
    from pydantic_ai.workspaces import WorkspaceError

    try:
        return await backend.working_dir()
    except (OSError, WorkspaceError):
        return None
