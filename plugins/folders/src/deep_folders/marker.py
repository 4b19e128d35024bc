"""The file of a dist-info folder by which a distribution brings a folder."""

from __future__ import annotations

__all__ = ["MARKER"]

MARKER = "agent_plugins.json"
