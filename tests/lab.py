"""The real model of `make test-models`: its server, and how many of a test are made."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.environments import REPOSITORY

__all__ = ["SMALL", "WHEELS", "interval", "llama", "real"]

WHEELS = os.environ.get("DEEP_MODELS", "")
SMALL = os.environ.get("DEEP_MODELS_SAMPLE") == "1"
real = [
    pytest.mark.anyio,
    pytest.mark.skipif(not WHEELS, reason="make test-models runs a real model"),
]
"""The marks of its tests."""


@contextmanager
def llama(window: int) -> Iterator[str]:
    """Serve SmolLM2 with a window of so many tokens; give the address."""
    program = [sys.executable, str(REPOSITORY / "tests" / "llama_server.py"), str(window)]
    environment = {**os.environ, "PYTHONPATH": WHEELS}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(program, env=environment, text=True, **pipes) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        address = next(line for line in server.stdout if line.startswith("address ")).split()[1]
        yield f"{address}/v1"
        server.stdin.close()
        server.terminate()


def interval(hits: int, of: int) -> str:
    """Wilson's, at 95 %."""
    share, z = hits / of, 1.96
    middle, width = share + z * z / (2 * of), z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    low, high = ((middle + sign * width) / (1 + z * z / of) for sign in (-1, 1))
    return f"{hits} of {of}: {share:.0%}, {low:.0%} to {high:.0%}"
