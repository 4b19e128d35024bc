"""Errors: the client gets an id, the log has the cause.

An exception may quote a password, an address or a folder of this machine, so its text stays here.
"""

from __future__ import annotations

import logging
import secrets

__all__ = ["record"]

logger = logging.getLogger(__name__)


def record(what: str, cause: BaseException | str) -> str:
    """Log what failed, with its cause; return the text for the client."""
    incident = secrets.token_hex(4)
    error = cause if isinstance(cause, BaseException) else None
    logger.error("incident %s: %s%s", incident, what, "" if error else f": {cause}", exc_info=error)
    return f"The server's log has the cause: incident {incident}."
