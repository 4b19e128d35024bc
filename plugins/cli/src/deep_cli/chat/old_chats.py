"""Read the chats that earlier versions of `deep chat` stored: a JSON file each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from pydantic_ai import Conversation
from pydantic_core import from_json

from deep_core import Kernel, SessionState

from ..run.names import chats_folder

__all__ = ["OldChat", "OldChatDocument", "read_old_chats"]

FORMAT = 1


class OldChatDocument(BaseModel):
    """The content of a file."""

    format: int
    id: str
    folder: str
    model: str
    backend: str
    deps: str
    conversation: Conversation


@dataclass(frozen=True)
class OldChat:
    """A chat in a file.

    Attributes:
        path: the file.
        session_id: the chat's id in a store of sessions.
        problem: why the file cannot be read; "" if it can.
        document: its content; None with a problem.
        state: the plugins' state.
    """

    path: Path
    session_id: str
    problem: str = ""
    document: OldChatDocument | None = None
    state: SessionState | None = None

    @property
    def labels(self) -> dict[str, str]:
        """What the runs of a chat keep of it."""
        found = self.document
        return {} if found is None else {"model": found.model, "backend": found.backend, "folder": found.folder}


def read_old_chats(kernel: Kernel) -> Iterator[OldChat]:
    """Yield the chats in files, the one used last at the end.

    Args:
        kernel: whose plugins own the state.
    """
    for path in sorted(chats_folder().glob("*/*.json"), key=lambda path: path.stat().st_mtime_ns):
        # The folder is named after the project; its path in the file may have lost characters that are no text.
        session_id = f"{path.parent.name}.{path.stem}"
        try:
            yield OldChat(path, session_id, "", *_read(path, kernel))
        except (OSError, ValueError) as error:
            yield OldChat(path, session_id, _problem(error))


def _read(path: Path, kernel: Kernel) -> tuple[OldChatDocument, SessionState]:
    text = path.read_bytes()
    data: Any = from_json(text)
    version = cast("dict[str, Any]", data).get("format") if isinstance(data, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise ValueError(f"written by a later deep-cli (format {version}, this one reads {FORMAT})")
    document = OldChatDocument.model_validate_json(text)
    return document, kernel.load_deps(document.deps).state if document.deps else SessionState()


def _problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return ": ".join(text for text in (".".join(map(str, first["loc"])), first["msg"]) if text)
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
