"""`fetch`: read a page, convert it, and show it in parts."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio

from .charsets import decode
from .download import Download, Downloader
from .errors import WebError
from .kinds import is_html
from .markdown import convert
from .pages import WebPage

__all__ = ["Convert", "Fetcher"]

KEPT = 8
"""Pages that are kept to be read on."""
Convert: TypeAlias = Callable[..., Awaitable[tuple[str, str, bool]]]


class Fetcher:
    """Reads pages. Those read last are kept, so that the parts of one page fit together.

    Args:
        downloader: downloads pages, within its limits.
        seconds: time limit of one page, with its conversion.
        page_chars: maximum characters of one result.
        convert: converts HTML to Markdown.
    """

    def __init__(self, downloader: Downloader, *, seconds: float, page_chars: int, convert: Convert = convert) -> None:
        self._downloader = downloader
        self._seconds = seconds
        self._page_chars = page_chars
        self._convert = convert
        self._pages: OrderedDict[str, WebPage] = OrderedDict()

    async def fetch(self, url: str, offset: int = 0) -> str:
        """Return a part of a page. The first part is always read anew.

        Args:
            url: the address.
            offset: the first character of the page's text.

        Raises:
            WebError: the page cannot be read; the message is for the model.
        """
        page = self._pages.get(url) if offset else None
        if page is None:
            page = await self._read(url)
            self._pages[url] = page
        self._pages.move_to_end(url)
        while len(self._pages) > KEPT:
            self._pages.popitem(last=False)
        return page.show(offset, self._page_chars)

    async def _read(self, url: str) -> WebPage:
        try:
            with anyio.fail_after(self._seconds):
                return await self._to_page(await self._downloader.download(url))
        except TimeoutError as error:
            raise WebError(f"the page took longer than {self._seconds:g} seconds. Try another page.") from error

    async def _to_page(self, download: Download) -> WebPage:
        html = is_html(download.kind, download.body)
        text, _ = decode(download.body, download.charset, html=html)
        if html:
            title, text, cut = await self._convert(text, download.url, most=self._downloader.max_bytes)
            return WebPage(download.url, title, text, download.more or cut)
        if download.kind == "application/json" and not download.more and "\n" not in text.strip():
            text = _in_lines(text)
        return WebPage(download.url, "", text.strip(), download.more)


def _in_lines(text: str) -> str:
    """Write JSON in lines, so that a part of it ends with one; as it is if that makes it much longer."""
    try:
        lines = json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except (ValueError, RecursionError):
        return text
    return lines if len(lines) < 2 * len(text) + 100 else text
