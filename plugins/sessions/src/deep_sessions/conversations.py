"""The ids of conversations that belong to a folder: `deep chat` and editors list and resume each other's."""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import StoreError

if TYPE_CHECKING:
    from .store import SessionStore

__all__ = ["folder_key", "folder_owner", "folder_store", "is_conversation", "is_person", "new_conversation_id"]

_FOLDER = "folder:"

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


def folder_owner(folder: str) -> str:
    """Return the owner that a folder is in a store.

    Args:
        folder: the folder, without symlinks.
    """
    return f"{_FOLDER}{folder_key(folder)}"


async def folder_store(store: SessionStore, folder: str) -> SessionStore:
    """Return the store as the interfaces of a folder see it: the folder is an owner.

    The page, the editor and the terminal of one folder neither show, answer nor run a session of another one. A
    folder's conversations from before folders were owners become its own.

    Args:
        store: of all folders.
        folder: the folder, without symlinks.
    """
    view = store.for_owner(folder_owner(folder))
    with suppress(StoreError):  # whatever uses the store next says so
        await view.adopt(f"{folder_key(folder)}.", begins=True)
    return view


def is_person(owner: str | None) -> bool:
    """Whether an owner is the person whose store this is, in any folder: no tenant of a server."""
    return owner is None or owner.startswith(_FOLDER)
