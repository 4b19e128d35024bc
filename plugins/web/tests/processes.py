"""`deep web` as a process, which a test kills."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

from tests.another_process import Started, start
from tests.environments import REPOSITORY

from .served import CONFIG, SECONDS

__all__ = ["WebProcess"]

PLUGIN = """
from pathlib import Path

from deep_core import hookimpl
from plugins.web.tests.gated import gated_model

@hookimpl
def deep_resolve_model(model_id):
    return gated_model(Path({gate!r})) if model_id.startswith("script:") else None
"""


class WebProcess:
    """`deep web` for a folder, with the model of `gated`; always on the same port.

    Args:
        root: a directory of the test.
        store: the URL of the store; None for one in `root`, "" for the user's own.

    Attributes:
        folder: the folder that it serves.
        gate: the file that lets `hold` go on.
    """

    def __init__(self, root: Path, *, store: str | None = None) -> None:
        self.folder = root / "project"
        self.folder.mkdir()
        self.gate = root / "open"
        self._root = root
        (root / "gated_plugin.py").write_text(PLUGIN.format(gate=str(self.gate)))
        (root / "deep.toml").write_text(CONFIG)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._process: Started | None = None
        self._store = f"sqlite:///{root / 'sessions.db'}" if store is None else store
        self.page = ""

    def __enter__(self) -> WebProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    @property
    def agent(self) -> list[str]:
        """The options that choose the agent, of `deep chat` too."""
        root = self._root
        return ["--model", "script:one", "--config", str(root / "deep.toml"), "-p", str(root / "gated_plugin.py")]

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._process is not None:
            return
        command = ["-m", "deep_cli", "web", "--no-browser", *self.agent, "--port", str(self._port)]
        command += ["--store", self._store] if self._store else []
        environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        with (self._root / "log").open("a") as log:
            streams = {"stdout": subprocess.PIPE, "stderr": log, "text": True}
            self._process = start(*command, cwd=self.folder, env=environment, **streams)
        assert self._process.stdout is not None
        self.page = self._process.stdout.readline().strip()
        assert self.page.startswith("http"), (self._root / "log").read_text()

    def kill(self) -> None:
        """Kill it with SIGKILL, if it runs."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
