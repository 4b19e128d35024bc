"""Serve one editor over two streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acp.agent.router import build_agent_router
from acp.connection import Connection
from acp.meta import AGENT_METHODS
from acp.schema import DeleteSessionRequest
from acp.utils import normalize_result

from .agent import EditorAgent
from .client import Editor

if TYPE_CHECKING:
    import asyncio

    from deep_sessions import FolderSettings

__all__ = ["serve"]


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, settings: FolderSettings) -> None:
    """Serve an editor until it closes the connection. Runs under way then stop as at a crash, and can be resumed.

    Args:
        reader: what the editor sends.
        writer: what it gets.
        settings: what `deep acp` was started with.
    """

    async def handle(method: str, params: Any, is_notification: bool) -> Any:
        return await router(method, params, is_notification)

    connection = Connection(handle, writer, reader, listening=False)
    agent = EditorAgent(Editor(connection), settings)
    # Resume, close and delete are stable in the protocol, and not yet in this SDK.
    router = build_agent_router(agent, use_unstable_protocol=True)  # pyright: ignore[reportArgumentType]
    router.route_request(
        AGENT_METHODS["session_delete"], DeleteSessionRequest, agent, "delete_session", adapt_result=normalize_result
    )
    try:
        await connection.main_loop()
    finally:
        await connection.close()
        await agent.close()
