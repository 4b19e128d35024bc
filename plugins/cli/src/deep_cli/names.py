"""The names of conversations in the store: of a folder, with eight digits that people type."""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path

__all__ = ["DIGITS", "WHOLE", "chats_folder", "new_id", "project", "short_id"]

DIGITS = re.compile(r"[0-9a-f]{8}")
WHOLE = re.compile(r".+-[0-9a-f]{12}\.[0-9a-f]{8}")


def chats_folder() -> Path:
    """Return the folder of the lines that were typed, and of chats from before there were sessions."""
    from platformdirs import user_data_path

    return user_data_path("deep") / "chats"


def project(folder: str) -> str:
    """Return the name of a folder's chats: its own name, and a hash that keeps folders of one name apart."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(folder).name)[:40]
    return f"{name}-{hashlib.sha256(folder.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def new_id(folder: str, digits: str = "") -> str:
    """Return the id of a chat in the store. Its digits are what people type; without them, they are random."""
    return f"{project(folder)}.{digits or secrets.token_hex(4)}"


def short_id(session_id: str) -> str:
    """Return the digits of a conversation's id; "" if it has a name of its own."""
    return session_id[-8:] if WHOLE.fullmatch(session_id) else ""
