"""Run probes in a child process: `python -P -m deep_cli.plugins.probe FOLDER`. Announce each step before taking it.

Read the jobs from `jobs.json` in the folder, run them in order, write results to `out.jsonl`.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deep_core import Kernel

__all__ = ["SLOW_MS", "main"]

SLOW_MS = 1500
"""Milliseconds; report a plugin whose own import takes longer. Pydantic AI is loaded before, so it does not count."""


class Report:
    """Lines of JSON for the parent. Write each at once: the next step may end this process."""

    def __init__(self, path: Path) -> None:
        self._path, self._process = path, os.getpid()
        self.forks = 0
        if hasattr(os, "register_at_fork"):  # POSIX
            os.register_at_fork(after_in_parent=self._count)

    def _count(self) -> None:
        self.forks += 1

    def say(self, **data: Any) -> None:
        """Add a line: `probe` begins one, `phase` is the next step, `finished` its end, `well` whether it succeeded."""
        if os.getpid() != self._process:
            os._exit(0)  # a copy forked by a plugin: the parent waits for the original only
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")


def main() -> None:
    """Run the parent's jobs."""
    folder = Path(sys.argv[1])
    jobs: list[dict[str, Any]] = json.loads((folder / "jobs.json").read_text(encoding="utf-8"))
    report = Report(folder / "out.jsonl")
    from deep_core import PluginWarning

    # Read the probed plugin's problems from its record; the other plugins have their own probes.
    warnings.simplefilter("ignore", PluginWarning)
    import pydantic_ai.models.test  # first, so that a plugin's import time is its own

    _ = pydantic_ai.models.test
    imports: dict[str, float] = {}
    for number, job in enumerate(jobs):
        report.say(probe=number, phase="import")
        report.forks = 0
        if job["plugin"] is None:
            _probe_agent(job, report)
        else:
            _probe_plugin(job, report, imports)
        if max(imports.values(), default=0) > SLOW_MS:
            break  # its slow imports are loaded now and would be free for later plugins
    report.say(probe=None, phase="exit")


def _probe_plugin(job: dict[str, Any], report: Report, imports: dict[str, float]) -> None:
    """`imports` has the milliseconds of plugins imported before, which later ones may require."""
    from pydantic_ai.models.test import TestModel

    from deep_core import Kernel
    from deep_core.plugin_api import Config, ConfigLayer

    from ..errors import explain_error

    name: str = job["plugin"]
    try:
        with Kernel(allow=job["allow"], config=job["config"]) as kernel:
            record = kernel.plugins[name]
            for loaded in kernel.active:
                imports.setdefault(loaded, kernel.plugins[loaded].import_ms or 0)
            report.say(import_ms=imports.get(name), hooks=list(record.hooks or ()), asleep=record.asleep)
            if record.status == "active":
                report.say(phase="agent")
                # `[agent]` may name tools of absent plugins; the probe of the agent of all plugins uses it.
                layers = kernel.config.layers
                kernel.config = Config(
                    tuple(
                        ConfigLayer(x.source, {"plugins": x.data.get("plugins", {})}, x.trusted, x.path) for x in layers
                    )
                )
                left_out = kernel.explain(kernel.create_agent(TestModel())).left_out
                own = [item for item in left_out if item["plugin"] == name]
                problem = f"is {own[0]['status']}: {own[0]['reason']}" if own else ""
            else:
                problem = f"is {record.status}: {record.reason}"
            incidents = [incident for incident in kernel.incidents if incident.plugin == name]
            if not problem and incidents:
                problem = f"misbehaves: {incidents[0]}"
            if not problem and report.forks:
                problem = "forks the process while it loads: the copy would repeat the application's work"
    except Exception as error:  # noqa: BLE001 - the probe reports any error
        problem = f"fails: {explain_error(error).message}"
    report.say(finished=True, well=not problem, problem=problem)


def _probe_agent(job: dict[str, Any], report: Report) -> None:
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.workspaces import UnavailableWorkspace

    from deep_core import Kernel

    from ..errors import explain_error
    from ..flags import BACKEND

    try:
        kernel = Kernel(config=job["config"])
        report.say(phase="agent")
        found = kernel.explain(kernel.create_agent(TestModel(), backend=UnavailableWorkspace("the doctor only looks")))
        parts = f"{len(found.tools)} tools, {len(found.sections)} sections, {found.tokens:,} tokens a request"
        report.say(agent={"ok": True, "message": f"an agent of {', '.join(kernel.active) or 'no plugin'}: {parts}"})
    except Exception as error:  # noqa: BLE001 - the probe reports any error
        report.say(agent={"ok": False, "message": explain_error(error).message}, finished=True, well=False)
        return
    name: str = job["backend"] or BACKEND
    try:
        report.say(backend={"ok": True, "message": _make_backend(kernel, name)})
    except Exception as error:  # noqa: BLE001 - the same
        report.say(backend={"ok": False, "message": explain_error(error).message})
    if job["model"] is not None:
        report.say(phase="model")
        report.say(model=_make_model(kernel, job["model"]))
    kernel.close()
    # Even if backend or model failed: no probe before has made either.
    report.say(finished=True, well=not kernel.incidents)


def _make_backend(kernel: Kernel, name: str) -> str:
    """Make the session's backend as a run does. Ask `local` where it is; make the others without starting them."""
    import asyncio

    from pydantic_ai.models.test import TestModel

    from deep_core import DeepAgentDeps, create_default_deps

    from ..flags import BACKEND

    deps: DeepAgentDeps[Any] = create_default_deps(kernel=kernel)

    async def run() -> str:
        await kernel.create_agent(TestModel(call_tools=[]), backend=name).run("", deps=deps)
        where = f", in {await deps.backend.working_dir()}" if deps.backend is not None and name == BACKEND else ""
        return f"backend {name}{where}"

    return asyncio.run(run())


def _make_model(kernel: Kernel, model: str) -> dict[str, Any]:
    from pydantic_ai.models import infer_model

    from ..errors import explain_error

    try:
        agent = kernel.create_agent(model)
        if isinstance(agent.model, str):
            infer_model(agent.model)
    except Exception as error:  # noqa: BLE001 - the probe reports any error
        return {"ok": False, "message": explain_error(error, model).message}
    return {"ok": True, "message": model}


if __name__ == "__main__":
    main()
