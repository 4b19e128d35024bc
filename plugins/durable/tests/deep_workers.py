"""`deep worker` processes of a test, and a provider that can be down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["Provider", "Workers", "lines"]


class Workers:
    """`deep worker` processes of one store.

    Args:
        store: its URL.
        folder: where their output and the effects are.
        words: more words of the command.
    """

    def __init__(self, store: str, folder: Path, *words: str | Path) -> None:
        self._command = [sys.executable, "-m", "deep_cli", "worker", "--store", store, "--backend", "memory", *words]
        self._folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        """Start one more."""
        environment = {**os.environ, "FOLDER": str(self._folder)}
        with (self._folder / "log").open("ab") as log:
            # A group of its own: a session that kills its group must not kill the tests.
            process = subprocess.Popen(
                self._command, env=environment, stdout=log, stderr=log, cwd=self._folder, start_new_session=True
            )
        self.processes.append(process)
        return process

    @contextmanager
    def running(self, count: int = 1) -> Generator[list[subprocess.Popen[bytes]]]:
        """Start some; kill all of them at the end."""
        try:
            yield [self.start() for _ in range(count)]
        finally:
            for process in self.processes:
                process.kill()
                process.wait()

    def log(self) -> list[str]:
        """Return what they printed."""
        return (self._folder / "log").read_text("utf-8", "replace").splitlines()


def lines(folder: Path, name: str) -> list[str]:
    """Return the lines of a file; none if there is no file."""
    path = folder / name
    return path.read_text("utf-8").splitlines() if path.exists() else []


class Provider:
    """An HTTP server that speaks as OpenAI does: the model calls the tool `put`, then answers.

    Attributes:
        status: of its replies.
        headers: of its refusals.
        asked: when requests came, and the status of each reply.
    """

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[float, int]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None: ...

            def do_GET(self) -> None:
                self._reply(404, {"error": {"message": "no such page"}})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if "messages" not in body:  # what the server of another kind of model would be asked for its window
                    self._reply(404, {"error": {"message": "no such page"}})
                    return
                status = provider.status
                provider.asked.append((time.monotonic(), status))
                refusal = {"error": {"message": "overloaded"}}
                self._reply(status, provider.answer(body["messages"]) if status == 200 else refusal)

            def _reply(self, status: int, value: Any) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                for name, text in (provider.headers if status != 200 else {}).items():
                    self.send_header(name, text)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, messages: Sequence[Any]) -> dict[str, Any]:
        """Return a completion."""
        call = {"id": f"c{len(messages)}", "type": "function", "function": {"name": "put", "arguments": '{"n": 1}'}}
        is_done = any(message["role"] == "tool" for message in messages)
        message = {"role": "assistant", "content": "done"} if is_done else {"role": "assistant", "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "stop" if is_done else "tool_calls"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}

    @contextmanager
    def serving(self, folder: Path) -> Generator[Path]:
        """Serve; yield a configuration that names this provider."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        config = folder / "provider.toml"
        model = f'provider = "openai-chat"\nmodel = "m"\nbase_url = "{self.url}"\n'
        config.write_text(f"[agent.model]\n{model}")
        try:
            yield config
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
