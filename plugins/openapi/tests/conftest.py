"""A server made from a document, for the tests of this plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .mock_server import MockServer


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def serve() -> Iterator[Callable[..., MockServer]]:
    made: list[MockServer] = []

    def start(document: dict[str, Any] | None = None) -> MockServer:
        made.append(MockServer(document))
        return made[-1]

    yield start
    for server in made:
        server.close()
