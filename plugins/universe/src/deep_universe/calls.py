"""What a reply asks for and what came of it: calls, invalid calls, results and their error codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class ErrorCode(StrEnum):
    """Why a call has an error instead of a result: `ToolResult.meta["error_code"]`. The set is closed."""

    PROTOCOL_DETECTION_FAILED = "PROTOCOL_DETECTION_FAILED"
    DRIVER_NOT_FOUND = "DRIVER_NOT_FOUND"
    PARSE_ERROR = "PARSE_ERROR"
    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    TOOL_NOT_FOUND = "TOOL_NOT_FOUND"
    FILTER_DENIED = "FILTER_DENIED"
    MISSING_CONTEXT_KEY = "MISSING_CONTEXT_KEY"
    TOOL_EXECUTION_ERROR = "TOOL_EXECUTION_ERROR"
    TIMEOUT = "TIMEOUT"


def _no_facts() -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class ToolCall:
    """One call that a model made.

    Attributes:
        id: the provider's id of the call; empty if the dialect has none. `dispatch` makes one then.
        name: the tool's name, as the model wrote it.
        arguments: the model's arguments, not validated.
        context: what the application adds; never shown to a model.
    """

    id: str
    name: str
    arguments: Mapping[str, Any]
    context: Mapping[str, Any] = field(default_factory=_no_facts)


@dataclass(frozen=True)
class InvalidCall:
    """A call that the model clearly meant and wrote wrongly. It stands in its place among the calls.

    Attributes:
        id: the provider's id of the call, or empty.
        name: the tool's name; empty if it cannot be read.
        raw: what the model wrote, truncated to 2,000 characters.
        problem: what is wrong, in a sentence for the model.
        code: `INVALID_ARGUMENTS` if the name is readable, else `PARSE_ERROR`.
    """

    id: str
    name: str
    raw: str
    problem: str

    @property
    def code(self) -> ErrorCode:
        """Why the call cannot run."""
        return ErrorCode.INVALID_ARGUMENTS if self.name else ErrorCode.PARSE_ERROR


@dataclass(frozen=True)
class BareInput(InvalidCall):
    """A call with a value in place of its arguments. It is a call of a tool that has one parameter.

    Attributes:
        value: JSON data; or, if `is_text`, what the model wrote.
        is_text: whether it stood outside JSON, so that its type is not known.
    """

    value: Any = None
    is_text: bool = False


@dataclass(frozen=True)
class ToolResult:
    """What came of one call.

    Attributes:
        id: the call's id.
        result: what the tool returned; None if it failed.
        error: what went wrong, in a sentence for the model; None if nothing did.
        meta: `tool`, the name; `error_code` if there is an error.
    """

    id: str
    result: Any = None
    error: str | None = None
    meta: Mapping[str, Any] = field(default_factory=_no_facts)

    @property
    def is_success(self) -> bool:
        """Whether the call has no error."""
        return self.error is None
