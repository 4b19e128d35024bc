"""An editor for the tests: the SDK's own client at the other end of a socket, with what it saw and what it answers."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acp import RequestError, text_block
from acp.client.connection import ClientSideConnection
from acp.connection import StreamDirection, StreamEvent
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    ReadTextFileResponse,
    RequestPermissionResponse,
    WriteTextFileResponse,
)
from deep_acp import serve
from deep_sessions import FolderSettings
from pydantic_ai.models import Model

from deep_core import hookimpl
from examples.server.scripted import scripted_model

CONFIG = """
[plugins.filesystem]
require_approval = "name:write_file | name:edit_file"

[plugins.acp.options]
models = ["script:other"]
"""


class Scripted:
    """The models `script:…`, which understand the commands of `examples/server/scripted.py`."""

    @hookimpl
    def deep_resolve_model(self, model_id: str) -> Model | None:
        return scripted_model(0) if model_id.startswith("script:") else None


class Editor:
    """What the client saw, and what it answers.

    Attributes:
        updates: all updates as JSON, in order.
        asked: the questions as JSON.
        answers: the ids of options, or None for a question that is canceled; called, if they are functions.
        buffers: unsaved texts, by path.
        written: what was written through the editor, by path.
        lines: every message of the connection, as JSON, with where it went.
    """

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.answers: list[str | None | Callable[[], Any]] = []
        self.buffers: dict[str, str] = {}
        self.written: dict[str, str] = {}
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.connection: Any = None

    # -- the SDK calls these -------------------------------------------------------------------------------------------

    def on_connect(self, conn: Any) -> None:
        self.connection = conn

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **more: Any) -> Any:
        self.asked.append(tool_call.model_dump(mode="json", by_alias=True, exclude_none=True))
        answer = self.answers.pop(0)
        if callable(answer):
            answer = await answer()
        if answer is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        assert answer in {option.option_id for option in options}
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=answer))

    async def read_text_file(self, session_id: str, path: str, **more: Any) -> ReadTextFileResponse:
        if path not in self.buffers:
            raise RequestError.resource_not_found(path)
        return ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **more: Any) -> WriteTextFileResponse:
        self.written[path] = content
        return WriteTextFileResponse()

    # -- the tests call these ------------------------------------------------------------------------------------------

    def observe(self, event: StreamEvent) -> None:
        who = "editor" if event.direction is StreamDirection.OUTGOING else "agent"
        self.lines.append((who, event.message))

    async def initialize(self, *, files: bool = False, terminals: bool = False) -> Any:
        offered = ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=files, write_text_file=files), terminal=terminals
        )
        return await self.connection.initialize(protocol_version=1, client_capabilities=offered)

    async def prompt(self, session_id: str, *blocks: Any) -> Any:
        blocks = tuple(text_block(block) if isinstance(block, str) else block for block in blocks)
        return await self.connection.prompt(session_id=session_id, prompt=[*blocks])

    async def request(self, method: str, **params: Any) -> Any:
        """Send a request that the SDK's client has no method for."""
        return await self.connection._conn.send_request(method, params)

    def kinds(self) -> list[str]:
        return [update["sessionUpdate"] for update in self.updates]

    def text(self, kind: str = "agent_message_chunk") -> str:
        chunks = [update["content"]["text"] for update in self.updates if update["sessionUpdate"] == kind]
        return "".join(chunks)

    def clear(self) -> None:
        self.updates.clear()
        self.asked.clear()


@asynccontextmanager
async def connected(
    folder: Path, *plugins: Any, files: bool = False, terminals: bool = False, **settings: Any
) -> AsyncGenerator[Editor]:
    """Serve an editor in this process, over a socket. `folder` has the store and the configuration."""
    config = folder / "config.toml"
    if not config.exists():
        config.write_text(CONFIG, encoding="utf-8")
    given = {"model": "script:one", "store": f"sqlite:///{folder / 'sessions.db'}", "config": config, **settings}
    here, there = socket.socketpair()
    reader, agents = await asyncio.open_connection(sock=there, limit=1 << 24)
    agent = asyncio.ensure_future(serve(reader, agents, FolderSettings(plugins=[Scripted(), *plugins], **given)))
    reader, writer = await asyncio.open_connection(sock=here, limit=1 << 24)
    editor = Editor()
    client = ClientSideConnection(editor, writer, reader, use_unstable_protocol=True, observers=[editor.observe])
    try:
        await editor.initialize(files=files, terminals=terminals)
        yield editor
    finally:
        await client.close()
        writer.close()  # the agent sees the end of its input
        await agent
        agents.close()
        await asyncio.gather(writer.wait_closed(), agents.wait_closed(), return_exceptions=True)


# -- transcripts -------------------------------------------------------------------------------------------------------

_RANDOM: Sequence[tuple[str, str]] = (
    (r"\d{4}-\d\d-\d\dT[\d:]+\+00:00", "TIME"),
    (r"pyd_ai_[0-9a-f]+(__[\w-]+)?", "CALL"),
)


def transcript(lines: Sequence[tuple[str, dict[str, Any]]], names: dict[str, str]) -> str:
    """Return messages as lines of JSON, without what differs from run to run.

    Args:
        lines: who sent what.
        names: texts -> what replaces them.
    """
    ids: dict[tuple[str, Any], int] = {}
    calls: dict[str, str] = {}
    out: list[str] = []
    for who, message in joined(lines):
        shown = dict(message)
        if "id" in shown:
            asker = who if "method" in shown else {"editor": "agent", "agent": "editor"}[who]
            shown["id"] = ids.setdefault((asker, shown["id"]), len(ids) + 1)
        text = json.dumps(shown, ensure_ascii=False, sort_keys=True)
        for old, new in names.items():
            text = text.replace(old, new)
        for pattern, new in _RANDOM:
            if new == "CALL":
                text = re.sub(pattern, lambda found: calls.setdefault(found[0], f"CALL-{len(calls) + 1}"), text)
            else:
                text = re.sub(pattern, new, text)
        out.append(f"{who}: {text}")
    return "\n".join(out) + "\n"


def joined(lines: Sequence[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Join the pieces of each message: how many there are depends on the machine."""
    found: list[tuple[str, dict[str, Any]]] = []
    for who, message in lines:
        before = found[-1][1] if found else {}
        if _is_piece(message) and _is_piece(before):
            before["params"]["update"]["content"]["text"] += message["params"]["update"]["content"]["text"]
        else:
            found.append((who, copy.deepcopy(message)))
    return found


def _is_piece(message: dict[str, Any]) -> bool:
    return message.get("params", {}).get("update", {}).get("sessionUpdate") == "agent_message_chunk"
