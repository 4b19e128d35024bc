"""`search`: ask the configured provider, and show what it found as data."""

from __future__ import annotations

import anyio

from .errors import WebError
from .pages import frame, one_line
from .providers import Search

__all__ = ["Searcher"]

LONGEST = 1_000
"""Maximum characters of a query."""


class Searcher:
    """Searches the web.

    Args:
        search: asks the provider.
        provider: its name, for messages.
        seconds: time limit of one search.
        most: maximum results.
    """

    def __init__(self, search: Search, *, provider: str, seconds: float, most: int) -> None:
        self._search = search
        self._provider = provider
        self._seconds = seconds
        self._most = most

    async def search(self, query: str) -> str:
        """Return what the provider found, marked as data.

        Raises:
            WebError: the search failed; the message is for the model.
        """
        query = query.strip()
        if not query or len(query) > LONGEST:
            raise WebError(f"a query has 1 to {LONGEST:,} characters.")
        try:
            with anyio.fail_after(self._seconds):
                found = await self._search(query)
        except WebError:
            raise
        except TimeoutError as error:
            raise WebError(f"the search took longer than {self._seconds:g} seconds. Try again later.") from error
        except Exception as error:  # the errors of the providers' packages have no common base
            raise WebError(f"{self._provider} failed: {one_line(str(error)) or type(error).__name__}") from error
        if not found:
            return "Nothing was found. Try other words."
        lines = [
            f"{number}. {one_line(item.title) or '(no title)'}\n   {one_line(item.url, 2_000)}\n   "
            + " ".join(item.text.split())
            for number, item in enumerate(found[: self._most], 1)
        ]
        return frame("search_results", {"query": query}, "\n".join(lines))
