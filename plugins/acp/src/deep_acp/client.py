"""What the agent asks of the editor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acp.connection import Connection
from acp.meta import CLIENT_METHODS
from acp.schema import (
    ReadTextFileRequest,
    ReadTextFileResponse,
    RequestPermissionRequest,
    RequestPermissionResponse,
    SessionNotification,
    WriteTextFileRequest,
)
from acp.utils import notify_model, request_model, serialize_params

if TYPE_CHECKING:
    from acp.schema import ClientCapabilities, PermissionOption, ToolCallUpdate

__all__ = ["Editor"]


class Editor:
    """The editor at the other end of a connection.

    Args:
        connection: the connection.

    Attributes:
        reads: whether it reads files: it knows what is not saved yet.
        writes: whether it writes files.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.reads = False
        self.writes = False

    def learn(self, capabilities: ClientCapabilities | None) -> None:
        """Take what `initialize` says."""
        fs = None if capabilities is None else capabilities.fs
        self.reads = bool(fs and fs.read_text_file)
        self.writes = bool(fs and fs.write_text_file)

    async def update(self, session_id: str, update: Any) -> None:
        """Send a change of a session."""
        notification = SessionNotification(session_id=session_id, update=update)
        await notify_model(self._connection, CLIENT_METHODS["session_update"], notification)

    async def ask(self, session_id: str, call: ToolCallUpdate, options: Sequence[PermissionOption]) -> str | None:
        """Ask the person about a call; return the id of the chosen option, or None if the question was canceled."""
        request = RequestPermissionRequest(session_id=session_id, tool_call=call, options=[*options])
        method = CLIENT_METHODS["session_request_permission"]
        response = await request_model(self._connection, method, request, RequestPermissionResponse)
        # A rejection is "selected" too, of an option that rejects: only the id says which.
        return response.outcome.option_id if response.outcome.outcome == "selected" else None

    async def read_file(self, session_id: str, path: str) -> str:
        """Return a file's text as the editor has it.

        Raises:
            acp.RequestError: the editor cannot read it.
        """
        request = ReadTextFileRequest(session_id=session_id, path=path)
        method = CLIENT_METHODS["fs_read_text_file"]
        return (await request_model(self._connection, method, request, ReadTextFileResponse)).content

    async def write_file(self, session_id: str, path: str, text: str) -> None:
        """Write a file, and what the editor has of it.

        Raises:
            acp.RequestError: the editor cannot write it.
        """
        request = WriteTextFileRequest(session_id=session_id, path=path, content=text)
        await self._connection.send_request(CLIENT_METHODS["fs_write_text_file"], serialize_params(request))
