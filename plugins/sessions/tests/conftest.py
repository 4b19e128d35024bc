"""The PostgreSQL that the tests of stores share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgresql import Cluster, cluster


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    with cluster() as running:
        yield running
