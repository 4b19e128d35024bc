"""Every character that hides, moves or reorders text, for tests of the places that show text."""

from __future__ import annotations

from deep_core.plugin_api import visible

__all__ = ["HIDING", "SURROGATES"]

SURROGATES = "\udfff\udc00\udbff\ud800"
"""Those of bytes that are not UTF-8; in this order they are no pair."""
# A million calls would take a second in each process that collects tests, and most blocks have nothing to find.
_BLOCKS = ("".join(map(chr, range(first, first + 256))) for first in range(0, 0x110000, 256))
_CHANGED = "".join(block for block in _BLOCKS if visible(block) != block)
HIDING = SURROGATES + "".join(c for c in _CHANGED if visible(c) != c and not "\ud800" <= c <= "\udfff")
"""What `visible` replaces: C0, C1, bidirectional and default ignorable characters, tags."""
