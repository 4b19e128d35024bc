"""Fixtures of the test kit's tests."""

from __future__ import annotations

import pytest

from tests.docs_pages import SHOWN_DIFFERENTLY


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Run pytest with an author's environment, wherever these tests run."""
    for name in SHOWN_DIFFERENTLY:
        monkeypatch.delenv(name, raising=False)
    return pytester
