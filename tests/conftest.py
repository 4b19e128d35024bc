"""What the kernel's tests share: a home of their own, and throw-away environments."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environments import Environment, Here

HOMES = itertools.count()


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without configuration, cache or data, and without DEEP_ settings: a developer's own change no result."""
    # To find the next number, pytest would look through the folders of all tests before: thousands.
    home = tmp_path_factory.mktemp(f"home-{next(HOMES)}", numbered=False)
    for key in os.environ:
        if key.startswith(("DEEP_", "XDG_")):
            monkeypatch.delenv(key)
    for key in ("HOME", "USERPROFILE", "LOCALAPPDATA"):
        monkeypatch.setenv(key, str(home))
    return home


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """An interpreter with the kernel from the checkout and no plugin."""
    return Environment.create(tmp_path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    """This interpreter with a site directory of its own."""
    found = Here(tmp_path / "site", monkeypatch)
    yield found
    found.forget()
