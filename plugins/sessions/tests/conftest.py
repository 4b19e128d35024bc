"""What the tests of stores share: a PostgreSQL, and a process that forks others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from plugins.sessions.tests.zygote import Zygote
from tests.postgresql import Cluster, cluster


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote() as running:
        yield running
