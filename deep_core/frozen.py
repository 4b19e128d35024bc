"""Lists and tables that cannot change: what a frozen configuration holds. They equal plain ones, and are JSON."""

from __future__ import annotations

from typing import NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def _refuse(self: object, *args: object, **changes: object) -> NoReturn:
    raise TypeError("a configuration is frozen: make another with model_copy(update=…)")


class FrozenList(list[V]):
    """A list that refuses every change."""

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse  # pyright: ignore[reportAssignmentType]
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce_ex__(self, protocol: object) -> tuple[type, tuple[list[V]]]:
        return FrozenList, ([*self],)  # by default a copy is made empty and then filled


class FrozenDict(dict[K, V]):
    """A table that refuses every change."""

    update = setdefault = pop = popitem = clear = _refuse  # pyright: ignore[reportAssignmentType]
    __setitem__ = __delitem__ = __ior__ = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce_ex__(self, protocol: object) -> tuple[type, tuple[dict[K, V]]]:
        return FrozenDict, ({**self},)  # pyright: ignore[reportReturnType]


def frozen(value: V) -> V:
    """Return a value whose lists and tables, at any depth, cannot change."""
    if isinstance(value, dict):
        return FrozenDict({key: frozen(item) for key, item in value.items()})  # pyright: ignore
    if isinstance(value, list):
        return FrozenList([frozen(item) for item in value])  # pyright: ignore
    return value
