"""Probes, inside a child process: `python -P -m deep_cli.probe FOLDER`. It says what it does before it does it.

`jobs.json` of the folder has what is to be probed, one after the other; what is found is written to `out.jsonl`.
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
"""Milliseconds: a plugin whose own import takes longer is reported. Pydantic AI is loaded before: it does not count."""


class Report:
    """Lines of JSON for the parent, each written at once: the next step may be this process's last."""

    def __init__(self, path: Path) -> None:
        self._path, self._process = path, os.getpid()
        self.forks = 0
        if hasattr(os, "register_at_fork"):  # POSIX
            os.register_at_fork(after_in_parent=self._count)

    def _count(self) -> None:
        self.forks += 1

    def say(self, **data: Any) -> None:
        """Add a line: `probe` begins one, `phase` is what comes next, `finished` is its end, `well` whether it is."""
        if os.getpid() != self._process:
            os._exit(0)  # a copy that a plugin forked: the parent waits for the original only
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")


def main() -> None:
    """Do the jobs that the parent wrote down."""
    folder = Path(sys.argv[1])
    jobs: list[dict[str, Any]] = json.loads((folder / "jobs.json").read_text(encoding="utf-8"))
    report = Report(folder / "out.jsonl")
    from deep_core import PluginWarning

    # What is wrong with the plugin probed is read from its record; the others have probes of their own.
    warnings.simplefilter("ignore", PluginWarning)
    import pydantic_ai.models.test  # loaded first, so that a plugin's import is charged with its own cost only

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
            break  # what took so long is loaded now, and would cost those nothing that come later and need it too
    report.say(probe=None, phase="exit")


def _probe_plugin(job: dict[str, Any], report: Report, imports: dict[str, float]) -> None:
    """`imports` has the milliseconds of the plugins imported before, which some that come later may require."""
    from pydantic_ai.models.test import TestModel

    from deep_core import Kernel
    from deep_core.plugin_api import Config, ConfigLayer

    from .explained import explained

    name: str = job["plugin"]
    try:
        with Kernel(allow=job["allow"], config=job["config"]) as kernel:
            record = kernel.plugins[name]
            for loaded in kernel.active:
                imports.setdefault(loaded, kernel.plugins[loaded].import_ms or 0)
            report.say(import_ms=imports.get(name), hooks=list(record.hooks or ()), asleep=record.asleep)
            if record.status == "active":
                report.say(phase="agent")
                # `[agent]` may name tools of plugins that are not here; the agent of all plugins is probed with it.
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
                problem = "forks the process while it is loaded: the copy would do the application's work a second time"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the probe is for
        problem = f"fails: {explained(error).message}"
    report.say(finished=True, well=not problem, problem=problem)


def _probe_agent(job: dict[str, Any], report: Report) -> None:
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.workspaces import UnavailableWorkspace

    from deep_core import Kernel

    from .explained import explained
    from .flags import BACKEND

    try:
        kernel = Kernel(config=job["config"])
        report.say(phase="agent")
        found = kernel.explain(kernel.create_agent(TestModel(), backend=UnavailableWorkspace("the doctor only looks")))
        parts = f"{len(found.tools)} tools, {len(found.sections)} sections, {found.tokens:,} tokens a request"
        report.say(agent={"ok": True, "message": f"an agent of {', '.join(kernel.active) or 'no plugin'}: {parts}"})
    except Exception as error:  # noqa: BLE001 - it is what the probe is for
        report.say(agent={"ok": False, "message": explained(error).message}, finished=True, well=False)
        return
    name: str = job["backend"] or BACKEND
    try:
        report.say(backend={"ok": True, "message": _make_backend(kernel, name)})
    except Exception as error:  # noqa: BLE001 - the same
        report.say(backend={"ok": False, "message": explained(error).message})
    if job["model"] is not None:
        report.say(phase="model")
        report.say(model=_make_model(kernel, job["model"]))
    kernel.close()
    # Whatever became of backend and model: no probe before has made either.
    report.say(finished=True, well=not kernel.incidents)


def _make_backend(kernel: Kernel, name: str) -> str:
    """Make the session's backend as a run does. `local` is asked where it is; others are made, and not started."""
    import asyncio

    from pydantic_ai.models.test import TestModel

    from deep_core import DeepAgentDeps, create_default_deps

    from .flags import BACKEND

    deps: DeepAgentDeps[Any] = create_default_deps(kernel=kernel)

    async def run() -> str:
        await kernel.create_agent(TestModel(call_tools=[]), backend=name).run("", deps=deps)
        where = f", in {await deps.backend.working_dir()}" if deps.backend is not None and name == BACKEND else ""
        return f"backend {name}{where}"

    return asyncio.run(run())


def _make_model(kernel: Kernel, model: str) -> dict[str, Any]:
    from pydantic_ai.models import infer_model

    from .explained import explained

    try:
        agent = kernel.create_agent(model)
        if isinstance(agent.model, str):
            infer_model(agent.model)
    except Exception as error:  # noqa: BLE001 - it is what the probe is for
        return {"ok": False, "message": explained(error, model).message}
    return {"ok": True, "message": model}


if __name__ == "__main__":
    main()
