"""How hypothesis draws: one profile for every test, which DEEP_TEST_PROFILE chooses.

- `same` (the default, so `make test`): each test draws the same few examples every time.
- `ci` (`make test-all` and `.ci/run`): new examples each time, at most 50.
- `nightly` (`make test-nightly`): as many as the test asks for, and 10,000 of each test that draws sequences.
- `few` (other versions, in `.ci/run`): the first five of `same`, and of each test's parameters the first ones.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

__all__ = ["examples", "first_of_each", "load_profile", "many", "part_of_all", "sample", "sequences"]

PROFILE = os.environ.get("DEEP_TEST_PROFILE", "same")
MOST = {"same": 15, "ci": 50, "nightly": None, "few": 5}
"""Profile -> the most examples that a test draws."""
NO_FAULT = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
"""These say that a draw was slow or thrown away: on a busy machine, or by chance, of any strategy."""


def examples(wanted: int) -> int:
    """`max_examples` of a test that asks for this many."""
    most = MOST[PROFILE]
    return wanted if most is None else min(wanted, most)


def sequences(wanted: int) -> int:
    """`max_examples` of a test that draws sequences: `make test` draws 50, CI all, `make test-nightly` 10,000."""
    return {"same": min(wanted, 50), "few": 5, "nightly": 10_000}.get(PROFILE, wanted)


def load_profile() -> None:
    """Make the profile the default of every test in this process."""
    random = PROFILE in ("ci", "nightly")
    settings.register_profile(
        PROFILE,
        max_examples=examples(100),
        derandomize=not random,
        deadline=None,
        print_blob=random,
        suppress_health_check=NO_FAULT,
    )
    settings.load_profile(PROFILE)


def many(full: int, few: int, *, nightly: int | None = None) -> int:
    """How many of the same a test makes (sessions, turns): `full` in CI, elsewhere as few as still show it.

    Mark the test `more`, so that CI runs it again in full. `make test-nightly` runs the files that say `nightly=`.
    """
    return {"ci": full, "nightly": nightly or full}.get(PROFILE, few)


def sample(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Parameters of a matrix: `make test` takes only those that are kept, `make test-all` every one.

    A tuple has the values of several parameters.
    """
    every = list(values)
    if missing := [value for value in kept if value not in every]:
        raise ValueError(f"not in the matrix: {missing}")
    rows: list[tuple[Any, ...]] = [value if isinstance(value, tuple) else (value,) for value in every]
    marks = [() if value in kept else pytest.mark.exhaustive for value in every]
    return [pytest.param(*row, marks=mark) for row, mark in zip(rows, marks, strict=True)]


def first_of_each(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `few`, keep each test's first parameters; pytest counts the others as deselected."""
    if PROFILE != "few":
        return
    rows = defaultdict[tuple[pytest.Collector | None, str], list[pytest.Item]](list)
    for item in items:
        rows[item.parent, item.name.partition("[")[0]].append(item)
    kept = {row[0] for row in rows.values()}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def part_of_all(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With DEEP_TEST_PART=K/N, keep that part of the exhaustive tests, and with `few` of all tests.

    pytest counts the others as deselected.
    """
    if "DEEP_TEST_PART" not in os.environ:
        return
    part, parts = map(int, os.environ["DEEP_TEST_PART"].split("/"))
    kept, left = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        divided = PROFILE == "few" or item.get_closest_marker("exhaustive")
        (left if divided and zlib.crc32(item.nodeid.encode()) % parts != part else kept).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept
