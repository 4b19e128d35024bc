"""`deep acp`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

from pathlib import Path

import click
from deep_cli import agent_option, backend_option, config_option, plugin_option, store_option

__all__ = ["acp"]


@click.command("acp")
@click.option(
    "-m", "--model", metavar="MODEL", help="provider:name, as openai:gpt-5.2. Default: DEEP_MODEL, [agent] model."
)
@backend_option
@plugin_option
@agent_option
@config_option
@store_option
def acp(
    model: str | None,
    backend: str | None,
    plugin_files: tuple[Path, ...],
    agent_name: str | None,
    config: Path | None,
    store: str | None,
) -> None:
    """Serve an editor over the Agent Client Protocol, on stdin and stdout.

    An editor starts this command; docs/editors.md says how to configure it. Messages of plugins and warnings go to
    stderr.
    """
    from .stdio import take_stdio

    streams = take_stdio()  # before anything can print
    import asyncio
    import logging
    import os
    import sys

    from deep_cli import find_agent, load_key, load_plugin_files

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    from deep_sessions import FolderSettings

    from .connection import serve

    plugins = load_plugin_files(plugin_files)

    folder = os.path.realpath(os.getcwd())

    async def work() -> None:
        own = None if agent_name is None else await find_agent(agent_name, folder)
        settings = FolderSettings(model, backend, config, store, plugins, load_key, own)
        reader, writer = await streams.open()
        await serve(reader, writer, settings)

    asyncio.run(work())
