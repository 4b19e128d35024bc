"""Errors as the editor shows them: one line that says what is wrong, where, and what to do."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

from acp.exceptions import RequestError
from deep_sessions import AgentError, SessionNotFound
from pydantic import ValidationError
from pydantic_ai.exceptions import UserError

from deep_core.plugin_api import error_message, visible

__all__ = ["AUTH_REQUIRED", "INTERNAL", "INVALID", "explain", "told"]

AUTH_REQUIRED, INTERNAL, INVALID, NOT_FOUND = -32000, -32603, -32602, -32002
_VARIABLE = re.compile(r"Set the `([A-Z0-9_]+)`")
logger = logging.getLogger("deep.acp")
T = TypeVar("T")


def told(method: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
    """Turn what a method raises into an error of the protocol, with the message."""

    @wraps(method)
    async def wrapper(*args: Any, **kwargs: Any) -> T:
        try:
            return await method(*args, **kwargs)
        except (RequestError, ValidationError):
            raise
        except Exception as error:
            logger.debug("%s failed", method.__name__, exc_info=True)
            raise explain(error) from error

    return wrapper


def explain(error: BaseException, model: str = "") -> RequestError:
    """Return an error for the editor.

    Args:
        error: what was raised.
        model: the model's id, for errors of its provider.
    """
    if isinstance(error, RequestError):
        return error
    if isinstance(error, SessionNotFound):
        return RequestError(NOT_FOUND, f"there is no such session: {visible(error.message)}")
    if isinstance(error, AgentError):
        return RequestError(INTERNAL, visible(error.message))
    if isinstance(error, UserError) and (variable := _VARIABLE.search(str(error))):
        return RequestError(
            AUTH_REQUIRED,
            f"no key for {visible(model) or 'the model'}: type deep keys set {variable[1]} in a terminal, or set "
            f"{variable[1]} in the environment that the editor gives to deep acp; then start the agent again",
        )
    return RequestError(INTERNAL, visible(error_message(error)) or type(error).__name__)
