"""{LF, CRLF, mixed, BOM, UTF-16, latin-1, tabs} x {edit, write, someone else's change in between, two sessions}.

Over three backends: confined local with guarded writes, Pydantic AI's own local without, and memory.
"""

from __future__ import annotations

import anyio
import pytest
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.workspaces import Workspace

pytestmark = pytest.mark.anyio

LINES = ["alpha", "beta é", "\tgamma", "delta"]
CONTENTS: dict[str, bytes] = {
    "lf": "\n".join(LINES).encode() + b"\n",
    "no_final_newline": "\n".join(LINES).encode(),
    "crlf": "\r\n".join(LINES).encode() + b"\r\n",
    "mixed": "alpha\r\nbeta é\n\tgamma\r\ndelta\n".encode(),
    "bom": b"\xef\xbb\xbf" + "\r\n".join(LINES).encode(),
    "utf16": "\r\n".join([*LINES, ""]).encode("utf-16"),
    "utf16_be": b"\xfe\xff" + "\n".join([*LINES, ""]).encode("utf-16-be"),
    "latin1": "\r\n".join([*LINES, ""]).encode("latin-1"),
    "tabs": b"\talpha\t\n\tbeta\n\t\tgamma\n\tdelta\t\n",
}
ENCODINGS = {"utf16": "utf-16-le", "utf16_be": "utf-16-be", "latin1": "latin-1"}


@pytest.fixture(params=sorted(CONTENTS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def _bytes(kind: str, text: str) -> bytes:
    return text.encode(ENCODINGS.get(kind, "utf-8"))


async def test_edit(workspace: Workspace, kind: str, new_session) -> None:
    session, before = new_session(workspace), CONTENTS[kind]
    await workspace.write_bytes("f", before)
    shown = await session.ok("read_file", "f")
    assert "\r" not in shown
    assert "1\t" in shown
    await session.ok("edit_file", "f", "gamma", "GAMMA")
    assert await workspace.read_bytes("f") == before.replace(_bytes(kind, "gamma"), _bytes(kind, "GAMMA"))
    # and a second one, without reading again: its own edit is what it last saw
    await session.ok("edit_file", "f", "alpha", "ALPHA")
    await session.ok("edit_file", "f", "GAMMA", "gamma")
    await session.ok("edit_file", "f", "ALPHA", "alpha")
    assert await workspace.read_bytes("f") == before


async def test_edit_across_lines(workspace: Workspace, kind: str, new_session) -> None:
    session, before = new_session(workspace), CONTENTS[kind]
    await workspace.write_bytes("f", before)
    await session.ok("read_file", "f")
    old = "\tbeta\n\t\tgamma\n" if kind == "tabs" else "beta é\n\tgamma\n"
    await session.ok("edit_file", "f", old, "new\n" + old)
    await session.ok("edit_file", "f", "new\n" + old, old)
    assert await workspace.read_bytes("f") == before


async def test_write(workspace: Workspace, kind: str, new_session) -> None:
    session, before = new_session(workspace), CONTENTS[kind]
    await workspace.write_bytes("f", before)
    assert "read it first" in await session.failed("write_file", "f", "x\n")
    assert await workspace.read_bytes("f") == before
    await session.ok("read_file", "f")
    mark = {"bom": b"\xef\xbb\xbf", "utf16": b"\xff\xfe", "utf16_be": b"\xfe\xff"}.get(kind, b"")
    ending = "\r\n" if b"\r" in before and kind != "mixed" else "\n"
    await session.ok("write_file", "f", "x\ny é\n")
    assert await workspace.read_bytes("f") == mark + _bytes(kind, f"x{ending}y é{ending}")
    await session.ok("edit_file", "f", "x\n", "z\n")
    assert await workspace.read_bytes("f") == mark + _bytes(kind, f"z{ending}y é{ending}")


async def test_someone_elses_change_in_between(workspace: Workspace, kind: str, new_session) -> None:
    session, before = new_session(workspace), CONTENTS[kind]
    await workspace.write_bytes("f", before)
    await session.ok("read_file", "f")
    theirs = before.replace(_bytes(kind, "delta"), _bytes(kind, "DELTA"))
    await workspace.write_bytes("f", theirs)
    assert "changed by someone else" in await session.failed("edit_file", "f", "gamma", "GAMMA")
    assert "changed by someone else" in await session.failed("write_file", "f", "mine\n")
    assert await workspace.read_bytes("f") == theirs
    await session.ok("read_file", "f")
    await session.ok("edit_file", "f", "gamma", "GAMMA")
    assert await workspace.read_bytes("f") == theirs.replace(_bytes(kind, "gamma"), _bytes(kind, "GAMMA"))


async def test_the_same_bytes_written_again_are_no_change(workspace: Workspace, kind: str, new_session) -> None:
    session = new_session(workspace)
    await workspace.write_bytes("f", CONTENTS[kind])
    await session.ok("read_file", "f")
    await workspace.write_bytes("f", CONTENTS[kind])  # another time, inode and all
    await session.ok("edit_file", "f", "gamma", "GAMMA")


async def test_two_sessions_at_once(workspace: Workspace, kind: str, new_session) -> None:
    sessions = [new_session(workspace), new_session(workspace)]
    await workspace.write_bytes("f", CONTENTS[kind])
    for session in sessions:
        await session.ok("read_file", "f")
    refused: list[int] = []

    async def work(number: int) -> None:
        session = sessions[number]
        for step in range(5):
            name = f"s{number}.{step}"
            while True:
                try:
                    await session.ok("edit_file", "f", "gamma", f"{name} gamma")
                    break
                except ToolFailed as error:
                    if "changed by someone else" not in error.message:
                        raise
                    refused.append(number)
                    await session.ok("read_file", "f")

    async with anyio.create_task_group() as group:
        for number in range(2):
            group.start_soon(work, number)
    data = await workspace.read_bytes("f")
    for number in range(2):
        for step in range(5):
            assert data.count(_bytes(kind, f"s{number}.{step} ")) == 1
    assert refused, "the second to come was told of the first"
