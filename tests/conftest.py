"""What the kernel's tests share: a home of their own, and throw-away environments."""

from __future__ import annotations

import gc
import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.drawn import examples
from tests.environments import Environment, Here

# A busy machine makes no property false.
settings.register_profile("deep", deadline=None, max_examples=examples(100))
settings.load_profile("deep")
HOMES = itertools.count()
# What a shell starts in the background ignores Ctrl-C, and so would every command that is started here.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The objects of thousands of collected tests are looked through at each collection.
gc.set_threshold(50_000, 20, 20)


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
