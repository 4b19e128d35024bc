"""What people read of stored sessions: titles, and all of one. It loads no Pydantic AI."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import asdict
from typing import Any

from .errors import StoreError
from .patches import apply_patch
from .plain import read_plain, texts_of
from .store import Entry, SessionStore, Stored

__all__ = ["TITLE", "entries_of", "export", "title_of"]

TITLE = "session_title"
"""The slot of the title that a person gave."""
PAGE = 500
LONGEST_TITLE = 60
"""Most characters of a title that comes from a message."""


async def export(store: SessionStore, session_id: str) -> AsyncGenerator[str]:
    """Yield a session as JSON Lines: the session, its entries, the ledger and the mail; what is damaged, by number.

    Each line is an object with `type`: `session`, `entry`, `ledger`, `mail`, or `damaged`, which says what is missing.
    """
    last, seq = 0, 0
    try:
        info = await store.info(session_id)
        seq = info.seq
        yield _line("session", asdict(info))
    except StoreError as error:
        yield _line("damaged", {"reason": str(error)})
    async for entry in entries_of(store, session_id):
        if entry.seq > last + 1:
            yield _line("damaged", {"entries": [*range(last + 1, entry.seq)]})
        last = entry.seq
        yield _line("entry", {**asdict(entry), "data": _readable(entry.data)})
    if last < seq:
        yield _line("damaged", {"entries": [*range(last + 1, seq + 1)]})
    try:
        stored = await store.load(session_id)
    except StoreError as error:
        yield _line("damaged", {"reason": str(error)})
        return
    for key, data in stored.ledger.items():
        yield _line("ledger", {"key": key, "data": _readable(data)})
    for mail in stored.mail:
        yield _line("mail", {**asdict(mail), "data": _readable(mail.data)})


async def title_of(store: SessionStore, session_id: str) -> str:
    """Return a session's title: the one that a person gave, or the beginning of its first message, on one line.

    It is "" before there is one.

    Raises:
        SessionNotFound: it does not exist.
        StoreError: it cannot be read.
    """
    if title := _given_title(await store.load(session_id)):
        return title
    after = 0
    while page := await store.entries(session_id, after=after, limit=8):  # it is nearly always one of the first
        for entry in page:
            after = entry.seq
            for role, text in texts_of(entry):
                if role == "user":
                    words = " ".join(text.split())
                    return words if len(words) <= LONGEST_TITLE else f"{words[: LONGEST_TITLE - 1]}…"
    return ""


def _given_title(stored: Stored) -> str:
    """Return the title that a person gave; "" if there is none."""
    mark = f'"{TITLE}":'.encode()  # most entries do not have it, and are not read
    value: Any = None
    for entry in stored.entries:
        if entry.base:
            value = None
        if mark in entry.data and not (data := read_plain(entry)).get("path"):
            patch = data.get("slots", {}).get(TITLE, {})
            value = None if patch is None else apply_patch(value, patch)
    return "" if value is None else str(value["data"])


async def entries_of(store: SessionStore, session_id: str) -> AsyncIterator[Entry]:
    """Yield all entries of a session that are whole."""
    after = 0
    while page := await store.entries(session_id, after=after, limit=PAGE):
        after = page[-1].seq
        for entry in page:
            yield entry


def _readable(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return {"base64": base64.b64encode(data).decode()}


def _line(kind: str, about: Mapping[str, Any]) -> str:
    return json.dumps({"type": kind, **about}, ensure_ascii=False)
