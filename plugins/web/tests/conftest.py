"""A server for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from plugins.web.tests.served import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """`deep web` for a folder of the test, with the scripted model and a store of its own."""
    with serving(tmp_path) as running:
        yield running
