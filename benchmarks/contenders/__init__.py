"""The contenders: one module each, with its `CONTENDER`."""

from importlib import import_module
from typing import Any


def load(name: str) -> Any:
    """Import the contender `module`, or `module:ATTRIBUTE`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"benchmarks.contenders.{module}"), attribute or "CONTENDER")
