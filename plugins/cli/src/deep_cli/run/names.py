"""The names of conversations in the store: of a folder, with eight digits that people type."""

from __future__ import annotations

import re
from pathlib import Path

from deep_sessions import folder_key as project
from deep_sessions import new_conversation_id as new_id

__all__ = ["AGENT", "DIGITS", "WHOLE", "chats_folder", "new_id", "project", "short_id"]

AGENT = "agent"
"""The label of a run of an agent of another program: as `--agent` names it."""
DIGITS = re.compile(r"[0-9a-f]{8}")
WHOLE = re.compile(r".+-[0-9a-f]{12}\.[0-9a-f]{8}")


def chats_folder() -> Path:
    """Return the folder of the lines that were typed, and of chats from before there were sessions."""
    from platformdirs import user_data_path

    return user_data_path("deep") / "chats"


def short_id(session_id: str) -> str:
    """Return the digits of a conversation's id; "" if it has a name of its own."""
    return session_id[-8:] if WHOLE.fullmatch(session_id) else ""
