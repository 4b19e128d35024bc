"""Where `deep chat` keeps its conversations: one file each, in the user's data directory.

The only module that knows of files. A store of sessions can take its place.
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

from .failure import FAILED, USAGE, Failure
from .screen import plain

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
    """One conversation, as it is stored.

    Attributes:
        id: eight hexadecimal digits.
        folder: the current directory of whoever began it, without symlinks.
        model: the model's id.
        backend: the backend's name.
        deps: the session, as `DeepAgentDeps.dump` wrote it; "" before the first turn.
        messages: the history; every tool call in it has its return, but for those that `pending` asks about.
        pending: what waits for a person.
        usage: of all turns.
        conversation_id: the same in all runs.
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
    """The conversations below one folder, by the project in which each began. Files and folders are the user's alone.

    Args:
        root: the folder; None means the user's data directory (platformdirs).
    """

    def __init__(self, root: Path | None = None) -> None:
        if root is None:
            from platformdirs import user_data_path

            root = user_data_path("deep") / "chats"
        self._root = root
        self._written: dict[str, tuple[int, int, int]] = {}
        """What the file of each conversation was when this process read or wrote it last."""

    def project(self, folder: str) -> Path:
        """Where the conversations of one project are."""
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(folder).name)[:40]
        return self._root / f"{name}-{hashlib.sha256(folder.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"

    def new(self, folder: str, model: str, backend: str) -> StoredChat:
        """A conversation that has not begun; nothing is written."""
        return StoredChat(secrets.token_hex(4), folder, model, backend)

    def save(self, chat: StoredChat) -> StoredChat:
        """Write it, all or nothing; the file is the user's alone (mode 0600).

        Returns:
            The conversation as it is stored: under a new id where another process has gone on with this one, so
            that neither overwrites the other.

        Raises:
            OSError: it cannot be written; what was stored before is still there.
        """
        self.project(chat.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(chat)
        known = self._written.get(chat.id)
        if _stamp(path) not in (None, known):
            chat = replace(chat, id=secrets.token_hex(4))
            path = self._path(chat)
        document = _Document(
            format=FORMAT,
            id=chat.id,
            folder=plain(chat.folder),
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
            self._written[chat.id] = stamp
        return chat

    def load(self, id: str, folder: str) -> StoredChat:
        """A stored conversation of this folder.

        Raises:
            Failure: there is none of this id, it belongs to another folder, or it cannot be read; the file stays.
        """
        if not ID.fullmatch(id):
            raise Failure(f"--resume {id}: an id is eight digits and letters a to f, as deep chat printed it", USAGE)
        found = sorted(self._root.glob(f"*/{id}.json"))
        if not found:
            raise Failure(f"--resume {id}: there is no such chat; deep chat --resume takes this folder's newest", USAGE)
        chat = self._read(found[0])
        if chat.folder != plain(folder):
            raise Failure(
                f"--resume {id}: it was begun in {chat.folder}: cd there, then deep chat --resume {id}", USAGE
            )
        return replace(chat, folder=folder)

    def newest(self, folder: str) -> StoredChat:
        """The conversation of this folder that was stored last.

        Raises:
            Failure: there is none, or it cannot be read; the file stays.
        """
        stamped = [(path.stat().st_mtime_ns, path) for path in self.project(folder).glob("*.json")]
        if not stamped:
            raise Failure(f"--resume: there is no chat of {folder} yet; begin one with deep chat", USAGE)
        return replace(self._read(max(stamped)[1]), folder=folder)

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
                    "pip install -U deep-cli. The file was left as it is",
                    FAILED,
                )
            stored = _Document.model_validate_json(text)
        except (OSError, ValueError) as error:
            raise Failure(
                f"{path}: this chat cannot be read ({_problem(error)}). The file was left as it is; mend it, or begin "
                "another with deep chat",
                FAILED,
            ) from error
        if stamp is not None:
            self._written[stored.id] = stamp
        conversation = stored.conversation
        return StoredChat(
            stored.id,
            stored.folder,
            stored.model,
            stored.backend,
            stored.deps,
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
    """What tells one version of a file from another; None where there is none."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f".{path.stem}.{os.getpid()}.part")
    # The mode holds from the first byte on, whatever the umask.
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
