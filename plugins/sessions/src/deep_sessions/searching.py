"""Find a message or a call in the journal of a session. Most entries are told apart by their bytes, and not read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.messages import ModelMessage, ToolCallPart, ToolReturnPart
from pydantic_core import to_json

from .entries import read_entry
from .events import result_text
from .journal import LABELS
from .ledger_rows import UNKNOWN
from .plain import MESSAGE
from .store import Entry

__all__ = ["CallSearch", "StoredCall", "is_message"]


def is_message(entry: Entry, message_id: str) -> bool:
    """Whether an entry has the message with this id."""
    if entry.kind == "run_started" and entry.run_id == message_id:
        return True
    if entry.kind not in ("run_started", "messages", "base") or message_id.encode() not in entry.data:
        return False
    data = read_entry(entry)
    if data.get("labels", {}).get(MESSAGE) == message_id:
        return True
    messages: list[ModelMessage] = data.get("messages", [])
    return any((message.metadata or {}).get(LABELS, {}).get(MESSAGE) == message_id for message in messages)


@dataclass(frozen=True)
class StoredCall:
    """A call of a tool, whole.

    Attributes:
        args: its arguments as JSON.
        result: its result as the model read it; None if it has none yet.
        outcome: as in the event `ToolEnded`; "" without a result.
    """

    args: str
    result: str | None = None
    outcome: str = ""


class CallSearch:
    """The arguments and the result of a call, from what the journal has of it.

    Args:
        call_id: the call's id.
        path: whose call it is: "" for the agent.
    """

    def __init__(self, call_id: str, path: str) -> None:
        self._call_id = call_id
        self._bytes = to_json(call_id)[1:-1]
        self._path = path
        self._found: StoredCall | None = None

    def read(self, entry: Entry) -> None:
        """Take up an entry."""
        if entry.kind in ("messages", "base") and self._bytes in entry.data:
            data: Any = read_entry(entry)
            if data.get("path", "") == self._path:
                self.read_messages(data["messages"])

    def read_messages(self, messages: Iterable[ModelMessage]) -> None:
        """Take up messages."""
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolCallPart) and part.tool_call_id == self._call_id:
                    self._found = StoredCall(part.args_as_json_str())
                elif self._found is None:
                    continue
                elif isinstance(part, ToolReturnPart) and part.tool_call_id == self._call_id:
                    outcome = "unknown" if part.content == UNKNOWN else part.outcome
                    self._found = replace(
                        self._found, result=result_text(part.tool_name, part.content), outcome=outcome
                    )
                elif part.part_kind == "retry-prompt" and part.tool_call_id == self._call_id:  # before Pydantic AI 2.68
                    self._found = replace(self._found, result=part.model_response(), outcome="retried")

    def result(self) -> StoredCall:
        """Return the call.

        Raises:
            LookupError: there is no such call.
        """
        if self._found is None:
            raise LookupError(f"the session has no call {self._call_id}")
        return self._found
