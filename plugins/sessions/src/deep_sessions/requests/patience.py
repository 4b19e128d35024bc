"""How long a request may take, and how long it is waited for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from deep_core import AgentConfig

__all__ = ["Patience", "patience"]

BEGUN = 3
"""How often a request is sent at most if the provider takes it on and does not answer well: each costs tokens."""
THINKING = 5
"""How many times longer a model may be silent before its first word, and while it only thinks."""
_MAX_WAIT: ContextVar[float | None] = ContextVar("deep_sessions_max_wait", default=None)


class Patience(NamedTuple):
    """What `[agent.model]` says about time.

    Attributes:
        max_attempts: how often a request is sent at most; None: as often as `max_wait` allows.
        backoff: seconds before the first retry.
        wait: seconds that a request waits in all while the provider refuses.
        timeout: seconds that one request may take; None for no limit.
        stall: seconds that a stream may be silent.
    """

    max_attempts: int | None = None
    backoff: float = 0.5
    wait: float = 120.0
    timeout: float | None = None
    stall: float = 120.0

    @classmethod
    def of(cls, config: AgentConfig) -> Patience:
        """Read it from the configuration of an agent."""
        model = config.model
        return cls(
            model.retry.max_attempts,
            model.retry.backoff_ms / 1000,
            model.retry.max_wait_ms / 1000,
            None if model.timeout_ms is None else model.timeout_ms / 1000,
            model.stall_ms / 1000,
        )

    @property
    def max_wait(self) -> float:
        """Seconds that a request waits in all: the configuration's, or less where `patience` says so."""
        given = _MAX_WAIT.get()
        return self.wait if given is None else min(given, self.wait)

    @property
    def is_told_when(self) -> bool:
        """Whether who sends requests is told when to: by a queue, which all its workers' refusals reach.

        What this process alone knows of the provider may be older: it would refuse what the queue lets through.
        """
        return _MAX_WAIT.get() == 0


@contextmanager
def patience(seconds: float) -> Generator[None]:
    """Limit how long the requests that begin in this block wait for a provider that refuses.

    A worker does so: it hands the session back to its queue, and takes another.

    Args:
        seconds: in all for each request; 0 to send it once, whatever this process knows of the provider.
    """
    token = _MAX_WAIT.set(seconds)
    try:
        yield
    finally:
        _MAX_WAIT.reset(token)
