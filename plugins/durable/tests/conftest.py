"""The stores whose queues are tested: a SQLite file and a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgresql import Cluster, cluster


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def sqlite_store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'sessions.db'}"


@pytest.fixture
def postgresql_store(postgresql: Cluster) -> str:
    return postgresql.create_database()


@pytest.fixture(
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.needs("PostgreSQL")),
    ]
)
def store(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{request.param}_store")
