"""`deep worker` and `deep workers`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from deep_cli import Failure, load_key, load_plugin_files, one_line, say, say_json, store_option
from deep_sessions import AgentError, default_store

from .open import open_queue
from .queue import Job, WorkerInfo

if TYPE_CHECKING:
    from deep_core import Kernel

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
    plugin_files: tuple[Path, ...],
    config: Path | None,
) -> None:
    """Resume the sessions that are enqueued, until SIGTERM or Ctrl-C.

    The agent is the one that `deep run` has in this folder. A call that needs approval waits in its session.
    """
    from deep_core import Kernel
    from deep_core.plugin_api import read_agent_config

    try:
        with Kernel(plugins=load_plugin_files(plugin_files), config=config) as kernel:
            chosen = model or read_agent_config(kernel.config).model.id
            if chosen is not None:
                load_key(chosen)
            asyncio.run(_work(kernel, store or default_store(), model, backend, concurrency, grace, lease))
    except AgentError as error:
        raise Failure(error.message) from error


async def _work(
    kernel: Kernel,
    store: str,
    model: str | None,
    backend: str | None,
    concurrency: int,
    grace: float,
    lease: float,
) -> None:
    from .session_agent import open_runner
    from .worker import Worker, finish

    queue = open_queue(store, silence=lease / 3)
    try:
        async with open_runner(kernel, store, model=model, backend=backend, lease=lease) as runner:
            crew = Worker(partial(finish, runner), queue, store=runner.store, concurrency=concurrency, grace=grace)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, crew.stop)
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

    A session is set aside after three attempts in a row that failed or lost their worker.
    """
    try:
        crew, jobs = asyncio.run(_look(store or default_store(), release))
    except AgentError as error:
        raise Failure(error.message) from error
    if as_json:
        lists = {"workers": [asdict(worker) for worker in crew], "sessions": [asdict(job) for job in jobs]}
        say_json(lists)
        return
    for worker in crew:
        sessions = ", ".join(_line(session) for session in worker.sessions)
        say(f"{_line(worker.name)} works on {sessions or 'nothing'}")
    if not crew:
        say("no worker; start one with: deep worker")
    for job in jobs:
        if job.state == "waiting":
            say(f"{_line(job.session_id)} waits" + (f", after: {_line(job.error)}" if job.failures else ""))
        elif job.state == "set aside":
            why = f"{job.failures} failures, the last one: {_line(job.error)}"
            say(f"{_line(job.session_id)} is set aside after {why}; deep workers --release {_line(job.session_id)}")


async def _look(store: str, release: str | None) -> tuple[Sequence[WorkerInfo], Sequence[Job]]:
    queue = open_queue(store)
    try:
        if release is not None:
            await queue.release(release)
        return await queue.workers(), await queue.jobs()
    finally:
        await queue.aclose()
