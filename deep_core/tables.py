"""Tell tables and lists in data of unknown form: parsed TOML and JSON, what a plugin returned."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeGuard


def is_table(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a value is a table, whose keys are texts in TOML and JSON."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether a value is a list."""
    return isinstance(value, list)


def is_texts(value: object) -> TypeGuard[list[str]]:
    """Whether a value is a list of texts."""
    return is_list(value) and all(isinstance(item, str) for item in value)


def is_iterable(value: object) -> TypeGuard[Iterable[object]]:
    """Whether a value can be iterated."""
    return isinstance(value, Iterable)


def is_collection(value: object) -> TypeGuard[Collection[object]]:
    """Whether a value is one of Python's own collections of items: a list, a tuple or a set."""
    return isinstance(value, list | tuple | set | frozenset)
