"""The rows of the ledger: an effect that has started or ended, and the provisional results of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import ConfigDict, TypeAdapter, with_config
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ToolReturn, ToolReturnPart, UserContent

from .entries import dump
from .errors import StoreError
from .plain import TAIL

__all__ = ["UNKNOWN", "EffectRow", "read_row", "tail_key", "write_row"]

UNKNOWN = (
    "Nobody knows whether this call ran: the process ended while it was running, and its result is lost. "
    "Check before you repeat it."
)
COMMITTED = "This call did its work. Its result was not recorded."


@with_config(ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", defer_build=True))
@dataclass
class EffectRow:
    """One execution of a tool that may change something.

    Attributes:
        tool: the tool's name.
        state: `started`; `committed`, if it committed in the store's own database and its result is not known; `done`;
            `failed`, if the tool raised an error for the model; `retry`, if it asked the model to try again.
        result: of a call that is done: a tool return, whose content is the result.
        message: of a call that failed.
        content: what the tool adds to the conversation beside its result.
    """

    tool: str
    state: Literal["started", "committed", "done", "failed", "retry"] = "started"
    result: ToolReturnPart | None = None
    message: str = ""
    content: Sequence[UserContent] | None = None

    @classmethod
    def of(cls, tool: str, call_id: str, result: object) -> EffectRow:
        """Return the row of a call that is done."""
        if isinstance(result, ToolReturn):
            returned = cast("ToolReturn[Any]", result)
            part = ToolReturnPart(tool, returned.return_value, call_id, metadata=returned.metadata)
            content = returned.content
            return cls(tool, "done", part, content=[content] if isinstance(content, str) else content)
        return cls(tool, "done", ToolReturnPart(tool, result, call_id))

    def answer(self) -> Any:
        """Return the result of a call that has ended, or raise its error.

        Raises:
            ToolFailed: it failed.
            ModelRetry: it asked the model to try again.
        """
        if self.state == "failed":
            raise ToolFailed(self.message)
        if self.state == "retry":
            raise ModelRetry(self.message)
        if self.result is None:
            return COMMITTED
        if self.content is None and self.result.metadata is None:
            return self.result.content
        return ToolReturn(self.result.content, content=self.content, metadata=self.result.metadata)


_ROW: TypeAdapter[EffectRow] = TypeAdapter(EffectRow)


def tail_key(path: str) -> str:
    """Return the key of the provisional results of a path."""
    return TAIL + path


def write_row(row: EffectRow) -> bytes:
    """Return a row as JSON."""
    return dump(_ROW, row)


def read_row(key: str, data: bytes) -> EffectRow:
    """Return a row. Raises StoreError if it cannot be read."""
    try:
        return _ROW.validate_json(data)
    except ValueError as error:
        raise StoreError(f"the ledger's row {key!r} cannot be read: {str(error).splitlines()[0]}") from error
