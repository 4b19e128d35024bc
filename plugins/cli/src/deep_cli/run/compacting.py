"""Make a stored session shorter, for `deep run --session NAME --compact`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_core import Kernel

from ..failure import Failure
from ..terminal.output import say, say_json
from .agent import make_agent

if TYPE_CHECKING:
    from deep_sessions import Compacted

    from .agent import AgentSetup

__all__ = ["compact_session"]


def compact_session(
    session: str,
    keep: str,
    model: str | None,
    backend: str | None,
    store: str | None,
    config: Path | None,
    *,
    plugin_files: Sequence[Path],
    as_json: bool,
) -> None:
    """Summarize what a session has so far, and print what became of it.

    Args:
        session: its name.
        keep: what to keep above all, in words.
        model: the model's id; None reads the configuration.
        backend: the backend's name; None likewise.
        store: the URL of the sessions; None means the user's own.
        config: a configuration file.
        plugin_files: the files of `-p`.
        as_json: print an object.

    Raises:
        Failure: it was not made shorter; the message says why.
    """
    from deep_sessions import AgentError

    from ..plugins.files import load_plugin_files

    plugins: Any = load_plugin_files(tuple(plugin_files))
    with Kernel(plugins=plugins, config=config) as kernel:
        setup = make_agent(kernel, model, backend, is_stored=True)
        try:
            done = asyncio.run(_compact(kernel, setup, session, keep, store))
        except AgentError as error:
            raise Failure(error.message) from error
    if as_json:
        say_json({"schema": 1, "session": session, **asdict(done)})
    else:
        say(str(done))


async def _compact(kernel: Kernel, setup: AgentSetup, session: str, keep: str, store: str | None) -> Compacted:
    from deep_sessions import Runner, default_store, open_store

    opened = open_store(store or default_store(), kernel=kernel)
    try:
        return await Runner(setup.agent, opened, kernel=kernel, choose=setup.modes.choose).compact(session, keep=keep)
    finally:
        await opened.aclose()
