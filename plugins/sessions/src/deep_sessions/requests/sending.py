"""One request until it is answered: which model is asked, when it is asked again, and when it is given up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .breaker import Breaker, breaker_of
from .ends import End, RequestFailed, end_of_error
from .patience import BEGUN, Patience

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pydantic_ai.models import Model

__all__ = ["Sending", "Wait", "wait_words"]

Report = "Callable[[Wait], Awaitable[None]]"


class Wait:
    """A wait, or the step to another model, after a request that failed.

    Attributes:
        model: the model that failed.
        end: how its request ended.
        seconds: until it is asked again; 0 for another model now.
        attempt: how often it was asked.
        replaces: whether text of the failed answer was shown: the next answer replaces it.
    """

    def __init__(self, model: str, end: End, seconds: float, attempt: int, *, replaces: bool) -> None:
        self.model, self.end, self.seconds, self.attempt, self.replaces = model, end, seconds, attempt, replaces


def wait_words(model: str, reason: str, seconds: float, *, replaces: bool) -> str:
    """Return what a wait is for, as `the provider is overloaded; again in 8 s`. Arguments as in `RetryEvent`."""
    begins = "; the answer begins again" if replaces else ""
    if not seconds:
        return f"{model}: {reason}; the next model is asked{begins}"
    return f"{reason}; again {f'in {seconds:.0f} s' if seconds >= 1 else 'at once'}{begins}"


class Sending:
    """The attempts of one request.

    Args:
        models: to ask, the first one first.
        patience: how often, and how long.
        report: is told of each wait.
    """

    def __init__(
        self, models: Sequence[Model[Any]], patience: Patience, report: Callable[[Wait], Awaitable[None]]
    ) -> None:
        self._models = [*models]
        self._patience = patience
        self._report = report
        self._at = 0
        """The model that is asked."""
        self._rounds = 0
        """How often all models have failed."""
        self._begun = 0
        """Attempts that a provider took on."""
        self._waited = 0.0
        self._asked: Breaker | None = None
        """The breaker that waits to hear how the attempt under way ends."""
        self._sent = 0.0
        """When that attempt began."""
        self.replaces = False
        """Whether pieces of an answer were handed on."""

    async def model(self) -> Model[Any]:
        """Return the model to ask now. Waits while all are known to be down.

        Raises:
            RequestFailed: they are down for longer than this request may wait.
        """
        clock = asyncio.get_running_loop().time
        while True:
            pauses: list[float] = []
            for at in range(self._at, len(self._models)):
                breaker = breaker_of(self._models[at])
                pause = breaker.ask(clock())
                if not pause:
                    return self._ask(at, breaker, clock())
                pauses.append(pause)
            model = self._models[self._at]
            if self._patience.is_told_when:
                return self._ask(self._at, breaker_of(model), clock())
            if (end := breaker_of(model).end) is not None:
                await self._pause(min(pauses), model, end)
            self._at = 0

    def _ask(self, at: int, breaker: Breaker, now: float) -> Model[Any]:
        self._at, self._asked, self._sent = at, breaker, now
        return self._models[at]

    def succeeded(self) -> None:
        """Note that the provider answered."""
        if self._asked is not None:
            self._asked.succeeded(asyncio.get_running_loop().time(), sent=self._sent)
            self._asked = None

    def stopped(self) -> None:
        """Note that the request was stopped before an answer."""
        if self._asked is not None:
            self._asked.released()
            self._asked = None

    async def failed(self, error: Exception) -> None:
        """Return if the request is to be sent again: to another model now, or to the same one after a wait.

        Raises:
            Exception: the error; another attempt would not help, or is not allowed.
        """
        model, breaker, self._asked = self._models[self._at], self._asked, None
        end = end_of_error(error, in_request=True)
        if end is None:
            if breaker is not None:
                breaker.released()
            raise error
        clock = asyncio.get_running_loop().time
        if breaker is not None:
            if end.refused:
                breaker.failed(end, clock(), self._patience.backoff, sent=self._sent)
            else:
                breaker.succeeded(clock(), sent=self._sent)
        self._begun += not end.refused
        last = self._at == len(self._models) - 1
        if end.kind == "overflow" or (last and (end.final or not end.retryable)):
            raise error
        if not last:
            await self._report(Wait(model.model_id, end, 0, self._rounds + 1, replaces=self.replaces))
            self._at += 1
            return
        self._rounds += 1
        most = self._patience.max_attempts
        if (self._rounds >= most) if most is not None else (self._begun >= BEGUN):
            raise error
        pause = breaker.pause(clock()) if breaker is not None and end.refused else 0.0
        if not pause:
            pause = self._patience.backoff * 2 ** (self._rounds - 1) * random.uniform(0.5, 1)  # noqa: S311 - jitter
            pause = max(pause, end.retry_after or 0.0)
        self._at = 0
        await self._pause(pause, model, end, error)

    async def _pause(self, seconds: float, model: Model[Any], end: End, error: Exception | None = None) -> None:
        if self._waited + seconds > self._patience.max_wait:
            raise error or RequestFailed(model.model_name, end)
        self._waited += seconds
        await self._report(Wait(model.model_id, end, seconds, self._rounds, replaces=self.replaces))
        await asyncio.sleep(seconds)
