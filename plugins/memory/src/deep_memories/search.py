"""What `recall` answers: a topic, the notes that match, or the list of topics."""

from __future__ import annotations

import re
from collections.abc import Sequence

from deep_core.plugin_api import visible

from .topic import Topic, topic_key

__all__ = ["answer"]

SUMMARY_CHARS = 160


def answer(topics: Sequence[Topic], query: str, limit: int) -> str:
    """Answer a query in at most `limit` characters."""
    if not topics:
        return "Nothing is remembered of this project."
    key = topic_key(query)
    topic = next((topic for topic in topics if key and topic_key(topic.name) == key), None)
    if topic is not None:
        return _bounded([visible(topic.text).strip() or "(empty)"], limit)
    if not key:
        return _bounded(
            [f"- {topic.name} ({len(topic.notes)}): {visible(topic.summary)[:SUMMARY_CHARS]}" for topic in topics],
            limit,
        )
    words = set(re.findall(r"\w+", query.casefold()))
    found = [(_score(words, topic.name, note), topic.name, note) for topic in topics for note in topic.notes]
    found = sorted((hit for hit in found if hit[0]), key=lambda hit: -hit[0])
    if not found:
        return f"No note matches. Topics: {_bounded([', '.join(topic.name for topic in topics)], limit)}"
    return _bounded([f"{name}: {visible(note)}" for _, name, note in found], limit)


def _score(words: set[str], name: str, note: str) -> int:
    text = f"{name} {note}".casefold()
    return sum(word in text for word in words)


def _bounded(lines: Sequence[str], limit: int) -> str:
    text = "\n".join(lines)
    if len(text) <= limit:
        return text
    mark = f"\n… ({len(text)} characters; ask for less)"
    return text[: limit - len(mark)] + mark
