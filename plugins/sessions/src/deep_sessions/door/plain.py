"""Whether a message can be sent as it is, seen at once: without a call for a part, a field or a value.

Most messages can. The others are looked at part by part, by modules that are imported only then.
"""

from __future__ import annotations

import re
from json import JSONEncoder
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_ai.messages import ToolReturn

from .text import MOST_CHARS

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

__all__ = ["has_null", "is_plain", "is_plain_value", "passed_result"]

_encode = JSONEncoder(ensure_ascii=False, allow_nan=False).encode
"""Refuses what has no JSON, also files and objects: those are looked at."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}").fullmatch
_TABLES: Final = frozenset({"provider_details", "metadata"})
_VALUES: Final = frozenset({"content", "args", *_TABLES})
"""The fields that hold more than a text."""


def is_plain(message: ModelMessage, known: frozenset[str]) -> bool:
    """Whether every text, value and name of a message can be sent as it is; False also where it takes a closer look.

    Args:
        message: a request or a response.
        known: the tools that are offered.
    """
    texts: list[str] = []
    try:
        for name, value in vars(message).items():
            if isinstance(value, str):
                texts.append(value)
            elif value is not None and name in _TABLES:
                texts.append(_encode(value))
        for part in message.parts:
            fields = vars(part)
            for name, value in fields.items():
                if isinstance(value, str):
                    texts.append(value)
                elif value is not None and name in _VALUES:
                    texts.append(_encode(value))
            if (tool := fields.get("tool_name", "_")) not in known and _NAME(tool) is None:
                return False
        text = "\n".join(texts)
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError):  # half of a pair is a ValueError, too
        return False
    # `NaN` and an escaped NUL may stand in arguments, which some adapters parse.
    return len(text) <= MOST_CHARS and not ("\0" in text or "\\u0000" in text or "NaN" in text or "Infinity" in text)


def is_plain_value(value: Any) -> bool:
    """Whether the result of a tool can be stored and sent as it is; False also where it takes a closer look."""
    values: Any = [value]
    if isinstance(value, ToolReturn):
        values = [each for each in vars(cast("ToolReturn[Any]", value)).values() if each is not None]
    try:
        text = "\n".join([each if isinstance(each, str) else _encode(each) for each in values])
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return not ("\0" in text or "\\u0000" in text)


def passed_result(tool: str, result: Any) -> Any:
    """Return the result of a tool as it can be stored and sent: the same object if it can be.

    Raises:
        ToolFailed: see `clean_result`.
    """
    if is_plain_value(result):
        return result
    from .values import clean_result

    return clean_result(tool, result)


def has_null(args: Any) -> bool:
    """Whether arguments of a call may hold a null."""
    if not args:
        return False
    try:
        return "null" in (args if isinstance(args, str) else _encode(args))
    except (TypeError, ValueError, RecursionError):
        return True
