"""The real application of `deep web` on a free port, for tests: only the model is a script."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from deep_sessions import FolderSettings
from deep_web import create_app
from deep_web.folder import FolderSite, open_folder
from pydantic_ai.models import Model

from deep_core import hookimpl
from examples.server.scripted import scripted_model

__all__ = ["SECONDS", "Scripted", "Served", "serving"]

SECONDS = 60
"""A test that hangs is stopped by this; none waits for it."""
TOKEN = "a-token-that-only-tests-know-0123456789"
CONFIG = """
[plugins.filesystem]
require_approval = "name:write_file | name:edit_file"

[plugins.web.options]
models = ["script:other"]
"""


class Scripted:
    """The models `script:…`, which understand the commands of `examples/server/scripted.py`.

    Args:
        make: makes the model of an id; by default the script without a pause.
    """

    def __init__(self, make: Callable[[str], Model] | None = None) -> None:
        self._make = make or (lambda model_id: scripted_model(0))

    @hookimpl
    def deep_resolve_model(self, model_id: str) -> Model | None:
        return self._make(model_id) if model_id.startswith("script:") else None


@dataclass
class Served:
    """A server that runs.

    Attributes:
        url: its address, without a slash at the end.
        token: lets in whoever has it: `{url}/?token={token}`, or a header `Authorization: Bearer {token}`.
        folder: the folder that it serves.
        store: the URL of its store.
        site: what it serves; it belongs to the thread of the server.
    """

    url: str
    token: str
    folder: Path
    store: str
    site: FolderSite | None = field(default=None, repr=False)

    @property
    def page(self) -> str:
        """The address that opens the page."""
        return f"{self.url}/?token={self.token}"

    @property
    def headers(self) -> dict[str, str]:
        """Headers that let a client in."""
        return {"Authorization": f"Bearer {self.token}"}


def _write(path: Path, text: str) -> None:
    if not path.exists():
        path.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def serving(
    root: Path,
    *,
    plugins: Any = (),
    model: str = "script:one",
    models: Callable[[str], Model] | None = None,
    port: int = 0,
    config: str = CONFIG,
    store: str | None = None,
    **app: Any,
) -> Generator[Served]:
    """Serve the folder `root/project` in a thread, from a store in `root`, until the end of the block.

    Runs that are under way at the end stop as at a crash. The same root serves the same sessions again.

    Args:
        root: a directory of the test.
        plugins: more plugins of the kernel.
        model: the id of the model that the page begins with.
        models: makes the models `script:…`; the scripted one by default.
        port: the port; 0 takes a free one.
        config: the configuration.
        store: the URL of the store; None for one in `root`.
        app: more arguments of `create_app`.
    """
    folder = root / "project"
    folder.mkdir(parents=True, exist_ok=True)
    _write(root / "deep.toml", config)
    store = store or f"sqlite:///{root / 'sessions.db'}"
    settings = FolderSettings(
        model=model,
        backend="local",
        config=root / "deep.toml",
        store=store,
        plugins=[Scripted(models), *plugins],
    )
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    served = Served(f"http://127.0.0.1:{listening.getsockname()[1]}", TOKEN, folder, store)

    @contextlib.asynccontextmanager
    async def opened() -> Any:
        async with open_folder(str(folder.resolve()), settings) as site:
            served.site = site
            yield site

    options: dict[str, Any] = {"token": TOKEN, "show_errors": True, **app}
    # A busy machine leaves a connection idle for longer than uvicorn's five seconds, and a client that writes to one
    # while it is being closed sees a broken read; a browser would ask again, httpx does not.
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(opened, **options), log_level="error", timeout_graceful_shutdown=1, timeout_keep_alive=SECONDS
        )
    )
    with contextlib.chdir(folder):
        listening.listen(128)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.should_exit = True
            thread.join(SECONDS)
            listening.close()
            assert not thread.is_alive(), "the server does not stop"
