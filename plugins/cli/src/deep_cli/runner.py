"""Run one task on the current folder and report it. `deep run` and `deep demo` add a screen to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_core import Kernel

from .agent import make_agent
from .approval import ApprovalMode, Approver, Ask, questions
from .attach import with_files
from .changes import FileChange, Snapshot, compare, snapshot
from .errors import explain_error
from .options import cli_options
from .progress import CliProgress
from .report import PromptCost, RunReport
from .reporter import Reporter
from .stored import StoredSession
from .waiting import waking

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.models import Model
    from pydantic_ai.usage import UsageLimits
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import DeepAgentDeps

__all__ = ["converse", "run_task"]


def run_task(
    task: str | None,
    *,
    model: str | Model | None = None,
    backend: str | WorkspaceBackend | None = None,
    files: Sequence[Path] = (),
    approve: ApprovalMode | None = None,
    ask: Ask | None = None,
    plugins: Sequence[object] = (),
    config: str | os.PathLike[str] | None = None,
    folder: Path | None = None,
    max_requests: int | None = None,
    reporter: Reporter | None = None,
    session: str | None = None,
    store: str | None = None,
) -> RunReport:
    """Let an agent of all installed plugins do one task, and report the result.

    Blocks until it is done; must not run inside an event loop. Errors during the run (of the provider, a limit) are in
    the report; errors before the first request are raised.

    Args:
        task: the task, in words; None continues the last run of `session`.
        model: a model, or its id; None reads the configuration.
        backend: a name or an instance; None reads the configuration, then takes `local`.
        files: UTF-8 text files to attach to the task.
        approve: how to decide calls that need approval: `ask`, `allow` or `deny`; None reads
            `[plugins.cli] options` (`ask` by default).
        ask: asks the user, for `ask`; without it such calls are denied.
        plugins: modules or objects with hook implementations, in addition to the installed ones.
        config: a configuration file; it is trusted.
        folder: where to work; None means the current directory. The process changes to it during the task.
        max_requests: maximum requests; None reads `[plugins.cli] options` (200 by default).
        reporter: receives progress.
        session: the stored session to continue or begin; None stores nothing.
        store: the URL of its store; None means the user's own.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: a required plugin failed, two plugins clash, or no plugin provides the backend.
        Failure: no model is named, or a file cannot be attached.
        Exception: any error of the model's provider before the first request: no key, no package, no such model.
    """
    if task is None and session is None:
        raise TypeError("run_task(None) continues a stored session: name it with session=…")
    listener = reporter or Reporter()
    paths = [path.resolve() for path in files]
    with contextlib.chdir(folder or Path.cwd()):
        progress = CliProgress(listener)
        with Kernel(plugins=[progress, *plugins], config=config) as kernel:
            options = cli_options(kernel.config)
            mode = approve or options.approve
            has_person = ask is not None and mode == "ask"
            setup = make_agent(kernel, model, backend, is_stored=session is not None, has_person=has_person)
            prompt = None if task is None else with_files(task, paths, options.attach_chars)
            approver = Approver(mode, ask, listener.decided)
            job = _Job(kernel, setup.agent, progress, listener, approver, setup.model, setup.backend, session, store)
            listener.begin(task or f"continue {session}", job.model, job.backend, Path.cwd())
            report = job.run(prompt, max_requests or options.max_requests)
            listener.end(report)
            return report


class _Job:
    """One task."""

    def __init__(
        self,
        kernel: Kernel,
        agent: Agent[Any, Any],
        progress: CliProgress,
        reporter: Reporter,
        approver: Approver,
        model: str,
        backend: str,
        session: str | None,
        store: str | None,
    ) -> None:
        self.session = session
        self.store = store
        self.kernel = kernel
        self.agent = agent
        self.progress = progress
        self.reporter = reporter
        self.approver = approver
        self.model = model
        self.backend = backend

    def run(self, prompt: str | None, max_requests: int) -> RunReport:
        from pydantic_ai.usage import UsageLimits

        from deep_core import create_default_deps

        folder = Path.cwd()
        before = snapshot(folder)
        deps: DeepAgentDeps[Any] = create_default_deps(kernel=self.kernel)
        output, failure = "", None
        root: str | None = str(folder)
        # One loop for all runs: a provider's client is tied to the loop that first used it.
        with asyncio.Runner() as loop, waking(loop.get_loop()):
            try:
                limits = UsageLimits(request_limit=max_requests)
                if self.session is not None:
                    output = self._run_stored(self.session, loop, prompt, deps, limits)
                elif prompt is not None:
                    output = str(converse(loop, self.agent, prompt, deps, self.approver, limits))
            except Exception as error:  # noqa: BLE001 - the report holds the error that ended the run
                failure = error
            if deps.backend is not None:
                root = loop.run(_working_dir(deps.backend))
        files, files_by = self._files(folder, before, root)
        refused = any(not decision.approved for decision in self.approver.decisions)
        return RunReport(
            status="failed" if failure is not None else "refused" if refused else "done",
            output=output,
            error=None if failure is None else explain_error(failure, self.model).message,
            exception=failure,
            model=self.model,
            backend=self.backend,
            requests=self.progress.requests,
            input_tokens=self.progress.input_tokens,
            output_tokens=self.progress.output_tokens,
            steps=tuple(self.progress.steps),
            decisions=tuple(self.approver.decisions),
            files=files,
            files_by=files_by,
            prompt=None if failure is not None else self._prompt_cost(),
            session=self.session,
        )

    def _run_stored(
        self,
        session: str,
        loop: asyncio.Runner,
        prompt: str | None,
        deps: DeepAgentDeps[Any],
        limits: UsageLimits,
    ) -> str:
        from deep_sessions import default_store, open_store

        store = open_store(self.store or default_store(), kernel=self.kernel)
        stored = StoredSession(session, store, self.kernel, self.agent, loop, self.approver, limits)
        try:
            return stored.converse(prompt)
        finally:
            deps.backend = stored.backend
            loop.run(store.aclose())

    def _files(self, folder: Path, before: Snapshot | None, root: str | None) -> tuple[tuple[FileChange, ...], Any]:
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
        try:
            with self.progress.mute():
                explanation = self.kernel.explain(self.agent)
            return PromptCost(explanation.tokens, explanation.by_plugin())
        except Exception as error:  # noqa: BLE001 - the task is done, only its measurement failed
            self.reporter.note(f"the prompt could not be measured: {explain_error(error, self.model).message}")
            return None


def converse(
    loop: asyncio.Runner,
    agent: Agent[Any, Any],
    prompt: str,
    deps: DeepAgentDeps[Any],
    approver: Approver,
    limits: UsageLimits,
) -> Any:
    """Run the agent, again with the answers while calls wait for them; return its output.

    Ask between runs, outside the loop, so that Ctrl-C ends a question like everything else.
    """
    from pydantic_ai import DeferredToolRequests

    result = loop.run(agent.run(prompt, deps=deps, usage_limits=limits))
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
            )
        )
    return result.output


async def _working_dir(backend: WorkspaceBackend) -> str | None:
    """Where the tools worked; None if the backend no longer knows, so it is not this folder."""
    from pydantic_ai.workspaces import WorkspaceError

    try:
        return await backend.working_dir()
    except (OSError, WorkspaceError):
        return None
