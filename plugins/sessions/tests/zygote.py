"""Forks a process for every run that is asked for: importing everything takes a second, a run a tenth of it.

It reads one JSON object a line and answers each with the signal that ended the run; 0 for none, -1 for an error.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from typing import Any

from deep_sessions import Commit, Lease, SessionStore

from plugins.sessions.tests.longrun import finish
from plugins.sessions.tests.stores import open_for_test


def main() -> None:
    """Serve until the input ends."""
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(_run(**order))
            except BaseException:  # the child must not return to the loop
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else -os.WEXITSTATUS(status), flush=True)


async def _run(
    url: str, effects: str, *, write: int | None = None, after: bool = False, cpu: float | None = None
) -> None:
    """Run the session to its end, or until the process is killed.

    Args:
        url: of the store.
        effects: the file that counts them.
        write: kill at this write.
        after: after it rather than before.
        cpu: end the process after so many seconds of processor time.
    """
    store = open_for_test(url)
    if write is not None:
        _kill_at(store, write, after=after)
    counted = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def record(n: int) -> None:
        os.write(counted, f"{n}\n".encode())

    if cpu is not None:
        signal.setitimer(signal.ITIMER_PROF, cpu)  # nothing handles SIGPROF: it ends the process like SIGKILL
    await finish(store, record)


def _kill_at(store: SessionStore, write: int, *, after: bool) -> None:
    commit, count = store.commit, 0

    async def counting(lease: Lease, what: Commit) -> Any:
        nonlocal count
        count += 1
        if count == write and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        seq = await commit(lease, what)
        if count == write:
            os.kill(os.getpid(), signal.SIGKILL)
        return seq

    store.commit = counting  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
