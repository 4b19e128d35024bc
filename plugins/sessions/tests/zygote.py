"""Forks a process for every run that is asked for, and kills it where it is asked to.

Importing everything takes a second and the first run half a second; a run in a fork takes a tenth.
Each line of its input is a JSON object, and each line of its output a number: of the process that it started, or of the
signal that ended one.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from deep_sessions import Commit, Lease, MemoryStore, SessionStore

from plugins.sessions.tests.longrun import finish
from plugins.sessions.tests.stores import open_for_test
from tests.another_process import start
from tests.environments import REPOSITORY

__all__ = ["Zygote"]

WRITES = ("acquire", "commit", "post", "release")
"""What a run writes with."""


class Zygote:
    """Runs functions in processes of their own."""

    def __init__(self) -> None:
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = start("-m", "plugins.sessions.tests.zygote", cwd=REPOSITORY, **streams)
        self._running: set[int] = set()

    def run(self, url: str, session_id: str, effects: Path, *, part: float | None = None, **how: Any) -> bool:
        """Run the long run until it ends or is killed; return whether it was killed.

        Args:
            url: of the store.
            session_id: the session.
            effects: the file that counts them.
            part: kill it after this part of the processor time that it takes.
            how: further arguments of `_run`.
        """
        pid = self.start(_run, url=url, session_id=session_id, effects=str(effects), **how)
        return self.wait(pid, part=part)

    def start(self, program: Callable[..., Coroutine[Any, Any, object]], **arguments: Any) -> int:
        """Start a function with arguments that are JSON; return the process's number."""
        pid = self._order(program=f"{program.__module__}:{program.__qualname__}", arguments=arguments)
        self._running.add(pid)
        return pid

    def wait(self, pid: int, *, part: float | None = None) -> bool:
        """Wait for the end of a process; return whether it was killed. It must not fail."""
        status = self._order(wait=pid, part=part)
        self._running.discard(pid)
        assert status in (0, signal.SIGKILL), "the process failed; its traceback is above"
        return status != 0

    def kill(self, pid: int) -> None:
        """Kill a process, and wait for its end."""
        os.kill(pid, signal.SIGKILL)
        self.wait(pid)

    def _order(self, **order: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in [*self._running]:  # of tests that failed
            self.kill(pid)
        self._process.communicate()


def main() -> None:
    """Serve until the input ends."""
    with suppress(ImportError):  # no driver: then there are no sessions in PostgreSQL here
        importlib.import_module("deep_sessions.stores.postgresql_server")
    whole = [_measure() for _ in range(2)][-1]
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        print(_start(**order) if "program" in order else _wait(order["wait"], order["part"], whole), flush=True)


def _measure() -> float:
    """Return the processor time of a run. Forks share what it has loaded and cached."""

    async def record(n: int) -> None: ...

    began = time.process_time()
    asyncio.run(finish(MemoryStore(), record))
    return time.process_time() - began


def _start(program: str, arguments: dict[str, Any]) -> int:
    module, _, name = program.partition(":")
    function = getattr(importlib.import_module(module), name)
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(function(**arguments))
        except BaseException:  # the child must not return to the loop
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def _wait(pid: int, part: float | None, whole: float) -> int:
    """Return the signal that ended a process; 0 for none, less for an error."""
    clock = ~pid << 3 | 2  # as clock_getcpuclockid(3) makes it: of all its threads
    while True:
        ended, status = os.waitpid(pid, 0 if part is None else os.WNOHANG)
        if ended:
            return os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status)
        if part is not None and time.clock_gettime(clock) >= part * whole:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.0005)


async def _run(url: str, session_id: str, effects: str, *, write: int | None = None, after: bool = False) -> None:
    """Run the session to its end, or until the process is killed.

    Args:
        url: of the store.
        session_id: the session.
        effects: the file that counts them.
        write: kill at this write to the store.
        after: after it rather than before.
    """
    store = open_for_test(url)
    if write is not None:
        _kill_at_write(store, write, after=after)
    counted = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def record(n: int) -> None:
        os.write(counted, f"{n}\n".encode())

    await finish(store, record, session_id)


def _kill_at_write(store: SessionStore, write: int, *, after: bool) -> None:
    count = 0

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **how: Any) -> Any:
            nonlocal count
            count += 1
            is_it = count == write
            if is_it and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return await method(*args, **how)
            finally:
                if is_it:
                    os.kill(os.getpid(), signal.SIGKILL)

        return call

    def commit_now(lease: Lease, commit: Commit) -> int | None:
        nonlocal count
        count += 1
        if count == write and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        seq = now(lease, commit)
        if seq is None:  # the journal awaits `commit`, which counts
            count -= 1
        elif count == write:
            os.kill(os.getpid(), signal.SIGKILL)
        return seq

    now = store.commit_now
    store.commit_now = commit_now  # type: ignore[method-assign]
    for name in WRITES:
        setattr(store, name, counted(getattr(store, name)))


if __name__ == "__main__":
    main()
