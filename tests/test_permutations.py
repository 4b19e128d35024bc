"""The order of installation, of directory listings and of hashing decides nothing that a provider gets to see."""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path

import pytest

from tests.environments import FIXTURES, REPOSITORY, Distribution, Environment, plugin

INTERPRETERS, FORKS = 20, 5
"""A hundred processes: each interpreter has its own PYTHONHASHSEED and order of installation, each fork its own order
of directory listings."""
INSTALLED = [
    *(Distribution.of_project(REPOSITORY / "plugins" / name) for name in ("backends", "filesystem", "todo")),
    *(Distribution.of_project(FIXTURES / name) for name in ("acme-weather", "acme-cities")),
    Distribution("acme-good", {"good": "acme_good"}, {"acme_good.py": (FIXTURES / "good.py").read_text("utf-8")}),
    *(plugin(name) for name in ("ant", "bee", "cat", "dog")),
]


@pytest.mark.wheels
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_hundred_permutations_send_the_same_bytes(tmp_path: Path) -> None:
    dice = random.Random(1)
    seen: dict[str, str] = {}
    processes = 0
    orders: set[tuple[str, ...]] = set()
    for index in range(INTERPRETERS):
        environment = Environment.create(tmp_path / str(index))
        distributions = dice.sample(INSTALLED, len(INSTALLED))
        orders.add(tuple(distribution.name for distribution in distributions))
        environment.install(*distributions)
        done = environment.run(
            environment.python,
            FIXTURES / "permuted.py",
            str(FORKS),
            str(index),
            env={"PYTHONHASHSEED": str(dice.randrange(2**32))},
        ).ok()
        for bodies in json.loads(done.out):
            processes += 1
            assert len(bodies) == 2  # a tool call, and the answer after it
            seen.setdefault(hashlib.sha256("\n".join(bodies).encode()).hexdigest(), bodies[0])
    assert (processes, len(orders)) == (INTERPRETERS * FORKS, INTERPRETERS)
    assert len(seen) == 1, "\n\n".join(seen.values())
    (first,) = seen.values()
    sent = json.loads(first)
    assert {"forecast", "save_city", "greet", "read_file", "write_todos"} <= {
        t["function"]["name"] for t in sent["tools"]
    }
    assert all(f"This is {name}." in sent["messages"][0]["content"] for name in ("ant", "bee", "cat", "dog"))
