"""`deep workers`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict

import click
from deep_cli import Failure
from deep_sessions import AgentError

from deep_core.plugin_api import visible

from .open import open_queue
from .queue import Job, WorkerInfo

__all__ = ["workers"]

store_option = click.option(
    "--store",
    metavar="URL",
    help="Where the sessions are: sqlite:///path or postgresql://…. Default: sessions.db in deep's data folder.",
)


def default_store() -> str:
    """Return the URL of the store that is used without `--store`."""
    from platformdirs import user_data_path

    return f"sqlite:///{user_data_path('deep') / 'sessions.db'}"


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
        click.echo(json.dumps(lists, indent=2, ensure_ascii=False))
        return
    for worker in crew:
        sessions = ", ".join(_line(session) for session in worker.sessions)
        click.echo(f"{_line(worker.name)} works on {sessions or 'nothing'}")
    if not crew:
        click.echo("no worker; start one with: deep worker")
    for job in jobs:
        if job.state == "waiting":
            click.echo(f"{_line(job.session_id)} waits" + (f", after: {_line(job.error)}" if job.failures else ""))
        elif job.state == "set aside":
            why = f"{job.failures} failures, the last one: {_line(job.error)}"
            click.echo(
                f"{_line(job.session_id)} is set aside after {why}; deep workers --release {_line(job.session_id)}"
            )


async def _look(store: str, release: str | None) -> tuple[Sequence[WorkerInfo], Sequence[Job]]:
    queue = open_queue(store)
    try:
        if release is not None:
            await queue.release(release)
        return await queue.workers(), await queue.jobs()
    finally:
        await queue.aclose()


def _line(text: str) -> str:
    """Make foreign text safe for a terminal, on one line."""
    return visible(" ".join(text.split()))
