"""The real model of `make test-models`: its server, and how many of a test are made."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.environments import REPOSITORY

__all__ = ["SMALL", "WHEELS", "exchanges", "interval", "llama", "real"]

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


def exchanges(address: str) -> dict[str, Any]:
    """What the server says about itself, and one answer, whole and streamed.

    Its model becomes `m`, and its template is left out.
    """

    def ask(path: str, body: dict[str, Any] | None = None) -> str:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address.removesuffix("/v1") + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()

    listed = ask("/v1/models")
    own = json.dumps(json.loads(listed)["data"][0]["id"])  # the path of its file
    body = {"messages": [{"role": "user", "content": "Say one word."}], "max_tokens": 8, "temperature": 0}
    stream = ask("/v1/chat/completions", {**body, "stream": True, "stream_options": {"include_usage": True}})
    chunks = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: {")]

    def read(text: str) -> dict[str, Any]:
        return json.loads(text.replace(own, '"m"'))

    return {
        "version": next(path.name for path in Path(WHEELS).glob("xllamacpp-*.dist-info")).removesuffix(".dist-info"),
        "get": {"/v1/models": read(listed), "/props": {**read(ask("/props")), "chat_template": ""}},
        "whole": read(ask("/v1/chat/completions", body)),
        "chunks": [read(chunk) for chunk in chunks],
    }


def interval(hits: int, of: int) -> str:
    """Wilson's, at 95 %."""
    share, z = hits / of, 1.96
    middle, width = share + z * z / (2 * of), z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    low, high = ((middle + sign * width) / (1 + z * z / of) for sign in (-1, 1))
    return f"{hits} of {of}: {share:.0%}, {low:.0%} to {high:.0%}"
