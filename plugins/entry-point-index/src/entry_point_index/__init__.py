"""Entry points of installed distributions: listed in milliseconds, checked before import.

Importing this package loads none of its modules: each name comes with its first use.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cache import Notes
    from .index import EntryPoint, Index, site_directories
    from .interrupts import import_plugin, is_interrupt
    from .origin import Misplaced, misplaced_module
    from .programs import absolute_path, find_program

__version__ = "0.1.0"

__all__ = [
    "EntryPoint",
    "Index",
    "Misplaced",
    "Notes",
    "absolute_path",
    "canonical",
    "find_program",
    "import_plugin",
    "is_interrupt",
    "misplaced_module",
    "site_directories",
]

_HOMES = {
    "EntryPoint": "index",
    "Index": "index",
    "Misplaced": "origin",
    "Notes": "cache",
    "absolute_path": "programs",
    "find_program": "programs",
    "import_plugin": "interrupts",
    "is_interrupt": "interrupts",
    "misplaced_module": "origin",
    "site_directories": "index",
}
_SEPARATORS = re.compile(r"[-_.]+")


def canonical(name: str) -> str:
    """Normalize a distribution's name (PEP 503)."""
    return _SEPARATORS.sub("-", name).lower()


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value
