"""`deep web`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

from pathlib import Path

import click
from deep_cli import agent_option, backend_option, config_option, plugin_option, store_option

__all__ = ["web"]


@click.command("web")
@click.option(
    "-m", "--model", metavar="MODEL", help="provider:name, as openai:gpt-5.2. Default: DEEP_MODEL, [agent] model."
)
@backend_option
@plugin_option
@agent_option
@config_option
@store_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 takes a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
def web(
    model: str | None,
    backend: str | None,
    plugin_files: tuple[Path, ...],
    agent_name: str | None,
    config: Path | None,
    store: str | None,
    host: str,
    port: int,
    no_browser: bool,
) -> None:
    """Serve a page for the agent of this folder, on this machine.

    Prints an address with a token, and opens it in the browser. Whoever has the address works as you. The page has the
    conversations of deep chat and of editors. docs/browser.md says more.
    """
    import asyncio
    import os
    import socket

    from deep_cli import Failure, find_agent, load_key, load_plugin_files, say
    from deep_sessions import FolderSettings

    from .serve import serve, token_of

    folder = os.path.realpath(os.getcwd())
    own = None if agent_name is None else asyncio.run(find_agent(agent_name, folder))
    settings = FolderSettings(model, backend, config, store, load_plugin_files(plugin_files), load_key, own)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise Failure(f"--host {host} --port {port}: {error.strerror or error}; choose another --port", 2) from error
    token = token_of(folder, data_dir())
    asyncio.run(serve(listening, folder, settings, token=token, browser=not no_browser, announce=say))


def data_dir() -> Path:
    """Return where deep-web keeps its data."""
    from platformdirs import user_data_path

    return user_data_path("deep") / "web"
