"""Give each call its own context: copy what holds values, share what is a handle."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, TypeVar, cast

__all__ = ["isolate"]

T = TypeVar("T")


def isolate(value: T) -> T:
    """Return a copy of a context that shares no container with it.

    Dicts, lists, sets, deques, bytearrays, tuples, and classes derived from them, are copied at every depth. Everything
    else is shared, because it may be a handle: a connection, a lock, a client, a model, a dataclass. A container that
    stands in two places, or in itself, does so in the copy too. Never raises: what cannot be copied is shared.
    """
    return cast("T", _Copier().copy(value))


class _Copier:
    def __init__(self) -> None:
        self._copies: dict[int, tuple[object, object]] = {}  # with the originals: an id is good while its object lives
        self._unfilled: list[Callable[[], None]] = []

    def copy(self, value: object) -> object:
        result = self._of(value)
        while self._unfilled:  # not by recursion: a context may nest deeper than the stack
            self._unfilled.pop()()
        return result

    def _of(self, value: object) -> object:
        base = _base(value)
        if base is None:
            return value
        if id(value) not in self._copies:
            try:
                copied = self._copied(base, value)
            except Exception:  # noqa: BLE001 - a class's own `__copy__`, or tuples nested deeper than the stack
                copied = value
            self._copies[id(value)] = (value, copied)
        return self._copies[id(value)][1]

    def _copied(self, base: Any, value: Any) -> object:
        if base is tuple:
            return self._tuple(base, value)
        fresh: Any = dict(value) if base is MappingProxyType else copy.copy(value)
        if fresh is not value and isinstance(fresh, _FILLED):
            self._unfilled.append(lambda: self._fill(_base(fresh), fresh))
        return MappingProxyType(fresh) if base is MappingProxyType else fresh

    def _fill(self, base: Any, fresh: Any) -> None:
        # By the methods of the base class: those of a derived one may do more than hold a value.
        places = base.items(fresh) if hasattr(base, "items") else enumerate(base.__iter__(fresh))
        for place, item in list(places):
            if (copied := self._of(item)) is not item:
                base.__setitem__(fresh, place, copied)

    def _tuple(self, base: Any, value: Any) -> object:
        old: list[object] = list(base.__iter__(value))
        new = [self._of(item) for item in old]
        if all(copied is item for copied, item in zip(new, old, strict=True)):
            return value
        fresh: Any = base.__new__(type(value), new)
        if hasattr(value, "__dict__"):
            fresh.__dict__.update(value.__dict__)
        return fresh


_FILLED: tuple[type[Any], ...] = (dict, list, deque)
_CONTAINERS: tuple[type[Any], ...] = (*_FILLED, set, tuple, bytearray, MappingProxyType)


def _base(value: object) -> type[Any] | None:
    """Return which kind of container a value is; None for all others."""
    return next((kind for kind in _CONTAINERS if isinstance(value, kind)), None)
