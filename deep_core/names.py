"""Names: what a plugin may be called, and the one spelling of a distribution's name."""

from __future__ import annotations

import re

__all__ = ["NAME", "canonical"]

NAME = re.compile(r"^[a-z][a-z0-9_]{0,39}$")
"""The name of a plugin, a section or a slot."""

_SEPARATORS = re.compile(r"[-_.]+")


def canonical(name: str) -> str:
    """Normalize a distribution's name (PEP 503)."""
    return _SEPARATORS.sub("-", name).lower()
