"""Which servers' tools are in each request, and which the model finds by search: one budget over all of them.

Twenty-eight servers of everyday use have 134 tools, which were 23,800 tokens of every request.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from .listing import ListedTool, Listing

__all__ = ["searched", "tokens_of"]

CHARS_PER_TOKEN = 4
"""As `deep explain` estimates."""


def tokens_of(tools: Iterable[ListedTool]) -> int:
    """Return the estimated tokens of tools in a request."""
    chars = 0
    for tool in tools:
        shown = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
        chars += len(json.dumps(shown, separators=(",", ":")))
    return -(-chars // CHARS_PER_TOKEN)


def searched(listings: Sequence[tuple[str, Listing]], budget: int, above: int) -> frozenset[str]:
    """Return the servers whose tools are found by search.

    A server is shown whole or not at all: half of its tools would hide the other half. The cheapest come first, so that
    one large server does not hide many small ones.

    Args:
        listings: of each server that has listed its tools.
        budget: tokens of the tools that are shown.
        above: the number of tools above which a server is searched in any case.
    """
    costs = {name: tokens_of(listing.tools) for name, listing in listings if len(listing.tools) <= above}
    spent, shown = 0, set[str]()
    for name in sorted(costs, key=lambda name: (costs[name], name)):
        spent += costs[name]
        if spent <= budget:
            shown.add(name)
    return frozenset(name for name, _ in listings if name not in shown)
