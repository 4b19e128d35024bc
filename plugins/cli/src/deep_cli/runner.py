"""One task on the current folder, from text to report. `deep run` and `deep demo` are this, and a screen."""

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
from .explained import explained
from .options import cli_options
from .progress import CliProgress
from .report import PromptCost, RunReport
from .reporter import Reporter
from .waiting import waking

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.models import Model
    from pydantic_ai.usage import UsageLimits
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import DeepAgentDeps

__all__ = ["converse", "run_task"]


def run_task(
    task: str,
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
) -> RunReport:
    """Let an agent of all installed plugins do one task, and say what came of it.

    Blocks until it is done, and must not be called while an event loop runs in this thread. What went wrong on the
    way (a provider's error, a limit) is in the report; what is wrong before anything was sent is raised.

    Args:
        task: what to do, in words.
        model: a model, or its id; None means what the configuration says.
        backend: a name or an instance; None means what the configuration says, else `local`.
        files: UTF-8 text files to attach to the task.
        approve: what becomes of calls that need approval: `ask`, `allow` or `deny`; None means what
            `[plugins.cli] options` say (`ask` by default).
        ask: asks a person, for `ask`; without it such calls are denied.
        plugins: modules or objects with hook implementations, besides the installed ones.
        config: a configuration file, trusted as code is.
        folder: where to work; None means the current directory. The process's directory is changed to it for the time.
        max_requests: the most requests; None means what `[plugins.cli] options` say (200 by default).
        reporter: hears what happens.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: a plugin that was named failed, two plugins clash, or no plugin provides the backend.
        Failure: no model is named, or a file cannot be attached.
        Exception: whatever the model's provider raises before the first request: no key, no package, no such model.
    """
    heard = reporter or Reporter()
    attached = [path.resolve() for path in files]
    with contextlib.chdir(folder or Path.cwd()):
        progress = CliProgress(heard)
        with Kernel(plugins=[progress, *plugins], config=config) as kernel:
            options = cli_options(kernel.config)
            made = make_agent(kernel, model, backend)
            prompt = with_files(task, attached, options.attach_chars)
            approver = Approver(approve or options.approve, ask, heard.decided)
            job = _Job(kernel, made.agent, progress, heard, approver, made.model, made.backend)
            heard.begin(task, job.model, job.backend, Path.cwd())
            report = job.run(prompt, max_requests or options.max_requests)
            heard.end(report)
            return report


class _Job:
    """One task on its way."""

    def __init__(
        self,
        kernel: Kernel,
        agent: Agent[Any, Any],
        progress: CliProgress,
        reporter: Reporter,
        approver: Approver,
        model: str,
        backend: str,
    ) -> None:
        self.kernel = kernel
        self.agent = agent
        self.progress = progress
        self.reporter = reporter
        self.approver = approver
        self.model = model
        self.backend = backend

    def run(self, prompt: str, max_requests: int) -> RunReport:
        from pydantic_ai.usage import UsageLimits

        from deep_core import create_default_deps

        folder = Path.cwd()
        before = snapshot(folder)
        deps: DeepAgentDeps[Any] = create_default_deps(kernel=self.kernel)
        output, failure = "", None
        root: str | None = str(folder)
        # One loop for all runs: a provider's client belongs to the loop it was first used in.
        with asyncio.Runner() as loop, waking(loop.get_loop()):
            try:
                limits = UsageLimits(request_limit=max_requests)
                output = str(converse(loop, self.agent, prompt, deps, self.approver, limits))
            except Exception as error:  # noqa: BLE001 - what ends a run is part of the report
                failure = error
            if deps.backend is not None:
                root = loop.run(_working_dir(deps.backend))
        files, files_by = self._files(folder, before, root)
        refused = any(not decision.approved for decision in self.approver.decisions)
        return RunReport(
            status="failed" if failure is not None else "refused" if refused else "done",
            output=output,
            error=None if failure is None else explained(failure, self.model).message,
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
        )

    def _files(self, folder: Path, before: Snapshot | None, root: str | None) -> tuple[tuple[FileChange, ...], Any]:
        """What changed. The folder is compared where it is what the tools worked in, else the calls tell."""
        here = root is not None and os.path.realpath(root) == os.path.realpath(folder)
        after = snapshot(folder) if before is not None and here else None
        if before is not None and after is not None:
            return compare(before, after), "folder"
        written = {
            step.args["path"]: None
            for step in self.progress.steps
            if step.outcome == "success"
            and isinstance(step.args.get("path"), str)
            and ("content" in step.args or "new_string" in step.args)
        }
        return tuple(FileChange(path, "written") for path in written), "tools"

    def _prompt_cost(self) -> PromptCost | None:
        try:
            with self.progress.muted():
                found = self.kernel.explain(self.agent)
            return PromptCost(found.tokens, found.by_plugin())
        except Exception as error:  # noqa: BLE001 - the task is done; only the measurement is missing
            self.reporter.note(f"the prompt could not be measured: {explained(error, self.model).message}")
            return None


def converse(
    loop: asyncio.Runner,
    agent: Agent[Any, Any],
    prompt: str,
    deps: DeepAgentDeps[Any],
    approver: Approver,
    limits: UsageLimits,
) -> Any:
    """Run the agent, and again with the answers for as long as calls wait for them; return its output.

    Questions are asked between runs, where no loop runs, so that Ctrl-C ends a question as it ends everything else.
    """
    from pydantic_ai import DeferredToolRequests

    result = loop.run(agent.run(prompt, deps=deps, usage_limits=limits))
    while isinstance(result.output, DeferredToolRequests):
        asked = loop.run(questions(result.output, deps.backend))
        answers = approver.decide(result.output, asked)
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
    """Where the tools worked, None where the backend can no longer tell: then it is not this folder."""
    from pydantic_ai.workspaces import WorkspaceError

    try:
        return await backend.working_dir()
    except (OSError, WorkspaceError):
        return None
