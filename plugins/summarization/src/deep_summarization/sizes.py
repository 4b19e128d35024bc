"""Sizes for triggers and `keep`: in messages, in tokens, or as a fraction of the model's window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

__all__ = ["DEFAULT_KEEP", "DEFAULT_TRIGGER", "DEFAULT_WINDOW", "ContextSize", "checked_size", "checked_triggers"]

ContextSize: TypeAlias = "tuple[Literal['messages', 'tokens'], int] | tuple[Literal['fraction'], float]"
"""`("messages", n)`, `("tokens", n)`, or `("fraction", f)` of the model's window, 0 < f <= 1."""
DEFAULT_TRIGGER: ContextSize = ("fraction", 0.85)
DEFAULT_KEEP: ContextSize = ("messages", 20)
DEFAULT_WINDOW = 128_000
"""Window in tokens if neither `max_input_tokens` nor the model's profile has it: the value of Pydantic AI's
fallback profiles for an unknown hosted model. Too small means an early summary, too large an overflow."""
_KINDS = ("messages", "tokens", "fraction")


def checked_size(size: object, param: str) -> ContextSize:
    """Check a size and return it.

    Raises:
        ValueError: another form or kind, not greater than 0, or a fraction above 1. `param` names it.
    """
    pair = cast("Sequence[Any]", size) if isinstance(size, tuple | list) else ()
    if len(pair) != 2:
        raise ValueError(f'{param}: expected a pair such as ("tokens", 100000), got {size!r}')
    kind, value = pair
    if kind not in _KINDS:
        raise ValueError(f"Unsupported context size {kind!r} for {param}: use messages, tokens or fraction")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or (kind != "fraction" and value % 1 != 0):
        raise ValueError(f"{param}: {kind} takes a {'number' if kind == 'fraction' else 'whole number'}, got {value!r}")
    if kind == "fraction":
        if not 0 < value <= 1:
            raise ValueError(f"Fractional {param} values must be greater than 0 and at most 1, got {value}.")
        return ("fraction", float(value))
    if value <= 0:
        raise ValueError(f"{param} thresholds must be greater than 0, got {value}.")
    return (kind, int(value))


def checked_triggers(trigger: object) -> tuple[ContextSize, ...]:
    """Check the triggers, any of which is enough: a size or a list of sizes; None means the default.

    Raises:
        ValueError: see `checked_size`; an empty list.
    """
    if trigger is None:
        return (DEFAULT_TRIGGER,)
    sizes = cast("Sequence[object]", trigger) if isinstance(trigger, list | tuple) else ()
    if isinstance(trigger, list | tuple) and not (sizes and isinstance(sizes[0], str)):
        if not sizes:
            raise ValueError("trigger is an empty list, so it would never trigger: leave it out, or name a size")
        return tuple(checked_size(size, "trigger") for size in sizes)
    return (checked_size(cast("object", trigger), "trigger"),)


def in_tokens(size: ContextSize, window: int) -> int | None:
    """Convert a size to tokens; None for one in messages."""
    if size[0] == "messages":
        return None
    return max(1, int(window * size[1])) if size[0] == "fraction" else int(size[1])


def reached(triggers: Sequence[ContextSize], *, messages: int, tokens: int, window: int) -> bool:
    """Whether any trigger is met."""
    for trigger in triggers:
        limit = in_tokens(trigger, window)
        if messages >= trigger[1] if limit is None else tokens >= limit:
            return True
    return False
