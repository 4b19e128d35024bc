"""Hide the texts of exceptions from pages of other people: they may quote a password, an address or a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .incidents import incident_text

if TYPE_CHECKING:
    from deep_sessions import Event

__all__ = ["event_json", "result_text"]

OURS = ("limit_exceeded", "run_timed_out")
"""Errors whose text is written for people. Any other may quote a password."""
DENIED = "Denied: "
"""How the text of a failed call begins that was written for people: a plugin's check refused it."""


def event_json(session_id: str, event: Event, *, show_errors: bool) -> dict[str, Any]:
    """Return an event as a page gets it."""
    values = event.to_json()
    if show_errors:
        return values
    match values:
        case {"kind": "tool_ended", "outcome": "failed"}:
            values["result"] = result_text(session_id, event.to_json())
        case {"kind": "run_ended", "message": _} if values.get("code") not in OURS:
            values["message"] = incident_text(event.run_id)
        case {"kind": "run_interrupted"}:
            values["message"] = "The run was interrupted, because its steps could not be stored."
        case _:
            pass
    return values


def result_text(session_id: str, ended: dict[str, Any]) -> str:
    """Return the result of a failed call as a page gets it."""
    text: str = ended.get("result", "")
    return text if text.startswith(DENIED) else incident_text(f"{session_id} {ended['call_id']}")
