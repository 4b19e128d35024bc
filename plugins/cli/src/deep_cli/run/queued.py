"""Leave a task to a worker, for `deep run --queue`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path

from deep_core import Kernel

from ..failure import USAGE, Failure
from ..options import cli_options
from ..terminal.output import say, say_json
from .attach import Message, with_files

__all__ = ["enqueue"]


def enqueue(
    task: str,
    files: Sequence[Path],
    session: str | None,
    store: str | None,
    config: Path | None,
    *,
    given: str = "",
    as_json: bool,
) -> None:
    """Leave a task in a session, enqueue it, and print the session's name.

    Args:
        task: the task.
        files: text files and pictures to attach.
        session: its name; None makes one.
        store: the URL of the sessions; None means the user's own.
        config: a configuration file.
        given: what was piped to the command.
        as_json: print an object.

    Raises:
        Failure: deep-durable is not installed, or the session cannot be enqueued.
    """
    from deep_sessions import AgentError, default_store

    try:
        from deep_durable import enqueue
    except ImportError as error:
        raise Failure("--queue needs workers: pip install deep-durable", USAGE) from error
    message: Message = task
    if files or given:
        with Kernel(config=config) as kernel:
            message = with_files(task, files, cli_options(kernel.config).attach_chars, given)
    name = session or uuid.uuid4().hex
    try:
        asyncio.run(enqueue(store or default_store(), name, message))
    except AgentError as error:
        raise Failure(error.message) from error
    if as_json:
        say_json({"schema": 1, "session": name})
    else:
        say(name)
