"""Store the conversations of `deep chat`: one file each, in the user's data directory.

The only module that knows about files. A store of sessions can replace it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ValidationError
from pydantic_ai import Conversation, DeferredToolRequests
from pydantic_ai.messages import ModelMessage
from pydantic_ai.usage import RunUsage

from deep_core.plugin_api import visible

from .failure import FAILED, USAGE, Failure

__all__ = ["ChatStore", "StoredChat"]

FORMAT = 1
ID = re.compile(r"[0-9a-f]{8}")


class _Document(BaseModel):
    """The file's content."""

    format: Literal[1]
    id: str
    folder: str
    model: str
    backend: str
    deps: str
    conversation: Conversation


@dataclass
class StoredChat:
    """One stored conversation.

    Attributes:
        id: eight hexadecimal digits.
        folder: the directory it began in, without symlinks.
        model: the model's id.
        backend: the backend's name.
        deps: the session, from `DeepAgentDeps.dump`; "" before the first turn.
        messages: the history; every tool call has its return, except those that `pending` asks about.
        pending: the calls that wait for the user.
        usage: the sum over all turns.
        conversation_id: the same for all runs.
    """

    id: str
    folder: str
    model: str
    backend: str
    deps: str = ""
    messages: list[ModelMessage] = field(default_factory=list[ModelMessage])
    pending: DeferredToolRequests | None = None
    usage: RunUsage = field(default_factory=RunUsage)
    conversation_id: str = field(default_factory=lambda: Conversation().conversation_id)


class ChatStore:
    """The conversations below one folder, by project. Only the user can read the files and folders.

    Args:
        root: the folder; None means the user's data directory (platformdirs).
    """

    def __init__(self, root: Path | None = None) -> None:
        if root is None:
            from platformdirs import user_data_path

            root = user_data_path("deep") / "chats"
        self._root = root
        self._stamps: dict[str, tuple[int, int, int]] = {}
        """Conversation -> the stamp of its file when this process last read or wrote it."""

    def project(self, folder: str) -> Path:
        """The folder of one project's conversations."""
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(folder).name)[:40]
        return self._root / f"{name}-{hashlib.sha256(folder.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"

    def new(self, folder: str, model: str, backend: str) -> StoredChat:
        """A new conversation; writes nothing."""
        return StoredChat(secrets.token_hex(4), folder, model, backend)

    def save(self, chat: StoredChat) -> StoredChat:
        """Write it atomically, readable by the user alone (mode 0600).

        Returns:
            The conversation as stored: under a new id if another process has continued this one, so that
            neither overwrites the other.

        Raises:
            OSError: it cannot be written; the stored version is unchanged.
        """
        self.project(chat.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(chat)
        known_stamp = self._stamps.get(chat.id)
        if _stamp(path) not in (None, known_stamp):
            chat = replace(chat, id=secrets.token_hex(4))
            path = self._path(chat)
        document = _Document(
            format=FORMAT,
            id=chat.id,
            folder=visible(chat.folder),
            model=chat.model,
            backend=chat.backend,
            deps=chat.deps,
            conversation=Conversation(
                messages=chat.messages,
                usage=chat.usage,
                conversation_id=chat.conversation_id,
                deferred_tool_requests=chat.pending,
            ),
        )
        _write(path, document.model_dump_json().encode())
        stamp = _stamp(path)
        if stamp is not None:
            self._stamps[chat.id] = stamp
        return chat

    def load(self, id: str, folder: str) -> StoredChat:
        """Load a conversation of this folder.

        Raises:
            Failure: the id is unknown, belongs to another folder, or its file cannot be read; the file is kept.
        """
        if not ID.fullmatch(id):
            raise Failure(f"--resume {id}: an id is eight digits and letters a to f, as deep chat printed it", USAGE)
        paths = sorted(self._root.glob(f"*/{id}.json"))
        if not paths:
            raise Failure(f"--resume {id}: there is no such chat; deep chat --resume takes this folder's newest", USAGE)
        chat = self._read(paths[0])
        if chat.folder != visible(folder):
            raise Failure(f"--resume {id}: it began in {chat.folder}: cd there, then deep chat --resume {id}", USAGE)
        return replace(chat, folder=folder)

    def newest(self, folder: str) -> StoredChat:
        """Load this folder's most recently stored conversation.

        Raises:
            Failure: there is none, or its file cannot be read; the file is kept.
        """
        stamps = [(path.stat().st_mtime_ns, path) for path in self.project(folder).glob("*.json")]
        if not stamps:
            raise Failure(f"--resume: there is no chat of {folder} yet; begin one with deep chat", USAGE)
        return replace(self._read(max(stamps)[1]), folder=folder)

    def _path(self, chat: StoredChat) -> Path:
        return self.project(chat.folder) / f"{chat.id}.json"

    def _read(self, path: Path) -> StoredChat:
        stamp = _stamp(path)
        try:
            text = path.read_bytes()
            format = _format(text)
            if isinstance(format, int) and format > FORMAT:
                raise Failure(
                    f"{path}: written by a later deep-cli (format {format}, this one reads {FORMAT}); "
                    "pip install -U deep-cli. The file is unchanged",
                    FAILED,
                )
            document = _Document.model_validate_json(text)
        except (OSError, ValueError) as error:
            raise Failure(
                f"{path}: this chat cannot be read ({_problem(error)}). The file is unchanged; fix it, or begin "
                "another with deep chat",
                FAILED,
            ) from error
        if stamp is not None:
            self._stamps[document.id] = stamp
        conversation = document.conversation
        return StoredChat(
            document.id,
            document.folder,
            document.model,
            document.backend,
            document.deps,
            conversation.messages,
            conversation.deferred_tool_requests,
            conversation.usage,
            conversation.conversation_id,
        )


def _format(text: bytes) -> object:
    data: object = json.loads(text)
    return cast("dict[str, Any]", data).get("format") if isinstance(data, dict) else None


def _problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """The version stamp of a file; None if it does not exist."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.stem}.{os.getpid()}.part")
    # Set the mode at creation, whatever the umask.
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
