"""The live sections: `catalog`, the available skills, and `active`, instructions that a compaction removed."""

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
    """Build the function of the section `catalog`: it reads skills at the first request of each run.

    Within a run the text stays the same, whatever happens in the folders: a model that writes a SKILL.md does
    not change its catalog. The next run reads again; changes are appended, nothing is rewritten.

    Args:
        loaders: of every plugin.
        logger: logs each problem once.
        limit: maximum characters.
    """

    @cache
    def library() -> Library:
        from .library import Library

        return Library(loaders, logger)

    async def read(ctx: RunContext[Any]) -> str | None:
        # Most agents have no skills: they load none of the code that reads skills.
        if all(isinstance(loader, DirectoryLoader) and loader.is_empty() for loader in loaders()):
            return None
        from .catalog import catalog_text

        view = await library().view(ctx)
        return catalog_text([choice.meta for choice in view.skills.values()], limit)

    async def catalog(ctx: RunContext[Any]) -> str | None:
        record: CatalogSeen = ctx.deps.state[CATALOG]
        if record.run_id is None or record.run_id != ctx.run_id:
            ctx.deps.state[CATALOG] = record = CatalogSeen(ctx.run_id, await read(ctx))
        return record.text

    return catalog


def restate(ctx: RunContext[Any]) -> str | None:
    """Build the live section `active`: instructions in use that left the conversation."""
    active: Mapping[str, ActiveSkill] = ctx.deps.state[SKILLS]
    if not active:
        return None
    from .repetition import instructions_to_repeat

    return instructions_to_repeat(active, ctx)
