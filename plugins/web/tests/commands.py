"""`deep web` in a process of its own, with a folder and a home of the test."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from pathlib import Path

from tests.another_process import Started, start
from tests.docs_pages import readers_environment
from tests.environments import REPOSITORY

__all__ = ["DeepWeb"]

SECONDS = 60
PLUGIN = '''
"""The models `script:…`. Told `hold …`, they say one word and then wait until the file `go` exists."""

import anyio
from pydantic_ai.models.function import FunctionModel

from deep_core import hookimpl
from examples.server.scripted import scripted_model, turn

plain = scripted_model(0)


async def stream(messages, info):
    prompt, _, _ = turn(messages)
    if prompt.startswith("hold "):
        with open("asked.txt", "a") as asked:
            asked.write(prompt + "\\n")
        yield "holding "
        while not await anyio.Path("go").exists():
            await anyio.sleep(0.02)
        yield prompt.removeprefix("hold ")
    else:
        async for part in plain.stream_function(messages, info):
            yield part


@hookimpl
def deep_resolve_model(model_id):
    return FunctionModel(plain.function, stream_function=stream) if model_id.startswith("script:") else None
'''
CONFIG = '[plugins.filesystem]\nrequire_approval = "name:write_file | name:edit_file"\n'


class DeepWeb:
    """A server that can be killed and started again, on the same port.

    Attributes:
        folder: the folder that it serves.
        token: lets a client in.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.folder = root / "project"
        self.folder.mkdir()
        (root / "held.py").write_text(PLUGIN, encoding="utf-8")
        (root / "deep.toml").write_text(CONFIG, encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = ""
        self.process: Started | None = None

    @property
    def options(self) -> list[str]:
        """The options of `deep web` and of `deep chat`."""
        root = self._root
        return ["--model", "script:one", "--plugin", str(root / "held.py"), "--config", str(root / "deep.toml")]

    @property
    def environment(self) -> dict[str, str]:
        return readers_environment(self._root) | {"PYTHONPATH": str(REPOSITORY)}

    def start(self) -> None:
        output = self._root / "output.txt"
        output.write_text("")
        command = ["-m", "deep_cli", "web", "--port", str(self.port), "--no-browser", *self.options]
        with output.open("ab") as out, (self._root / "errors.txt").open("ab") as errors:
            streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": errors}
            self.process = start(*command, cwd=self.folder, env=self.environment, **streams)
        deadline = time.monotonic() + SECONDS
        while not output.read_text().endswith("\n"):  # the address
            assert self.process.poll() is None, (self._root / "errors.txt").read_text()
            assert time.monotonic() < deadline, "deep web prints no address"
            time.sleep(0.05)
        address, _, self.token = output.read_text().strip().partition("/?token=")
        assert address == self.url

    def kill(self) -> None:
        """As `kill -9` does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(SECONDS)
            self.process = None

    def restart(self) -> None:
        self.kill()
        self.start()

    @property
    def asked(self) -> list[str]:
        """The messages for which the model was asked and held its answer."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "asked.txt").read_text().splitlines()
        return []
