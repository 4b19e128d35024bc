"""What a document or a call can fail with, said to a person or to the model."""

from __future__ import annotations

__all__ = ["CallError", "DocumentError"]


class DocumentError(Exception):
    """The document, or one of its operations, cannot be used. The message says why."""


class CallError(Exception):
    """The call was not made, or failed. The model reads the message."""
