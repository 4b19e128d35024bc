"""Who does the work: one module a contender, each with its `CONTENDER`."""

from importlib import import_module
from typing import Any


def load(name: str) -> Any:
    """The contender `module`, or `module:ATTRIBUTE`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"benchmarks.contenders.{module}"), attribute or "CONTENDER")
