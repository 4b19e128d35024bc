"""Fixtures of the test kit's tests."""

from __future__ import annotations

import pytest

from tests.authors_pytest import RunPytest, authors_pytest
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


@pytest.fixture
def run_pytest(pytester: pytest.Pytester) -> RunPytest:
    """Return a function that runs the files which `pytester` made."""

    def run(*arguments: str) -> pytest.RunResult:
        return pytester.run(*authors_pytest(pytester.path, *arguments))

    return run
