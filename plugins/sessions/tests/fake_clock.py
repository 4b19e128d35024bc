"""An event loop whose clock jumps to the next timer, so that no test waits for a time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """Never waits: time passes instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout:
            self.now += timeout
        return ready


class FakeClockLoop(asyncio.SelectorEventLoop):
    """A loop without a clock of its own. It is for tests without sockets and processes."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Return the seconds that would have passed."""
        return self._jumping.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in such a loop."""
    with asyncio.Runner(loop_factory=FakeClockLoop) as runner:
        return runner.run(main)
