"""A server on loopback, and readers of its pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from deep_web_tools.download import Downloader
from deep_web_tools.fetch import Fetcher

from tests.web_site import Names, Site


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


@pytest.fixture
def make_fetcher() -> Callable[..., Fetcher]:
    """`make_fetcher(max_bytes=…, names=…, seconds=…)`: reads loopback, unless `allow_private` says otherwise."""

    def make(*, seconds: float = 60, page_chars: int = 20_000, names: Names | None = None, **how: Any) -> Fetcher:
        how = {"max_bytes": 2_000_000, "allow_private": True, **how}
        convert = {"convert": how.pop("convert")} if "convert" in how else {}
        downloader = Downloader(resolver=names or Names(), **how)
        return Fetcher(downloader, seconds=seconds, page_chars=page_chars, **convert)

    return make
