"""The live sections: `catalog`, which skills there are, and `active`, instructions that a compaction took away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from .directories import DirectoryLoader
from .slot import CATALOG, SKILLS, CatalogSeen

if TYPE_CHECKING:
    import logging

    from pydantic_ai import RunContext

    from deep_core import SkillLoader

    from .active import ActiveSkill
    from .library import Library

__all__ = ["catalog_section", "restate"]


def catalog_section(
    loaders: Callable[[], Sequence[SkillLoader]], logger: logging.Logger, limit: int
) -> Callable[[RunContext[Any]], Awaitable[str | None]]:
    """The function of the section `catalog`: read at the first request of each run.

    Within a run the text stays as it was read, whatever happens in the folders: a model that writes a SKILL.md does
    not change its own catalogue. The next run reads again; what differs is appended, nothing is rewritten.

    Args:
        loaders: of every plugin.
        logger: told of each problem, the first time it is seen.
        limit: characters.
    """

    @cache
    def library() -> Library:
        from .library import Library

        return Library(loaders, logger)

    async def read(ctx: RunContext[Any]) -> str | None:
        # Most agents have no skills in any place: they load nothing of what reads skills.
        if all(isinstance(loader, DirectoryLoader) and loader.is_empty() for loader in loaders()):
            return None
        from .catalog import catalog_text

        view = await library().view(ctx)
        return catalog_text([offered.meta for offered in view.skills.values()], limit)

    async def catalog(ctx: RunContext[Any]) -> str | None:
        seen: CatalogSeen = ctx.deps.state[CATALOG]
        if seen.run_id is None or seen.run_id != ctx.run_id:
            ctx.deps.state[CATALOG] = seen = CatalogSeen(ctx.run_id, await read(ctx))
        return seen.text

    return catalog


def restate(ctx: RunContext[Any]) -> str | None:
    """The live section `active`: instructions that are in use and no longer in the conversation."""
    active: Mapping[str, ActiveSkill] = ctx.deps.state[SKILLS]
    if not active:
        return None
    from .presence import restated

    return restated(active, ctx)
