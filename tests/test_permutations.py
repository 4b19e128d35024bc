"""The order of installation, of directory listings and of hashing decides nothing that a provider gets to see."""

from __future__ import annotations

import hashlib
import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.drawn import many
from tests.environments import FIXTURES, REPOSITORY, Distribution, Environment, plugin

INTERPRETERS, FORKS = many(3, 5), many(6, 20)
"""Each interpreter has its own PYTHONHASHSEED and order of installation, each fork its own order of directory
listings."""
INSTALLED = [
    *(Distribution.of_project(REPOSITORY / "plugins" / name) for name in ("backends", "filesystem", "todo")),
    *(Distribution.of_project(FIXTURES / name) for name in ("acme-weather", "acme-cities")),
    Distribution("acme-good", {"good": "acme_good"}, {"acme_good.py": (FIXTURES / "good.py").read_text("utf-8")}),
    *(plugin(name) for name in ("ant", "bee", "cat", "dog")),
]


@pytest.mark.wheels
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_every_order_sends_the_same_bytes(tmp_path: Path) -> None:
    dice = random.Random(1)
    orders = [dice.sample(INSTALLED, len(INSTALLED)) for _ in range(INTERPRETERS)]
    hash_seeds = [str(dice.randrange(2**32)) for _ in range(INTERPRETERS)]

    def conversations(index: int) -> list[list[str]]:
        environment = Environment.create(tmp_path / str(index))
        environment.install(*orders[index])
        program = [FIXTURES / "permuted.py", str(FORKS), str(index)]
        return json.loads(
            environment.run(environment.python, *program, env={"PYTHONHASHSEED": hash_seeds[index]}, timeout=600)
            .ok()
            .out
        )

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [bodies for part in pool.map(conversations, range(INTERPRETERS)) for bodies in part]
    assert len(found) == INTERPRETERS * FORKS
    assert all(len(bodies) == 2 for bodies in found)  # a tool call, and the answer after it
    hashes = {hashlib.sha256("\n".join(bodies).encode()).hexdigest(): bodies[0] for bodies in found}
    assert len(hashes) == 1, "\n\n".join(hashes.values())
    sent = json.loads(found[0][0])
    tools = {tool["function"]["name"] for tool in sent["tools"]}
    assert tools >= {"forecast", "save_city", "greet", "read_file", "write_todos"}
    prompt = "\n".join(message["content"] for message in sent["messages"] if message["role"] == "system")
    assert [name for name in ("ant", "bee", "cat", "dog") if f"This is {name}." in prompt] == [
        "ant",
        "bee",
        "cat",
        "dog",
    ]
