"""Run the application of `deep web` on this machine, for this machine."""

from __future__ import annotations

import asyncio
import os
import secrets
import webbrowser
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from deep_sessions import FolderSettings

from .app import create_app
from .folder import open_folder
from .patience import PatientProtocol

if TYPE_CHECKING:
    import socket as sockets
    from collections.abc import Callable

__all__ = ["serve", "token_of"]

WAIT = 3
"""Seconds that open pages may keep a server that stops."""
BYTES = 64 * 1024
"""Most bytes of a message on a socket: pages send nothing there."""


def token_of(folder: str, data: Path) -> str:
    """Return the token of a folder: the same each time, so that open pages go on after a restart.

    Args:
        folder: the folder.
        data: where deep-web keeps its data.
    """
    from deep_sessions import folder_key

    path = data / "tokens" / folder_key(folder)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    private = partial(os.open, mode=0o600)
    with suppress(FileExistsError), open(path, "x", encoding="ascii", opener=private) as file:
        file.write(secrets.token_urlsafe(32))
    token = path.read_text("ascii").strip()
    if len(token) < 32:
        raise ValueError(f"{path} has no token: delete it, and open the page with the new address")
    return token


async def serve(
    listening: sockets.socket,
    folder: str,
    settings: FolderSettings,
    *,
    token: str,
    browser: bool,
    announce: Callable[[str], object],
) -> None:
    """Serve until Ctrl-C.

    Args:
        listening: the socket, bound.
        folder: the folder, without symlinks: the current directory.
        settings: what `deep web` was started with.
        token: lets in whoever has it.
        browser: whether to open the page.
        announce: receives the address.

    Raises:
        ConfigError, PluginError, UserError: as `open_folder`.
    """
    host, port = listening.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{port}/"
    async with open_folder(folder, settings) as site:
        names = (host, "127.0.0.1", "localhost", "::1")
        app = create_app(lambda: nullcontext(site), token=token, hosts=names, show_errors=True)
        listening.listen(128)  # a browser that is faster than the server waits
        announce(f"{address}?token={token}")
        if browser:
            # All users of this machine can read the arguments of the browser: they get a code that admits once.
            await asyncio.to_thread(webbrowser.open, f"{address}?code={app.state.owners.new_code()}")
        config = uvicorn.Config(
            app, http=PatientProtocol, log_level="warning", ws_max_size=BYTES, timeout_graceful_shutdown=WAIT
        )
        await uvicorn.Server(config).serve([listening])
