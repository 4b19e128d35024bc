"""`deep worker` and `deep workers`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from deep_cli import Failure, load_key, load_plugin_files, one_line, say, say_json, store_option
from deep_sessions import AgentError, default_store

from .alone import guard_of_this_process
from .jobs import Job, Outage, Patience, WorkerInfo
from .open import open_queue

if TYPE_CHECKING:
    from deep_core import Kernel

    from .worker import Worker

__all__ = ["worker", "workers"]

_line = partial(one_line, width=None)


@click.command("worker")
@store_option
@click.option("-m", "--model", metavar="MODEL", help="provider:name. Default: DEEP_MODEL, [agent] model.")
@click.option("--backend", metavar="NAME", help="Where files and commands are. Default: [agent] runtime_policy, local.")
@click.option(
    "--concurrency", metavar="N", type=click.IntRange(1, 1000), default=4, help="Sessions at a time. Default: 4."
)
@click.option(
    "--grace",
    metavar="SECONDS",
    type=click.FloatRange(0),
    default=20.0,
    help="How long running sessions may take to end after SIGTERM; the others are handed back. Default: 20.",
)
@click.option(
    "--lease",
    metavar="SECONDS",
    type=click.FloatRange(1),
    default=30.0,
    help="How long a worker that is silent keeps its sessions. Default: 30.",
)
@click.option(
    "--outage",
    metavar="SECONDS",
    type=click.FloatRange(0),
    default=86_400.0,
    help="How long sessions wait for a provider that is down. Default: 86400, a day.",
)
@click.option(
    "--probe",
    metavar="SECONDS",
    type=click.FloatRange(0.1),
    default=10.0,
    help="Until the first try whether it is back; each further pause is twice as long, at most 600. Default: 10.",
)
@click.option(
    "-p",
    "--plugin",
    "plugin_files",
    metavar="PLUGIN.py",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="A plugin file; may be given several times.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read this configuration too, trusted like code.",
)
def worker(
    store: str | None,
    model: str | None,
    backend: str | None,
    concurrency: int,
    grace: float,
    lease: float,
    outage: float,
    probe: float,
    plugin_files: tuple[Path, ...],
    config: Path | None,
) -> None:
    """Resume the sessions that are enqueued, until SIGTERM or Ctrl-C.

    The agent is the one that `deep run` has in this folder. A call that needs approval waits in its session.
    """
    from deep_core import Kernel
    from deep_core.plugin_api import read_agent_config

    from .worker import Worker

    try:
        with Kernel(plugins=load_plugin_files(plugin_files), config=config) as kernel:
            chosen = model or read_agent_config(kernel.config).model.id
            if chosen is not None:
                load_key(chosen)
            store = store or default_store()
            # The same worker again, for suspects.
            words: list[object] = ["--store", store, "--concurrency", 1, "--grace", grace, "--lease", lease]
            words += ["--outage", outage, "--probe", probe]
            words += [] if model is None else ["--model", model]
            words += [] if backend is None else ["--backend", backend]
            words += [] if config is None else ["--config", config]
            for file in plugin_files:
                words += ["--plugin", file]
            patience = Patience(first=probe, most=max(probe, 600.0), total=outage)
            how = {"concurrency": concurrency, "grace": grace, "lease": lease, "patience": patience}
            command = [sys.executable, "-m", "deep_cli", "worker", *map(str, words)]
            asyncio.run(_work(kernel, store, model, backend, lease, partial(Worker, command=command, **how)))
    except AgentError as error:
        raise Failure(error.message) from error


async def _work(
    kernel: Kernel, store: str, model: str | None, backend: str | None, lease: float, make: Callable[..., Worker]
) -> None:
    from .session_agent import open_runner
    from .worker import finish

    queue = open_queue(store, silence=lease / 3)
    try:
        async with open_runner(kernel, store, model=model, backend=backend, lease=lease) as runner:
            crew = make(partial(finish, runner), queue, store=runner.store, provider=runner.provider)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, crew.stop)
            if guard_of_this_process() is None:
                say(f"worker {crew.name} waits for sessions; Ctrl-C ends it, a second one at once", err=True)
            await crew.run()
    finally:
        await queue.aclose()


@click.command("workers")
@store_option
@click.option("--release", metavar="SESSION", help="Let workers resume a session again that was set aside.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def workers(store: str | None, release: str | None, as_json: bool) -> None:
    """Show who works on what, and the sessions that wait or were set aside.

    A session is set aside after three attempts in a row that failed, or killed the process in which it was alone.
    """
    try:
        crew, outages, jobs = asyncio.run(_look(store or default_store(), release))
    except AgentError as error:
        raise Failure(error.message) from error
    if as_json:
        lists = {"workers": crew, "outages": outages, "sessions": jobs}
        say_json({name: [asdict(item) for item in items] for name, items in lists.items()})
        return
    for worker in crew:
        sessions = ", ".join(_line(session) for session in worker.sessions)
        say(f"{_line(worker.name)} works on {sessions or 'nothing'}")
    if not crew:
        say("no worker; start one with: deep worker")
    for outage in outages:
        told = f"is down for {outage.seconds:.0f} s, next try in {outage.next_try:.0f} s: {_line(outage.reason)}"
        say(f"{_line(outage.provider)} {told}")
    for job in jobs:
        if job.state != "running":
            say(_told(job))


def _told(job: Job) -> str:
    name, error = _line(job.session_id), _line(job.error)
    if job.state == "set aside":
        return (
            f"{name} is set aside after {job.failures} failures, the last one: {error}; deep workers --release {name}"
        )
    when = "" if job.next_try is None else f", next try in {job.next_try:.0f} s"
    if job.provider:
        return f"{name} waits for {_line(job.provider)}{when}: {error}"
    alone = " to run alone" if job.suspect else ""
    return f"{name} waits{alone}{when}" + (f", after: {error}" if error else "")


async def _look(store: str, release: str | None) -> tuple[Sequence[WorkerInfo], Sequence[Outage], Sequence[Job]]:
    queue = open_queue(store)
    try:
        if release is not None:
            await queue.release(release)
        return await queue.workers(), await queue.outages(), await queue.jobs()
    finally:
        await queue.aclose()
