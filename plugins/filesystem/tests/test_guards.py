"""No edit is lost: parallel calls, threads and loops, foreign writers up to the last check, and policy wrappers."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from deep_backends import composite_backend, local_backend, memory_backend
from deep_filesystem import Seen
from deep_filesystem.access import range_reader
from deep_filesystem.edit import Span
from deep_filesystem.locks import holding
from pydantic_ai.workspaces import LocalWorkspaceBackend, ReadOnlyWorkspace, Workspace, WrapperWorkspace

from deep_core import SupportsGuardedWrite, SupportsRangeRead

pytestmark = pytest.mark.anyio


async def test_parallel_edits_of_one_session_all_land(session: Any) -> None:
    await session.ok("write_file", "f", "".join(f"<{number}>\n" for number in range(20)))

    async def edit(number: int) -> None:
        await session.ok("edit_file", "f", f"<{number}>", f"[{number}]")

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(edit, number)
    assert await session.workspace.read_bytes("f") == b"".join(b"[%d]\n" % number for number in range(20))


@pytest.mark.parametrize("make", [local_backend, LocalWorkspaceBackend])
def test_writers_in_threads_with_loops_of_their_own_lose_nothing(
    root: Path, make: Callable[[Path], Any], new_session: Any
) -> None:
    (root / "f").write_bytes(b"end\n")
    (root / "link").symlink_to("f")
    errors: list[BaseException] = []

    def thread(number: int) -> None:
        async def work() -> None:
            # A backend object, a session and a name of the file of its own: the file is what they share.
            session = new_session(Workspace(make(root)))
            name = "f" if number % 2 else "link"
            for step in range(5):
                while True:
                    await session.ok("read_file", name)
                    try:
                        await session.ok("edit_file", name, "end\n", f"{number}.{step}\nend\n")
                        break
                    except Exception as error:
                        if "by someone else" not in str(error):
                            raise

        try:
            anyio.run(work)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    lines = (root / "f").read_text().splitlines()
    assert sorted(lines[:-1]) == sorted(f"{number}.{step}" for number in range(4) for step in range(5))
    assert lines[-1] == "end"
    assert (root / "link").is_symlink()


class Barrier(LocalWorkspaceBackend):
    """A backend without guarded writes that stops at a named point, where someone else writes."""

    at: str = ""
    then: Callable[[], None] = staticmethod(lambda: None)

    def _stop(self, where: str) -> None:
        if self.at == where:
            self.at = ""
            self.then()

    async def stat(self, path: str) -> Any:
        found = await super().stat(path)
        self._stop("before the check")
        return found

    async def read_bytes(self, path: str) -> bytes:
        data = await super().read_bytes(path)
        self._stop("after a read")
        return data

    async def write_bytes(self, path: str, data: bytes) -> None:
        self._stop("before the write")
        await super().write_bytes(path, data)


@pytest.mark.parametrize(
    ("at", "caught"), [("before the check", True), ("after a read", True), ("before the write", False)]
)
async def test_a_foreign_writer_is_caught_up_to_the_last_check(
    root: Path, new_session: Any, at: str, caught: bool
) -> None:
    backend = Barrier(root)
    session = new_session(Workspace(backend))
    file = root / "f"
    file.write_bytes(b"one\ntwo\n")
    await session.ok("read_file", "f")
    backend.then = lambda: (file.write_bytes(b"one\ntheirs\n"), None)[1]
    backend.at = at
    if caught:
        assert "by someone else" in await session.failed("edit_file", "f", "one", "1")
        assert file.read_bytes() == b"one\ntheirs\n"
    else:
        # The window that is left, as the README says: between the last check and the write.
        await session.ok("edit_file", "f", "one", "1")
        assert file.read_bytes() == b"1\ntwo\n"


async def test_a_guarded_write_of_the_backend_is_used_and_its_refusal_is_reported(root: Path, new_session: Any) -> None:
    backend = local_backend(root)
    session = new_session(Workspace(backend))
    file = root / "f"
    file.write_bytes(b"one\n")
    await session.ok("read_file", "f")
    write_if = backend.write_if
    expected: list[str | None] = []

    async def stopped(path: str, data: bytes, *, expected: str | None) -> bool:
        file.write_bytes(b"theirs\n")
        seen.append(expected)
        return await write_if(path, data, expected=expected)

    seen = expected
    backend.write_if = stopped
    assert "by someone else just now" in await session.failed("edit_file", "f", "one", "1")
    assert expected == [hashlib.sha256(b"one\n").hexdigest()]
    assert file.read_bytes() == b"theirs\n"


async def test_a_file_created_by_someone_else_meanwhile_is_not_overwritten(root: Path, new_session: Any) -> None:
    backend = Barrier(root)
    session = new_session(Workspace(backend))
    stat = backend.stat

    async def absent(path: str) -> Any:
        try:
            return await stat(path)
        finally:
            (root / "f").write_bytes(b"theirs\n")

    backend.stat = absent
    assert "created by someone else" in await session.failed("write_file", "f", "mine\n")
    assert (root / "f").read_bytes() == b"theirs\n"


async def test_what_was_removed_can_be_written_again_and_is_said(session: Any) -> None:
    await session.ok("write_file", "f", "a\n")
    await session.workspace.remove("f")
    assert "no such file" in await session.failed("edit_file", "f", "a", "b")
    assert "was removed since" in await session.ok("write_file", "f", "b\n")


async def test_a_file_seen_in_part_is_not_replaced_but_edited(workspace: Workspace, new_session: Any) -> None:
    session = new_session(workspace, read_lines=3)
    await workspace.write_bytes("f", b"1\n2\n3\n4\n5\n")
    assert "next offset=3" in await session.ok("read_file", "f")
    assert "read on from offset=3" in await session.failed("write_file", "f", "x\n")
    await session.ok("edit_file", "f", "2\n", "two\nmore\n")
    assert "offset=4" in await session.failed("write_file", "f", "x\n")
    await session.ok("read_file", "f", offset=4)
    await session.ok("write_file", "f", "x\n")
    assert await workspace.read_bytes("f") == b"x\n"


async def test_a_cut_line_counts_as_seen_when_it_was_read_on(workspace: Workspace, new_session: Any) -> None:
    session = new_session(workspace, line_chars=10)
    await workspace.write_bytes("f", b"a" * 30 + b"\nb\n")
    assert "aaaaaaaaaa [line continues: byte=10]\n2\tb" in await session.ok("read_file", "f")
    assert "read on from byte=10" in await session.failed("write_file", "f", "x\n")
    await session.ok("read_file", "f", byte=10)
    await session.ok("write_file", "f", "x\n")


async def test_an_empty_file_needs_no_reading(workspace: Workspace, new_session: Any) -> None:
    await workspace.write_bytes("f", b"")
    await new_session(workspace).ok("write_file", "f", "x\n")


@pytest.mark.parametrize("data", [b"\0\1\2", b"\x7fELF\x02\x01\0\0"])
async def test_a_binary_file_is_never_overwritten(workspace: Workspace, new_session: Any, data: bytes) -> None:
    session = new_session(workspace)
    await workspace.write_bytes("f", data)
    for call in (("read_file", "f"), ("edit_file", "f", "a", "b"), ("write_file", "f", "x")):
        told = await session.failed(*call)
        assert "binary" in told  # and not that it has to be read first, which it cannot be
        assert "another file" in told
    assert await workspace.read_bytes("f") == data


async def test_what_the_encoding_cannot_hold_is_refused_and_nothing_written(
    workspace: Workspace, new_session: Any
) -> None:
    session, data = new_session(workspace), "caf\xe9\n".encode("latin-1")
    await workspace.write_bytes("f", data)
    await session.ok("read_file", "f")
    for call in (("edit_file", "f", "caf", "€"), ("write_file", "f", "5 €\n")):
        message = await session.failed(*call)
        assert "U+20AC" in message
        assert "Nothing was written" in message
    assert await workspace.read_bytes("f") == data


async def test_two_names_of_one_file_have_one_record(root: Path, new_session: Any) -> None:
    (root / "f").write_bytes(b"a\n")
    (root / "link").symlink_to("f")
    session = new_session(Workspace(local_backend(root)))
    await session.ok("read_file", "link")
    await session.ok("edit_file", "f", "a", "b")
    await session.ok("edit_file", "./x/../link", "b", "c")
    assert (root / "f").read_bytes() == b"c\n"
    assert (root / "link").is_symlink()


async def test_sessions_share_nothing(workspace: Workspace, new_session: Any) -> None:
    one, two = new_session(workspace), new_session(workspace)
    await one.ok("write_file", "f", "a\n")
    assert "not read it" in await two.failed("write_file", "f", "b\n")
    assert "not read it" in await two.failed("edit_file", "f", "a", "b")


# Large files


async def _large(root: Path) -> Path:
    file = root / "big.log"
    file.write_bytes(b"".join(b"%07d %s\n" % (number, b"x" * 40) for number in range(100_000)))  # 4.9 MB
    return file


@pytest.mark.slow
async def test_a_large_file_is_read_by_page_and_edited(root: Path, new_session: Any) -> None:
    file = await _large(root)
    session = new_session(Workspace(local_backend(root)))
    page = await session.ok("read_file", "big.log", offset=90_000, limit=2)
    assert page.startswith("90001\t0090000 ")
    assert "next offset=90002" in page
    with file.open("ab") as out:  # a log grows: no reason for an alarm
        out.write(b"more\n")
    await session.ok("edit_file", "big.log", "0090001 x", "edited x")
    data = file.read_bytes()
    assert data.count(b"edited") == 1
    assert data.endswith(b"more\n")
    assert "not replaced as a whole" not in await session.ok("edit_file", "big.log", "edited x", "again x")


async def test_a_change_in_what_was_shown_of_a_large_file_is_noticed(root: Path, new_session: Any) -> None:
    file = await _large(root)
    session = new_session(Workspace(local_backend(root)))
    await session.ok("read_file", "big.log", offset=10, limit=2)
    await session.ok("read_file", "big.log", offset=90_000, limit=2)
    file.write_bytes(file.read_bytes().replace(b"0000010 ", b"theirs! "))
    assert "changed by someone else" in await session.failed("edit_file", "big.log", "0090001 x", "edited")
    assert "changed by someone else" in await session.failed("write_file", "big.log", "x")
    await session.ok("read_file", "big.log", offset=10, limit=2)
    await session.ok("edit_file", "big.log", "0090001 x", "edited")
    assert "is not replaced as a whole" not in await session.failed("write_file", "big.log", "x")


async def test_a_large_file_is_not_replaced_as_a_whole(root: Path, new_session: Any) -> None:
    await _large(root)
    session = new_session(Workspace(local_backend(root)))
    await session.ok("read_file", "big.log")
    assert "is large and you saw only 1 of its pages" in await session.failed("write_file", "big.log", "x")


async def test_above_the_limit_a_file_is_read_only(root: Path, new_session: Any) -> None:
    await _large(root)
    session = new_session(Workspace(local_backend(root)), max_bytes=1_000_000)
    await session.ok("read_file", "big.log", offset=50_000)
    for call in (("edit_file", "big.log", "a", "b"), ("write_file", "big.log", "x")):
        assert "too large (4,900,000 bytes, the limit is 1,000,000)" in await session.failed(*call)


async def test_without_ranges_a_large_file_is_refused_unread(root: Path, new_session: Any) -> None:
    await _large(root)
    backend = LocalWorkspaceBackend(root)

    async def never(path: str) -> bytes:
        raise AssertionError("it was read")

    backend.read_bytes = never
    session = new_session(Workspace(backend), max_bytes=1_000_000)
    assert "too large" in await session.failed("read_file", "big.log", offset=50_000)


async def test_one_line_of_many_megabytes_is_cut_with_a_way_on(root: Path, new_session: Any) -> None:
    (root / "f.json").write_bytes(b"[" + b"1," * 5_000_000 + b"1]")
    session = new_session(Workspace(local_backend(root)))
    page = await session.ok("read_file", "f.json")
    assert "[line continues: byte=4000]" in page
    assert len(page) < 5000
    assert "next byte=6040000" in await session.ok("read_file", "f.json", byte=6_000_000)


# Layers


async def test_a_read_only_workspace_is_not_gone_around(root: Path, new_session: Any) -> None:
    (root / "f").write_bytes(b"a\n")
    session = new_session(ReadOnlyWorkspace(Workspace(local_backend(root))))
    await session.ok("read_file", "f")
    for call in (("edit_file", "f", "a", "b"), ("write_file", "f", "x\n"), ("write_file", "new", "x\n")):
        assert "read-only" in await session.failed(*call)
    assert (root / "f").read_bytes() == b"a\n"
    assert not (root / "new").exists()


class Recording(WrapperWorkspace):
    """A policy that has a say in writes."""

    wrote: list[str]

    async def write_bytes(self, path: str, data: bytes) -> None:
        self.wrote.append(path)
        await super().write_bytes(path, data)


class Renamed(WrapperWorkspace):
    """A wrapper that has no say in file operations, as the one that answers for a continued conversation's ref."""

    @property
    def ref(self) -> None:
        return None


