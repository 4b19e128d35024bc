"""What the tests of the index share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sites import Site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty site directory on `sys.path`, behind an empty working directory as `python -c` has it there."""
    made = Site(tmp_path / "site", tmp_path / "cache")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", ["", *sys.path, str(made.path)])
    # As if the process had started after the installation, and after every change.
    monkeypatch.setattr("entry_point_index.cache.STARTED", sys.maxsize)
    yield made
    for name in [name for name in sys.modules if name.partition(".")[0] in ("acme", "acme_sun")]:
        del sys.modules[name]
