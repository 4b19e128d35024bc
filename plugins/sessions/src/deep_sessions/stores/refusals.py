"""The errors that every store raises in the same words."""

from __future__ import annotations

import hashlib

from ..errors import LeaseLost, SessionBusy, SessionNotFound
from ..store import Lease

__all__ = ["busy", "call_key", "check_id", "is_text", "lost", "not_found"]


def check_id(session_id: str) -> str:
    """Return the id of a session to create.

    Raises:
        ValueError: a database cannot store it.
    """
    if not session_id or len(session_id) > 500 or not is_text(session_id):
        raise ValueError(
            f"{session_id[:50]!r} cannot be the id of a session: use 1 to 500 characters of text without NUL"
        )
    return session_id


def is_text(text: str) -> bool:
    """Whether databases can take the text: not with NUL or half of a surrogate pair."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def call_key(call: str) -> str:
    """Return what a database keeps of a call's id: the provider chose it, and it may be long, or no text."""
    if is_text(call) and len(call) <= 500:
        return call
    return hashlib.sha256(call.encode("utf-8", "surrogatepass")).hexdigest()


def not_found(session_id: str) -> SessionNotFound:
    """Return the error for an unknown session, and for another owner's."""
    return SessionNotFound(f"there is no session {session_id!r}; `deep sessions list` shows them")


def busy(session_id: str, holder: str, seconds: float) -> SessionBusy:
    """Return the error for a session that another runner holds."""
    return SessionBusy(
        f"session {session_id} runs in {holder}, whose lease ends in {seconds:.0f} s unless it renews it; "
        "send it a message, or try again later",
        holder=holder,
        seconds=seconds,
    )


def lost(lease: Lease, holder: str | None) -> LeaseLost:
    """Return the error for a write under a lease that has been taken over or released."""
    now = f"{holder} has it now" if holder else "no runner has it now"
    return LeaseLost(f"session {lease.session_id}: the lease of {lease.holder} was taken over or released; {now}")
