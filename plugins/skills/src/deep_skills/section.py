"""The live section `catalog`: which skills there are, read at the first request of each run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from .catalog import catalog_text
from .library import Library
from .slot import CATALOG, CatalogSeen

if TYPE_CHECKING:
    from pydantic_ai import RunContext

__all__ = ["catalog_section"]


def catalog_section(library: Library, limit: int) -> Callable[[RunContext[Any]], Awaitable[str | None]]:
    """The section's function.

    Within a run the text stays as it was read, whatever happens in the folders: a model that writes a SKILL.md does
    not change its own catalogue. The next run reads again; what differs is appended, nothing is rewritten.
    """

    async def catalog(ctx: RunContext[Any]) -> str | None:
        seen: CatalogSeen = ctx.deps.state[CATALOG]
        if seen.run_id is None or seen.run_id != ctx.run_id:
            view = await library.view(ctx)
            text = catalog_text([offered.meta for offered in view.skills.values()], limit)
            ctx.deps.state[CATALOG] = seen = CatalogSeen(ctx.run_id, text)
        return seen.text

    return catalog
