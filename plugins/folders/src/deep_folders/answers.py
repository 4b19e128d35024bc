"""Read what a hook answers: text, or a JSON object that is whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["ALLOWS", "ASKS", "DENIES", "answer_of", "clip", "context_of", "refusal_of", "stop_of", "told_to_people"]

REASON_CHARS = 10_000
"""Of what a model reads: the prompt of a loop and the findings of a review stand in a reason."""
DENIES, ASKS, ALLOWS = ("deny", "block"), ("ask", "defer"), ("allow", "approve")
_JSON = re.compile(r"^[\ufeff \t]*(?:\{|\[\s*(?:[\[{\"]|$))", re.M)
"""Where an answer begins. A line such as `[guard] ok` is text."""


def answer_of(out: str) -> dict[str, Any] | None:
    """Return the JSON object that a hook answers; None for text.

    Raises:
        ValueError: it begins like JSON and cannot be read, or is not an answer.
    """
    found = _JSON.search(out)
    if found is None:
        return None
    try:
        data: object = json.loads(out[found.start() :], object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise ValueError("its answer begins like JSON and cannot be read") from None
    if not isinstance(data, dict):
        raise ValueError("its answer is not one that a hook gives")
    return cast("dict[str, Any]", data)


def context_of(answer: Mapping[str, Any]) -> str:
    """Return what an answer wants the model to know beside its decision."""
    specific: object = answer.get("hookSpecificOutput")
    text = cast("dict[str, Any]", specific).get("additionalContext") if isinstance(specific, dict) else None
    return text.strip() if isinstance(text, str) else ""


def stop_of(outcome: tuple[int, str, str] | str) -> str:
    """Return why a hook stops the agent, by `continue: false` at a good end; "" if it does not."""
    try:
        answer = {} if isinstance(outcome, str) or outcome[0] else answer_of(outcome[1]) or {}
    except ValueError:
        return ""
    stops = answer.get("continue", True) is False
    return clip(str(answer.get("stopReason") or told_to_people(answer) or "it gives no reason")) if stops else ""


def told_to_people(answer: Mapping[str, Any]) -> str:
    """Return what an answer says to the person."""
    text = answer.get("systemMessage")
    return clip(text) if isinstance(text, str) else ""


def refusal_of(out: str, err: str) -> str:
    """Return what a hook that exits with 2 says: on stderr, else on stdout, as text or in an answer."""
    try:
        answer = None if err.strip() else answer_of(out)
    except ValueError:
        return ""
    return clip(err.strip() or (out if answer is None else str(answer.get("reason") or context_of(answer))))


def clip(text: str) -> str:
    """Return a text without space around it, and not longer than a reason may be."""
    text = text.strip()
    return text if len(text) <= REASON_CHARS else f"{text[:REASON_CHARS]}…"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object. Raises ValueError if it says one thing twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found
