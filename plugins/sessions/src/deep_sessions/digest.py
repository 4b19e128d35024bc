"""The digest of a configuration: equal for equal configurations, whatever the order of their keys."""

from __future__ import annotations

import hashlib
import json

from deep_core import AgentConfig

__all__ = ["config_digest"]


def config_digest(config: AgentConfig) -> str:
    """Return the SHA-256 of a configuration's canonical JSON, in hexadecimal. Every run records it."""
    text = json.dumps(config.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
