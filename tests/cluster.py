"""The cluster of `examples/cluster` as processes of this machine, what it calls, and clients that lose connections."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from deep_durable import open_queue

from tests.another_process import Started, start
from tests.environments import REPOSITORY

__all__ = ["Clients", "Processes", "World", "page_of"]

SECRET = {"Authorization": "Bearer secret1"}
TRIES = 600
"""Of a request, a tenth of a second apart."""
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=0)


def page_of(prompt: str) -> str:
    """What the model answers."""
    return " ".join(f"{prompt}, line {number}." for number in range(40))


class World:
    """A model that publishes what it is asked for and then answers; and the publisher, which honors idempotency keys.

    Args:
        seconds: until the model answers.
    """

    def __init__(self, seconds: float) -> None:
        self.published: dict[str, str] = {}
        world = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None: ...

            def do_GET(self) -> None:
                self._reply(404, b"{}")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/publish":
                    world.published.setdefault(self.headers["Idempotency-Key"], body.decode())
                    self._reply(200, b"published")
                elif "messages" not in (asked := json.loads(body)):
                    self._reply(404, b"{}")
                else:
                    time.sleep(seconds)
                    self._reply(200, json.dumps(_completion(asked["messages"])).encode())

            def _reply(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 1_000

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Generator[World]:
        """Serve until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def _completion(messages: Sequence[Any]) -> dict[str, Any]:
    prompt = next(message["content"] for message in messages if message["role"] == "user")
    call = {"name": "publish", "arguments": json.dumps({"page": prompt})}
    is_done = any(message["role"] == "tool" for message in messages)
    message: dict[str, Any] = {"role": "assistant", "content": page_of(prompt) if is_done else None}
    if not is_done:
        message["tool_calls"] = [{"id": "c1", "type": "function", "function": call}]
    choice = {"index": 0, "message": message, "finish_reason": "stop" if is_done else "tool_calls"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


class Processes:
    """Services and workers.

    Args:
        store: URL of the PostgreSQL.
        folder: for their output.
        world: what they call.
    """

    def __init__(self, store: str, folder: Path, world: World) -> None:
        self._store, self._folder = store, folder
        config = folder / "model.toml"
        config.write_text(f'[agent.model]\nprovider = "openai-chat"\nmodel = "m"\nbase_url = "{world.url}/v1"\n')
        self._worker = ["-m", "deep_cli", "worker", "--store", store, "--backend", "memory", "--config", str(config)]
        self._worker += ["--plugin", "examples/cluster/publish.py"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DEEP_", "XDG_"))}
        self._variables = {**kept, "HOME": str(folder), "STORE": store, "TENANTS": "acme:secret1"}
        self._variables |= {"PUBLISHER": f"{world.url}/publish", "OPENAI_API_KEY": "sk-stub"}
        self._services: dict[int, Started] = {}
        self._workers: list[Started] = []

    @property
    def addresses(self) -> list[str]:
        """Of the services."""
        return [f"http://127.0.0.1:{port}" for port in self._services]

    @contextmanager
    def running(self, services: int, workers: int) -> Iterator[Processes]:
        """Start so many; kill them all at the end."""
        try:
            for _ in range(services):
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    self._serve(free.getsockname()[1])
            self._workers += [self._start(*self._worker) for _ in range(workers)]
            asyncio.run(self._all_ready())
            yield self
        finally:
            for process in [*self._services.values(), *self._workers]:
                process.kill()
                process.wait()

    async def restart_each(self) -> None:
        """Restart every process, one after the other, as a rolling update does."""
        for port in [*self._services]:
            await self._end(self._services[port])
            self._serve(port)
            await self._all_ready()
        for number in range(len(self._workers)):
            await self._end(self._workers[number])
            self._workers[number] = self._start(*self._worker)
            await self._all_ready()

    def _serve(self, port: int) -> None:
        words = ["--host", "127.0.0.1", "--port", str(port), "--log-level", "error", "--timeout-graceful-shutdown", "1"]
        self._services[port] = self._start("-m", "uvicorn", "examples.cluster.app:app", *words)

    def _start(self, *words: str) -> Started:
        with (self._folder / "log").open("ab") as log:
            return start(*words, cwd=REPOSITORY, env=self._variables, stdout=log, stderr=log)

    async def _end(self, process: Started) -> None:
        process.terminate()
        while process.poll() is None:
            await asyncio.sleep(0.05)
        assert process.returncode in (0, -15), (self._folder / "log").read_text("utf-8", "replace")

    async def _all_ready(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            for address in self.addresses:
                while not await _is_ready(client, address):
                    await asyncio.sleep(0.05)
        async with contextlib.aclosing(open_queue(self._store)) as queue:
            while len(await queue.workers()) < len(self._workers):
                assert all(each.poll() is None for each in self._workers), (self._folder / "log").read_text("utf-8")
                await asyncio.sleep(0.1)


async def _is_ready(client: httpx.AsyncClient, address: str) -> bool:
    try:
        return (await client.get(f"{address}/readyz")).status_code == 200
    except httpx.TransportError:
        return False


class Clients:
    """People, each with a session: they send a message, and watch until its run has ended.

    Args:
        addresses: of the services. A client whose connection breaks goes on with the next one, as behind a balancer.

    Attributes:
        seconds: of each message that a service took, until its answer.
        broken: requests and streams that broke, by kind.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._next = itertools.cycle(addresses)
        self.seconds: list[float] = []
        self.broken: Counter[str] = Counter()

    async def talk(self, name: str, prompt: str) -> list[dict[str, Any]]:
        """Send a message in a session of its own; return the events up to the end of the run."""
        async with httpx.AsyncClient(trust_env=False, timeout=60, headers=SECRET, limits=LIMITS) as client:
            await self._send(client, name, prompt)
            return [event async for event in self._watch(client, name)]

    async def _send(self, client: httpx.AsyncClient, name: str, prompt: str) -> None:
        for _ in range(TRIES):
            began = time.perf_counter()
            try:
                message = {"text": prompt, "id": f"{name}-1"}
                answer = await client.post(f"{next(self._next)}/sessions/{name}/messages", json=message)
            except httpx.TransportError:
                self.broken["requests"] += 1
            else:
                assert answer.status_code in (202, 503), answer.text
                if answer.status_code == 202:
                    self.seconds.append(time.perf_counter() - began)
                    return
            await asyncio.sleep(0.1)
        raise AssertionError("no service takes the message")

    async def _watch(self, client: httpx.AsyncClient, name: str) -> AsyncIterator[dict[str, Any]]:
        last = 0
        for _ in range(TRIES):
            headers = {"Last-Event-ID": str(last)}
            with contextlib.suppress(httpx.TransportError):
                async with client.stream("GET", f"{next(self._next)}/sessions/{name}/events", headers=headers) as lines:
                    async for line in lines.aiter_lines():
                        if line.startswith("id: "):
                            last = int(line.removeprefix("id: "))
                        elif line.startswith("data: "):
                            event: dict[str, Any] = json.loads(line.removeprefix("data: "))
                            yield event
                            if event["kind"] == "run_ended":
                                return
            self.broken["streams"] += 1
            await asyncio.sleep(0.1)
        raise AssertionError("no service shows the session")
