"""Full-text search over stored conversations: the texts of a journal, and what of them has the words."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import AgentError
from .plain import texts_of

if TYPE_CHECKING:
    from .store import Entry, SessionStore

__all__ = ["Found", "excerpt", "find_messages", "new_texts", "words_in"]

LONGEST = 100_000
"""Characters of a message that are searched."""
AROUND = 60
"""Characters shown before and after the first word that was found."""
PAGE = 200
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Found:
    """A message that has all the words.

    Attributes:
        session_id: its session.
        role: who wrote it: `user`, `agent`, or `tool` for the arguments of a call.
        text: an excerpt, on one line.
    """

    session_id: str
    role: str
    text: str


def words_in(text: str) -> list[str]:
    """Return the words of a text or a question, in lower case: letters and digits between anything else."""
    return [word.lower() for word in _WORD.findall(text)]


def excerpt(text: str, words: Sequence[str]) -> str:
    """Return what stands around the first of the words, on one line."""
    line = " ".join(text.split())
    lower = line.lower()
    places = [found.start() for word in words if (found := re.search(rf"(?<![^\W_]){re.escape(word)}", lower))]
    at = min(places, default=0)
    first, last = max(0, at - AROUND), at + AROUND
    return f"{'…' if first else ''}{line[first:last]}{'…' if last < len(line) else ''}"


def _texts(entry: Entry) -> list[tuple[str, str]]:
    """Return the texts that an entry adds to the conversation, each with who wrote it. A damaged entry adds none."""
    with suppress(AgentError):
        return [(role, text[:LONGEST]) for role, text in texts_of(entry) if text.strip()]
    return []


async def new_texts(store: SessionStore, session_id: str, after: int) -> tuple[list[tuple[int, str, str]], int]:
    """Return the texts of a session's entries after a number, and the number of the last entry that was read.

    A text has the number of its entry, and who wrote it.
    """
    found: list[tuple[int, str, str]] = []
    while page := await store.entries(session_id, after=after, limit=PAGE):
        after = page[-1].seq
        found += [(entry.seq, role, text) for entry in page for role, text in _texts(entry)]
    return found, after


async def find_messages(store: SessionStore, question: str, *, limit: int = 50) -> Sequence[Found]:
    """Return messages that have all these words, or words that begin so; those of the newest sessions first.

    A store without an index is read, session by session.
    """
    known = await store.search(question, limit=limit)
    return known if known is not None else await _scan(store, question, limit)


async def _scan(store: SessionStore, question: str, limit: int) -> list[Found]:
    words, found = words_in(question), list[Found]()
    if not words:
        return []
    async for session_id in _ids(store):
        with suppress(AgentError):
            texts, _ = await new_texts(store, session_id, 0)
            for _, role, text in texts:
                have = words_in(text)
                if all(any(each.startswith(word) for each in have) for word in words):
                    found.append(Found(session_id, role, excerpt(text, words)))
        if len(found) >= limit:
            break
    return found[:limit]


async def _ids(store: SessionStore) -> AsyncIterator[str]:
    offset = 0
    while page := await store.list(limit=PAGE, offset=offset):
        offset += len(page)
        for info in page:
            yield info.id
