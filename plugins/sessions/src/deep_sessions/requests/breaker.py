"""Circuit breakers: what this process knows of providers that are down, so that one request finds out that one is back.

There is a breaker for each model at each address. It opens when the provider refuses a request (it is down, overloaded,
or allows no more now), and closes with the first answer. While it is open, one request at a time is let through, after
pauses that grow; all others wait for what it finds.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from .ends import End

__all__ = ["Breaker", "BreakerState", "breaker_of", "breakers"]

MOST_PAUSE = 30.0
"""Seconds between two tries at most, unless the provider asks for more."""
PROBE = 60.0
"""Seconds after which another request is let through, though the one before has no answer yet."""
PEEK = 0.25
"""Seconds until who waits for another request's answer looks again."""


@dataclass(frozen=True)
class BreakerState:
    """What is known of a provider that is down.

    Attributes:
        key: the address and the model.
        code: why, as `End.code` says.
        words: why, for people.
        pause: seconds until the next try.
        failures: tries in a row that failed.
    """

    key: str
    code: str
    words: str
    pause: float
    failures: int


class Breaker:
    """What is known of one model at one address. Safe in threads; times are those of a monotonic clock, in seconds.

    Args:
        key: the address and the model.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.end: End | None = None
        """Why it is open; None while it is closed."""
        self._failures = 0
        self._next = 0.0
        self._probing = 0.0
        self._changed = -math.inf
        """When it opened or closed last: how a request ended that was sent before says nothing about now."""
        self._lock = threading.Lock()

    def ask(self, now: float) -> float:
        """Return 0 if a request may be sent now, else the seconds after which to ask again.

        Whoever gets 0 says how the request ended: `succeeded`, `failed` or `released`.
        """
        if self.end is None:
            return 0.0
        with self._lock:
            if now < self._next:
                return self._next - now
            if now < self._probing:
                return PEEK * random.uniform(1, 2)  # noqa: S311 - so that those who wait do not come all at once
            self._probing = now + PROBE
            return 0.0

    def pause(self, now: float) -> float:
        """Return the seconds until the next try, which stays free for whoever asks then."""
        return max(0.0, self._next - now) if self.end is not None else 0.0

    def failed(self, end: End, now: float, first: float, *, sent: float = math.inf) -> None:
        """Note that the provider refused a request.

        Args:
            end: how it ended.
            now: the time.
            first: seconds of the first pause; the further ones are twice as long each, with jitter.
            sent: when it was sent; `inf` for after all that is known.
        """
        with self._lock:
            asked = end.retry_after or 0.0
            if sent >= self._changed:
                self._probing = 0.0
            elif self.end is None:
                return
            if sent < self._changed or (self.end is not None and now < self._next):
                self._next = max(self._next, now + asked)
                return
            if self.end is None:
                self._changed = now
            pause = min(MOST_PAUSE, first * 2**self._failures) * random.uniform(0.5, 1)  # noqa: S311 - jitter
            self._failures += 1
            self.end, self._next = end, now + max(pause, asked)

    def succeeded(self, now: float, *, sent: float = math.inf) -> None:
        """Note that the provider answered, also with an error that is about the request. Arguments as for `failed`."""
        if self.end is not None:
            with self._lock:
                if sent >= self._changed:
                    self.end, self._failures, self._next, self._probing, self._changed = None, 0, 0.0, 0.0, now

    def released(self) -> None:
        """Note that a request ended without an answer, as when it was stopped."""
        self._probing = 0.0

    def state(self, now: float) -> BreakerState | None:
        """Return what is known; None while it is closed."""
        with self._lock:
            if self.end is None:
                return None
            return BreakerState(self.key, self.end.code, self.end.words, max(0.0, self._next - now), self._failures)

    def restore(self, end: End, pause: float, failures: int, now: float) -> None:
        """Open it as another process left it, unless it is open already.

        Args:
            end: why.
            pause: seconds until the next try.
            failures: tries in a row that failed.
            now: the time.
        """
        with self._lock:
            if self.end is None:
                self.end, self._failures, self._next, self._changed = end, failures, now + pause, now


_BREAKERS: dict[str, Breaker] = {}


def breaker_of(model: Model[Any]) -> Breaker:
    """Return the breaker of a model: the same for all models of its name at its address."""
    return _BREAKERS.setdefault(key := f"{model.base_url or model.system} {model.model_name}", Breaker(key))


def breakers() -> Mapping[str, Breaker]:
    """Return all breakers of this process, by their keys."""
    return _BREAKERS
