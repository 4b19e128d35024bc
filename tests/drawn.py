"""How much a test does, in one of two profiles, which DEEP_TEST_PROFILE chooses.

- `default` (`make test`, `make test-slow`, `make test-oldest`): few examples, the same in each run.
- `nightly` (`make test-nightly`): as many as a test asks for, new ones in each run, and every matrix.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

__all__ = ["examples", "load_profile", "many", "sample", "sequences"]

PROFILE = os.environ.get("DEEP_TEST_PROFILE", "default")
NIGHTLY = {"default": False, "nightly": True}[PROFILE]
NO_FAULT = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
"""These say that a draw was slow or thrown away: on a busy machine, or by chance, of any strategy."""


def many(few: int, nightly: int) -> int:
    """How many of the same a test makes (sessions, turns): as few as still show it, and at night `nightly`."""
    return nightly if NIGHTLY else few


def examples(wanted: int) -> int:
    """`max_examples` of a test that asks for this many."""
    return many(min(wanted, 15), wanted)


def sequences(wanted: int) -> int:
    """`max_examples` of a test that draws sequences of this many."""
    return many(min(wanted, 50), 10_000)


def load_profile() -> None:
    """Make the profile the default of every test in this process."""
    settings.register_profile(
        PROFILE,
        max_examples=examples(100),
        derandomize=not NIGHTLY,
        deadline=None,
        print_blob=NIGHTLY,
        suppress_health_check=NO_FAULT,
    )
    settings.load_profile(PROFILE)


def sample(values: Iterable[Any], *kept: Any, slow: Collection[Any] = ()) -> list[Any]:
    """Parameters of a matrix: `make test` takes those that are kept, `make test-slow` the slow ones, the night all.

    A tuple has the values of several parameters.
    """
    every = list(values)
    if missing := [value for value in (*kept, *slow) if value not in every]:
        raise ValueError(f"not in the matrix: {missing}")
    rows: list[tuple[Any, ...]] = [value if isinstance(value, tuple) else (value,) for value in every]
    marks = [() if value in kept else pytest.mark.slow if value in slow else pytest.mark.exhaustive for value in every]
    return [pytest.param(*row, marks=mark) for row, mark in zip(rows, marks, strict=True)]
