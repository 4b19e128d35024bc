"""Read the chats that earlier versions of `deep chat` stored: a JSON file each. It loads no Pydantic AI."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard, cast

from deep_core import DeepAgentDeps, SessionState

from ..run.names import chats_folder

__all__ = ["OldChat", "read_old_chats"]

FORMAT = 1
Json = Mapping[str, Any]


@dataclass(frozen=True)
class OldChat:
    """A chat in a file.

    Attributes:
        path: the file.
        session_id: the chat's id in a store of sessions.
        problem: why the file cannot be read; "" if it can. The rest is empty then.
        labels: what the runs of a chat keep of it.
        messages: the conversation, as JSON.
        usage: what it used: the fields of `RunUsage` that are not 0.
        requests: the calls that wait, as JSON; None if none do.
        state: the plugins' state.
    """

    path: Path
    session_id: str
    problem: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    messages: Sequence[Json] = ()
    usage: Json = field(default_factory=dict[str, Any])
    requests: Json | None = None
    state: SessionState = field(default_factory=SessionState)


def read_old_chats() -> Iterator[OldChat]:
    """Yield the chats in files, the one used last at the end."""
    for path in sorted(chats_folder().glob("*/*.json"), key=lambda path: path.stat().st_mtime_ns):
        # The folder is named after the project; its path in the file may have lost characters that are no text.
        session_id = f"{path.parent.name}.{path.stem}"
        try:
            yield _read(path, session_id)
        except OSError as error:
            yield OldChat(path, session_id, error.strerror or str(error))
        except (ValueError, RecursionError) as error:
            yield OldChat(path, session_id, str(error))


def _read(path: Path, session_id: str) -> OldChat:
    data = _table(json.loads(path.read_bytes(), parse_constant=str), "the file")
    version = data.get("format")
    if isinstance(version, int) and version > FORMAT:
        raise ValueError(f"written by a later deep-cli (format {version}, this one reads {FORMAT})")
    conversation = _table(data.get("conversation"), "conversation")
    messages, requests = conversation.get("messages"), conversation.get("deferred_tool_requests")
    if not _are_messages(messages):
        raise ValueError("conversation: has what is no message")
    usage, dump = _table(conversation.get("usage"), "usage"), _text(data, "deps")
    return OldChat(
        path,
        session_id,
        labels={name: _text(data, name) for name in ("model", "backend", "folder")},
        messages=messages,
        usage={name: value for name, value in usage.items() if value},
        requests=None if requests is None else _table(requests, "deferred_tool_requests"),
        state=DeepAgentDeps.load(dump).state if dump else SessionState(),
    )


def _table(value: Any, name: str) -> Json:
    if not isinstance(value, dict):
        raise ValueError(f"{name} should be an object")
    return cast("Json", value)


def _text(data: Json, name: str) -> str:
    if not isinstance(value := data.get(name), str):
        raise ValueError(f"{name} should be a text")
    return value


def _are_messages(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    """Return whether a value looks like messages. What continues the chat validates them."""
    return _are_tables(value) and all(
        message.get("kind") in ("request", "response")
        and _are_tables(parts := message.get("parts"))
        and all(isinstance(part.get("part_kind"), str) for part in parts)
        for message in value
    )


def _are_tables(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(value, list) and all(isinstance(each, dict) for each in cast("list[Any]", value))
