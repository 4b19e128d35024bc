"""The ids of conversations that belong to a folder: `deep chat` and editors list and resume each other's."""

from __future__ import annotations

import hashlib
import re
import secrets
from pathlib import Path

__all__ = ["folder_key", "is_conversation", "new_conversation_id"]

_ID = re.compile(r".+-[0-9a-f]{12}\.[0-9a-f]{8}")


def folder_key(folder: str) -> str:
    """Return what the ids of a folder's conversations begin with: its name, and a hash that keeps namesakes apart.

    Args:
        folder: the folder, without symlinks.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(folder).name)[:40]
    return f"{name}-{hashlib.sha256(folder.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


def new_conversation_id(folder: str, digits: str = "") -> str:
    """Return an id for a conversation of a folder.

    Args:
        folder: the folder, without symlinks.
        digits: the eight hexadecimal digits that people type; without them, they are random.
    """
    return f"{folder_key(folder)}.{digits or secrets.token_hex(4)}"


def is_conversation(session_id: str) -> bool:
    """Whether an id is one that `new_conversation_id` made."""
    return _ID.fullmatch(session_id) is not None
