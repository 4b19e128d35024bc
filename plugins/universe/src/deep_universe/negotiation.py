"""Choose the driver that fits best, by the drivers' own scores: no table says which model speaks what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from deep_core.plugin_api import suggest

from .driver import ToolDriver, WireTarget
from .errors import DriverContractError, DriverNotFoundError, NoDriverError

__all__ = ["Scores", "best", "driver_for", "driver_named", "scores_of"]

Scores: TypeAlias = Sequence[tuple[ToolDriver, int]]
"""Each driver with its score, in the order of registration."""


def scores_of(drivers: Iterable[ToolDriver], ask: Callable[[ToolDriver], Any]) -> Scores:
    """Return what each driver answers, checked.

    Args:
        drivers: in the order of registration.
        ask: `can_handle` or `can_handle_response`, with what it is asked about.

    Raises:
        DriverContractError: a score is not an int from 0 to 100.
    """
    return [(driver, _checked(driver, ask(driver))) for driver in drivers]


def best(scores: Scores) -> ToolDriver | None:
    """Return the driver with the highest score, then the highest `priority`, then the first; None if all are 0."""
    fitting = [(driver, score) for driver, score in scores if score]
    # `max` returns the first of equals, so the order of registration decides last.
    return max(fitting, key=lambda entry: (entry[1], entry[0].priority))[0] if fitting else None


def driver_for(drivers: Iterable[ToolDriver], target: WireTarget) -> ToolDriver:
    """Return the driver that fits a model best.

    Raises:
        NoDriverError: every score is 0; the message lists them.
        DriverContractError: a score is not an int from 0 to 100.
    """
    scores = scores_of(drivers, lambda driver: driver.can_handle(target))
    found = best(scores)
    if found is None:
        listed = ", ".join(f"{driver.name} {score}" for driver, score in scores) or "there are no drivers"
        raise NoDriverError(
            f"no driver can render tools for {target.name!r} ({listed}); name a driver instead, or add one with "
            "add_driver(…)"
        )
    return found


def driver_named(drivers: Iterable[ToolDriver], name: str) -> ToolDriver:
    """Return the driver of this name.

    Raises:
        DriverNotFoundError: there is none; the message lists the names.
    """
    known = {driver.name: driver for driver in drivers}
    if name not in known:
        listed = ", ".join(known) or "none"
        raise DriverNotFoundError(f"there is no driver {name!r}.{suggest(name, known)} The drivers are: {listed}")
    return known[name]


def _checked(driver: ToolDriver, score: object) -> int:
    # True is an int, and no score.
    if isinstance(score, int) and not isinstance(score, bool) and 0 <= score <= 100:
        return score
    raise DriverContractError(f"driver {driver.name!r} scored {score!r}: a score is an int from 0 to 100")
