"""Combine all loaders: precedence of skills, and the problems of all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deep_core import SkillLoader, SkillMeta

from .loader_kinds import Listing, ListsResources, ReportsProblems
from .problem import Problem, one_line

if TYPE_CHECKING:
    from pydantic_ai import RunContext

__all__ = ["PRECEDENCE", "Library", "SkillChoice", "View"]

PRECEDENCE = ("project", "user", "package")
"""Of two skills with one name, the earlier source wins. An unknown source comes last."""


@dataclass(frozen=True)
class SkillChoice:
    """A skill that can be loaded, and the skills of that name that it replaces."""

    meta: SkillMeta
    loader: SkillLoader
    shadows: tuple[SkillMeta, ...] = ()


@dataclass(frozen=True)
class View:
    """The present skills, by precedence, then name."""

    skills: dict[str, SkillChoice] = field(default_factory=dict[str, SkillChoice])
    problems: tuple[Problem, ...] = ()


def rank(source: str) -> int:
    """0 for the highest precedence."""
    return PRECEDENCE.index(source) if source in PRECEDENCE else len(PRECEDENCE)


class Library:
    """The loaders of one agent. Holds no session.

    Args:
        loaders: called each time: while hooks are being called, not all loaders are known yet.
        logger: logs new problems once, in one line; None if another library logs them.
    """

    def __init__(self, loaders: Callable[[], Sequence[SkillLoader]], logger: logging.Logger | None) -> None:
        self._loaders = loaders
        self._logger = logger
        self._reported: set[Problem] = set()

    async def view(self, ctx: RunContext[Any]) -> View:
        """Call every loader. One that raises becomes a problem; the others count."""
        skills: dict[str, SkillChoice] = {}
        problems: list[Problem] = []
        for loader in sorted(self._loaders(), key=lambda loader: rank(loader.source)):
            listing = await self._listing(loader, ctx)
            problems += listing.problems
            for meta in sorted(listing.skills, key=lambda meta: meta.name):
                first = skills.get(meta.name)
                if first is None:
                    skills[meta.name] = SkillChoice(meta, loader)
                elif first.meta.path != meta.path:
                    skills[meta.name] = SkillChoice(first.meta, first.loader, (*first.shadows, meta))
        self._log(problems)
        return View(skills, tuple(problems))

    async def _listing(self, loader: SkillLoader, ctx: RunContext[Any]) -> Listing:
        try:
            if isinstance(loader, ReportsProblems):
                return await loader.listing(ctx)
            return Listing(tuple(await loader.list(ctx)))
        except Exception as error:  # noqa: BLE001 - another plugin's loader; the others' skills stay usable
            name = f"{type(loader).__module__}.{type(loader).__qualname__}"
            return Listing(problems=(Problem(name, 0, f"this loader failed: {type(error).__name__}: {error}", True),))

    async def resources(self, choice: SkillChoice, ctx: RunContext[Any]) -> Sequence[str]:
        """List the names of a skill's files, if its loader can."""
        if not isinstance(choice.loader, ListsResources):
            return ()
        return [one_line(path) for path in await choice.loader.resources(ctx, choice.meta.name)]

    def _log(self, problems: Sequence[Problem]) -> None:
        if self._logger is None:
            return
        new = [problem for problem in problems if problem not in self._reported]
        self._reported.update(new)
        skipped = sum(problem.fatal for problem in new)
        if len(new) == 1:
            self._logger.warning("%s%s", new[0], " (skipped)" if skipped else "")
        elif new:
            self._logger.warning(
                "%d problems of skills, %d of them skipped, such as %s. All: deep skills check",
                len(new),
                skipped,
                max(new, key=lambda problem: problem.fatal),
            )
