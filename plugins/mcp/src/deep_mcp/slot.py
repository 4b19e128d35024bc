"""Which tools a conversation has used."""

from __future__ import annotations

from deep_core import StateSlot

__all__ = ["USED"]

USED: StateSlot[dict[str, str]] = StateSlot("mcp_used", dict[str, str], dict[str, str])
"""Name of each tool -> the run that called it first. Later runs see it without a search, also after a compaction."""
