"""Read one call of a wire format: its name, its arguments as JSON or data, and what is wrong with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

from ..calls import InvalidCall, ToolCall
from .responses import as_fields

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

__all__ = ["CUT_OFF", "NO_FUNCTION", "RAW_LIMIT", "invalid", "read_call", "read_parts"]

RAW_LIMIT = 2_000
"""How much of an invalid call is kept, in characters."""
CUT_OFF = "The reply was cut off before the call was complete. Make the call again, with shorter arguments."
NO_FUNCTION = "This call is not to a function. Call one of the tools by its name, with one JSON object as arguments."


def read_call(call_id: object, name: object, arguments: object, *, complete: bool = True) -> ToolCall | InvalidCall:
    """Return the call, or what is wrong with it.

    Args:
        call_id: the provider's id, a string or an integer; anything else counts as none.
        name: the tool's name.
        arguments: a JSON text, an object, or None for no arguments.
        complete: whether the reply ended by itself. Arguments of a call that was cut off may be empty by accident.
    """
    if not isinstance(name, str) or not name:
        return invalid(call_id, "", arguments, "The call has no tool name.")
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        if not complete:
            return invalid(call_id, name, arguments, CUT_OFF)
        return ToolCall(_id(call_id), name, {})
    value: object = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            problem = f"The arguments are not valid JSON: {error}. Send one JSON object." if complete else CUT_OFF
            return invalid(call_id, name, arguments, problem)
    if (fields := as_fields(value)) is None:
        return invalid(call_id, name, arguments, f"The arguments are {_kind(value)}. Send one JSON object.")
    return ToolCall(_id(call_id), name, dict(fields))


def invalid(call_id: object, name: str, raw: object, problem: str) -> InvalidCall:
    """Return an invalid call; `raw` is what the model wrote, text or data."""
    return InvalidCall(_id(call_id), name, _text(raw)[:RAW_LIMIT], problem)


def read_parts(response: ModelResponse) -> list[ToolCall | InvalidCall]:
    """Return the calls of a Pydantic AI response, in order, without those that the provider itself executed."""
    from pydantic_ai.messages import ToolCallPart

    complete = response.finish_reason != "length"
    return [
        read_call(part.tool_call_id, part.tool_name, part.args, complete=complete)
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]


def _id(value: object) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _kind(value: object) -> str:
    """Name a value's type as JSON does."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names: dict[type, str] = {str: "a string", int: "a number", float: "a number", list: "an array", tuple: "an array"}
    return names.get(type(value), "not an object")


def _text(raw: object) -> str:
    if raw is None:
        return ""
    if isinstance(raw, str):
        return raw
    try:
        return json.dumps(raw, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        return f"<{type(raw).__name__}>"
