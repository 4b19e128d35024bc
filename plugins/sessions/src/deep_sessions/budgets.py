"""Budgets: what a run, a session and an owner may use, subagents included."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.tools import RunContext

from .capability import journal_of
from .conversations import is_person
from .errors import LimitExceeded, SessionNotFound
from .fold import Run, day_of, fold

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext

    from deep_core import AgentConfig

    from .journal import Journal

__all__ = ["Budgets"]

PAGE = 200


@dataclass
class _Used:
    """What was used."""

    requests: int = 0
    tokens: int = 0
    usd: Decimal = field(default_factory=Decimal)

    def add(self, usage: Mapping[str, Any]) -> None:
        """Add a usage as the journal has it."""
        self.requests += int(usage.get("requests", 0))
        self.tokens += int(usage.get("input_tokens", 0)) + int(usage.get("output_tokens", 0))
        self.usd += Decimal(str(usage.get("cost") or 0))


class Budgets(AbstractCapability[Any]):
    """Ends a run before a model request that would begin after a budget is spent.

    Runs without a store have only a run's budget. It has only hooks that the kernel hosts.

    Args:
        config: the configuration with the budgets.
    """

    id = "deep.sessions.budgets"

    def __init__(self, config: AgentConfig) -> None:
        self.limits = config.limits
        self._others: dict[str, tuple[int, Run | None]] = {}
        """Session -> the number of its last entry, and its last run: loaded again only if it has changed."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """End the run if a budget is spent."""
        limits, journal = self.limits, journal_of(ctx)
        now = vars(ctx.usage)
        _check("run", limits.run, now)
        run = journal.state.run if journal is not None else None
        if journal is None or run is None:
            return request_context
        _check("session", limits.session, now, run.before)
        if limits.owner.model_dump(exclude_none=True):
            _check("owner", limits.owner, now, run.before, *(await self._of_others(journal, None)))
        if limits.day.model_dump(exclude_none=True):
            today = day_of(time.time())
            mine = [run.before_today] if run.day == today else []
            _check("day", limits.day, now, *mine, *(await self._of_others(journal, today)))
        return request_context

    async def _of_others(self, journal: Journal, day: str | None) -> list[Mapping[str, Any]]:
        """Return what the owner's other sessions used, on a day or ever."""
        found: list[Mapping[str, Any]] = []
        owner, offset = journal.state.info.owner, 0
        # A worker's store shows all owners. A person in many folders is one.
        store = journal.store.root if is_person(owner) else journal.store.root.for_owner(owner or "")
        while page := await store.list(limit=PAGE, offset=offset):
            offset += PAGE
            for info in page:
                is_old = day is not None and day_of(info.updated_at) < day
                if (
                    info.id == journal.lease.session_id
                    or not (info.owner == owner or (is_person(owner) and is_person(info.owner)))
                    or is_old
                ):
                    continue
                known = self._others.get(info.id)
                if known is None or known[0] != info.seq:
                    try:
                        known = self._others[info.id] = info.seq, fold(await store.load(info.id)).run
                    except SessionNotFound:  # deleted meanwhile
                        continue
                run = known[1]
                if run is not None and day is None:
                    found += [run.usage, run.before]
                elif run is not None and run.day == day:
                    found += [run.usage, run.before_today]
        return found


def _check(name: str, budget: Any, *usages: Mapping[str, Any]) -> None:
    used = _Used()
    for usage in usages:
        used.add(usage)
    for key in ("requests", "tokens", "usd"):
        limit, spent = getattr(budget, key), getattr(used, key)
        if limit is not None and spent >= Decimal(str(limit)):
            raise LimitExceeded(f"{spent} {key} are used, and the {name} has {limit}: limits.{name}.{key}")
