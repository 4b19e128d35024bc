"""`examples/server` in a process of its own."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

import httpx

from tests.another_process import Started, start
from tests.docs_pages import readers_environment
from tests.environments import REPOSITORY

SECONDS = 60


class Server:
    """`python -m examples.server`, with a port and a directory of the test."""

    def __init__(self, data: Path, store: str = "") -> None:
        self.data = data
        self.store = store
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.process: Started | None = None

    def start(self) -> None:
        command = ["-m", "examples.server", "--port", str(self.port), "--data", self.data]
        with (self.data.parent / "server.log").open("ab") as log:
            self.process = start(
                *command,
                *("--store", self.store, "--execute"),
                cwd=REPOSITORY,
                env=readers_environment(self.data.parent),
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + SECONDS
        with httpx.Client(trust_env=False) as client:
            while True:
                assert self.process.poll() is None, (self.data.parent / "server.log").read_text()
                with contextlib.suppress(httpx.TransportError):
                    client.get(self.url)
                    return
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.05)

    def stop(self, *, kill: bool = False) -> None:
        if self.process is not None:
            (self.process.kill if kill else self.process.terminate)()
            self.process.wait(SECONDS)
            self.process = None

    def file(self, session_id: str, name: str) -> Path:
        return self.data / "workspaces" / session_id / name