async def test_a_wrapper_with_a_say_in_writes_is_asked(root: Path, new_session: Any) -> None:
    workspace = Recording(Workspace(local_backend(root)))
    workspace.wrote = []
    session = new_session(workspace)
    await session.ok("write_file", "f", "a\n")
    assert [Path(path).name for path in workspace.wrote] == ["f"]
    assert await range_reader(workspace, "/f") is not None


async def test_a_wrapper_without_a_say_costs_no_ability(root: Path) -> None:
    workspace = Renamed(Workspace(local_backend(root)))
    assert await range_reader(workspace, "/f") is not None
    assert await range_reader(Workspace(LocalWorkspaceBackend(root)), "/f") is None


async def test_a_composite_of_able_and_unable_backends(root: Path, new_session: Any) -> None:
    plain = root.parent / "plain"
    plain.mkdir()
    backend = composite_backend(local_backend(root), {"plain/": LocalWorkspaceBackend(plain), "mem/": memory_backend()})
    session = new_session(Workspace(backend))
    for name in ("f.txt", "plain/f.txt", "mem/f.txt"):
        await session.ok("write_file", name, "find me\n")
        await session.ok("edit_file", name, "me", "us")
        assert "1\tfind us" in await session.ok("read_file", name)
    # Commands see the default alone; what grep says does not depend on them.
    assert (await session.ok("grep", "us")).splitlines() == ["f.txt", "mem/f.txt", "plain/f.txt"]
    assert (await session.ok("glob", "**/*.txt")).splitlines() == ["f.txt", "mem/f.txt", "plain/f.txt"]


def test_the_backends_of_deep_backends_have_the_abilities(root: Path) -> None:
    for backend in (local_backend(root), memory_backend()):
        assert isinstance(backend, SupportsRangeRead)
        assert isinstance(backend, SupportsGuardedWrite)


# Parts


def test_what_was_seen_moves_with_an_edit() -> None:
    seen = Seen("x", 100, [(0, 40), (60, 80)])
    after = seen.edited(b"-" * 103, [Span(10, 12, 5), Span(50, 52, 2)])
    assert after.ranges == [(0, 43), (53, 55), (63, 83)]
    assert after.gap == 43


async def test_a_lock_waits_and_can_be_cancelled_while_it_does() -> None:
    order: list[str] = []

    async def user(name: str, inside: Callable[[], Awaitable[None]]) -> None:
        async with holding("key"):
            order.append(name)
            await inside()

    release = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(user, "first", release.wait)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.02) as scope:
            await user("never", anyio.lowlevel.checkpoint)
        assert scope.cancelled_caught
        group.start_soon(user, "second", anyio.lowlevel.checkpoint)
        await anyio.sleep(0)
        release.set()
    assert order == ["first", "second"]
