"""How a tool makes its effect happen exactly once: a key that others honor, or a transaction of the store."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .capability import journal_of
from .errors import AgentError
from .ledger_rows import EffectRow, write_row
from .slot import CALL
from .store import Commit

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from .journal import Journal

__all__ = ["effect_key", "transaction"]


def effect_key(ctx: RunContext[Any]) -> str:
    """Return the key of the call that runs: the same in every attempt. For services that take an idempotency key.

    Raises:
        AgentError: no call of a stored session runs here.
    """
    journal, key = _effect(ctx, "effect_key")
    return f"{journal.lease.session_id}:{key}"


@contextmanager
def transaction(ctx: RunContext[Any]) -> Generator[Any]:
    """Open a transaction of the store's own database, which commits the tool's effect together with its record.

    After a crash the session knows whether the block was committed. If it was, the tool does not run again: the model
    reads that the call did its work and that its result was not recorded. If it was not, a tool with
    `metadata={"on_unknown": "retry"}` runs again: so the effect happens exactly once.

    Yields:
        The connection: `sqlite3.Connection` or `psycopg.Connection`. The block's end commits, an exception rolls back.

    Raises:
        AgentError: no effect of a stored session runs here, or the store has no transactions.
        LeaseLost: another runner has the session.
    """
    journal, key = _effect(ctx, "transaction")
    started = journal.effects.get(key)
    if started is None:
        raise AgentError(
            "transaction(ctx): a tool that is tagged read, or of a background task, has no effect to commit"
        )
    row = EffectRow(started.tool, "committed")
    with journal.store.transaction(journal.lease, Commit(put={key: write_row(row)})) as connection:
        yield connection
    journal.effects[key] = row


def _effect(ctx: RunContext[Any], what: str) -> tuple[Journal, str]:
    journal, key = journal_of(ctx), CALL.get()
    if journal is None or not key:
        raise AgentError(f"{what}(ctx) works in a tool, in a session that is stored: run it with DeepAgent or Sessions")
    return journal, key
