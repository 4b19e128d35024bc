"""One transcript a method: what is on the wire, line by line. `ACP_RECORD=1` writes them anew."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import acp
import pytest

from plugins.acp.tests.editor import connected, transcript

TRANSCRIPTS = Path(__file__).parent / "transcripts"
METHODS = (
    "initialize",
    "authenticate",
    "session-new",
    "session-set_mode",
    "session-set_config_option",
    "session-prompt",
    "session-cancel",
    "session-list",
    "session-load",
    "session-resume",
    "session-close",
    "session-delete",
)


@pytest.fixture(scope="module")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What one connection says for each method, in one go."""
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work").resolve()
    (folder / "notes.txt").write_text("red\n", encoding="utf-8")
    before = os.getcwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        try:
            return asyncio.run(record(home, folder))
        finally:
            os.chdir(before)


async def record(home: Path, folder: Path) -> Mapping[str, str]:
    found: dict[str, str] = {}
    names = {str(folder): "/project"}
    async with connected(home) as editor:

        def take(method: str) -> None:
            found[method] = transcript(editor.lines, names)
            editor.lines.clear()

        conn: Any = editor.connection
        take("initialize")
        with pytest.raises(acp.RequestError):
            await conn.authenticate(method_id="key")
        take("authenticate")
        session = (await conn.new_session(cwd=str(folder), mcp_servers=[])).session_id
        names[session] = "work-000000000000.00000000"
        await seen(editor, "available_commands_update")
        take("session-new")
        await conn.set_session_mode(session_id=session, mode_id="accept-edits")
        with pytest.raises(acp.RequestError):
            await conn.set_session_mode(session_id=session, mode_id="yolo")
        take("session-set_mode")
        await conn.set_config_option(session_id=session, config_id="model", value="script:other")
        await conn.set_config_option(session_id=session, config_id="mode", value="ask")
        with pytest.raises(acp.RequestError):
            await conn.set_config_option(session_id=session, config_id="model", value="script:unknown")
        take("session-set_config_option")
        editor.answers = ["allow"]
        await editor.prompt(session, "edit notes.txt: red -> blue")
        await editor.prompt(session, "plan buy milk, bake bread")
        take("session-prompt")

        async def stop() -> None:
            await conn.cancel(session_id=session)

        editor.answers = [stop]
        await editor.prompt(session, "write more.txt: some")
        take("session-cancel")
        await conn.list_sessions(cwd=str(folder))
        take("session-list")
        await conn.load_session(cwd=str(folder), session_id=session, mcp_servers=[])
        await seen(editor, "available_commands_update")
        take("session-load")
        await conn.resume_session(cwd=str(folder), session_id=session, mcp_servers=[])
        await seen(editor, "available_commands_update")
        take("session-resume")
        await conn.close_session(session_id=session)
        with pytest.raises(acp.RequestError):
            await editor.prompt(session, "say more")
        take("session-close")
        await editor.request("session/delete", sessionId=session)
        await conn.list_sessions(cwd=str(folder))
        take("session-delete")
    return found


async def seen(editor: Any, kind: str) -> None:
    """Wait for an update, which comes by itself."""
    while not any(
        message.get("params", {}).get("update", {}).get("sessionUpdate") == kind for _, message in editor.lines
    ):
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("method", METHODS)
def test_the_wire_of_a_method(transcripts: Mapping[str, str], method: str) -> None:
    file = TRANSCRIPTS / f"{method}.txt"
    if os.environ.get("ACP_RECORD"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(transcripts[method], encoding="utf-8")
    assert transcripts[method] == file.read_text(encoding="utf-8")
