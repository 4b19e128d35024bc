"""What the tools say, and what they say of mistakes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import anyio
import deep_summarization
import pytest
from deep_backends import local_backend, memory_backend
from pydantic_ai.workspaces import LocalWorkspaceBackend, Workspace, WorkspaceUnavailableError

from deep_core import Kernel

pytestmark = pytest.mark.anyio


async def test_ls(session: Any) -> None:
    for name in ("b/c.txt", "a.txt", ".env", "z/y"):
        await session.ok("write_file", name, "12345")
    assert await session.ok("ls") == "b/\nz/\n.env (5 bytes)\na.txt (5 bytes)"
    assert await session.ok("ls", "b") == "c.txt (5 bytes)"
    await session.workspace.make_dir("empty")
    assert await session.ok("ls", "empty") == "empty is empty."
    assert await session.failed("ls", "a.txt") == "a.txt is a file, or a part of it is. Use read_file."
    assert await session.failed("ls", "nope") == "nope: no such file or directory."


async def test_lists_are_bounded_and_count_the_rest(workspace: Workspace, new_session: Any) -> None:
    session = new_session(workspace, list_limit=3, grep_limit=2)
    for number in range(5):
        await session.ok("write_file", f"{number}.txt", "x\nx\n")
    assert (await session.ok("ls")).endswith("2.txt (4 bytes)\n... and 2 more entries; next offset=3")
    assert (await session.ok("glob", "*.txt")).splitlines() == [
        "0.txt",
        "1.txt",
        "2.txt",
        "... and 2 more files; next offset=3",
    ]
    assert (await session.ok("grep", "x")).splitlines() == ["0.txt", "1.txt", "... and 3 more files"]
    assert (await session.ok("grep", "x", output_mode="content")).splitlines() == [
        "0.txt:1: x",
        "0.txt:2: x",
        "... and 8 more matching lines",
    ]
    assert (await session.ok("grep", "x", output_mode="count")).splitlines() == [
        "10 matching lines in 5 files",
        "0.txt: 2",
        "1.txt: 2",
        "... and 3 more files",
    ]


async def test_read_file_numbers_lines_and_says_where_to_continue(workspace: Workspace, new_session: Any) -> None:
    session = new_session(workspace, read_chars=100)
    await workspace.write_bytes("f", b"".join(b"%d\n" % number for number in range(1, 8)))
    assert await session.ok("read_file", "f", offset=2, limit=2) == "3\t3\n4\t4\n[3 more lines; next offset=4]"
    assert await session.ok("read_file", "f", offset=5) == "6\t6\n7\t7"
    assert await session.failed("read_file", "f", offset=7) == "f has only 7 lines: 7 is past its end."
    assert await session.failed("read_file", "f", byte=14) == "f has only 14 bytes: 14 is past its end."
    assert "count from 0" in await session.failed("read_file", "f", offset=-1)
    await workspace.write_bytes("wide", b"x" * 60 + b"\n" + b"y" * 60 + b"\n")
    assert (await session.ok("read_file", "wide")).endswith("[1 more lines; next offset=1]")
    await workspace.write_bytes("empty", b"")
    assert await session.ok("read_file", "empty") == "[empty file]"
    await workspace.write_bytes("wide16", "a\nb".encode("utf-16"))
    assert (
        await session.ok("read_file", "wide16") == "1\ta\n2\tb\n[no newline at the end of the file; utf-16-le with BOM]"
    )


async def test_a_wrong_path_is_answered_with_what_is_there(session: Any) -> None:
    await session.ok("write_file", "src/config.py", "x\n")
    assert await session.failed("read_file", "src/confg.py") == (
        "src/confg.py: no such file or directory. Did you mean src/config.py?"
    )
    assert "Its directory lib does not exist either" in await session.failed("read_file", "lib/a.py")
    assert await session.failed("read_file", "src") == "src is a directory, not a file. Use ls."
    assert "is a directory" in await session.failed("write_file", "src", "x")
    assert "not a directory" in await session.failed("read_file", "src/config.py/x")
    assert "NUL" in await session.failed("read_file", "a\0b")
    assert "no such file" in await session.failed("glob", "*.py", "nope")
    assert "no such file" in await session.failed("grep", "x", "nope")


@pytest.mark.slow
@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "link", "dir_link/secret", "a/../../outside"])
async def test_a_confined_backend_refuses_with_a_message(root: Path, new_session: Any, path: str) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    (root / "link").symlink_to(outside / "secret")
    (root / "dir_link").symlink_to(outside)
    session = new_session(Workspace(local_backend(root)))
    for call in (("read_file", path), ("write_file", path, "x"), ("edit_file", path, "secret", "x"), ("ls", path)):
        assert "outside the workspace" in await session.failed(*call)
    assert "outside the workspace" in await session.failed("grep", "secret", path)
    assert "outside the workspace" in await session.failed("glob", "*", path)
    assert "secret" not in await session.ok("grep", "s.c")
    assert (outside / "secret").read_text() == "secret\n"


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000])
async def test_a_very_long_name_is_a_message(root: Path, new_session: Any, name: str) -> None:
    session = new_session(Workspace(local_backend(root)))
    assert "name" in (await session.failed("read_file", name)).lower()
    assert "name" in (await session.failed("write_file", name, "x")).lower()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("ls", ["x" * 100_000]),
        ("read_file", ["x/" * 50_000]),
        ("edit_file", ["x" * 100_000, "a", "b"]),
        ("grep", ["a", "x" * 100_000]),
        ("glob", ["[" * 100_000]),
        ("grep", ["a", ".", "[" * 100_000]),
    ],
)
async def test_a_message_does_not_repeat_more_than_a_part(session: Any, tool: str, arguments: list[str]) -> None:
    assert len(await session.failed(tool, *arguments)) < 1000


@pytest.mark.slow
async def test_an_answer_does_not_repeat_more_than_a_part(session: Any) -> None:
    for call in (("glob", "x" * 999), ("grep", "x" * 100_000)):
        assert len(await session.ok(*call)) < 1000


async def test_a_link_that_leads_nowhere_is_said_to_be_one(root: Path, new_session: Any) -> None:
    (root / "link").symlink_to("nowhere")
    told = await new_session(Workspace(local_backend(root))).failed("read_file", "link")
    assert told == "link: no such file or directory. It is a broken link."


async def test_glob(session: Any) -> None:
    for name in ("a.py", "src/b.py", "src/sub/c.py", "src/.hidden.py", ".git/x.py", "node_modules/y.py", "d.txt"):
        await session.ok("write_file", name, "x")
    assert (await session.ok("glob", "**/*.py")).splitlines() == ["a.py", "src/.hidden.py", "src/b.py", "src/sub/c.py"]
    assert await session.ok("glob", "*.{py,txt}") == "a.py\nd.txt"
    assert await session.ok("glob", "src/**/[bc].py") == "src/b.py\nsrc/sub/c.py"
    assert await session.ok("glob", "*.py", "src/sub") == "src/sub/c.py"
    assert await session.ok("glob", "node_modules/*.py") == "node_modules/y.py"
    root = await session.workspace.working_dir()
    assert await session.ok("glob", f"{root}/src/*.py") == "src/.hidden.py\nsrc/b.py"
    assert await session.ok("glob", "b.*") == (
        "No files match b.* in the working directory. For all directories below: **/b.*"
    )
    for pattern in ("../*", "a/../../b", "{a", ""):
        assert "Bad pattern" in await session.failed("glob", pattern)


async def test_links_are_listed_and_not_entered(root: Path, new_session: Any) -> None:
    (root / "d").mkdir()
    (root / "d/f.py").write_text("x")
    (root / "d/loop").symlink_to("..")
    (root / "l.py").symlink_to("d/f.py")
    session = new_session(Workspace(local_backend(root)))
    assert await session.ok("glob", "**/*.py") == "d/f.py\nl.py\n[Not listed: 1 linked folder]"
    assert await session.ok("grep", "x") == "d/f.py\n[Not searched: 1 linked folder; 1 link]"
    assert await session.ok("grep", "x", "d/loop/l.py") == "d/loop/l.py"


async def test_grep_refuses_what_it_cannot_search(session: Any) -> None:
    assert "invalid regular expression" in await session.failed("grep", "(")
    assert "searches line by line" in await session.failed("grep", "a\\nb")
    assert "pattern is empty" in await session.failed("grep", "")
    assert "without" in await session.failed("grep", "a", ".", "{a")
    assert await session.ok("grep", "a") == "No matches for 'a' in the working directory."


async def test_grep_says_what_it_left_out_of_the_one_file_that_was_named(
    workspace: Workspace, root: Path, new_session: Any
) -> None:
    session = new_session(workspace)
    await workspace.write_bytes("binary", b"needle\0")
    assert await session.failed("grep", "needle", "binary") == (
        "binary is a binary file (it has NUL bytes): grep skips it. Use a command."
    )
    assert "No matches" in await session.ok("grep", "needle")
    os.mkfifo(root / "fifo")
    confined = new_session(Workspace(local_backend(root)))
    assert "not a regular file" in await confined.failed("grep", "needle", "fifo")


async def test_grep_says_what_is_written_otherwise(session: Any) -> None:
    await session.ok("write_file", "f", "two\n")
    assert await session.ok("grep", r"one\|two") == (
        r"No matches for 'one\\|two' in the working directory. `\|` is the character |; "
        "between alternatives write | alone."
    )
    assert "cannot exclude files" in await session.failed("grep", "two", glob="!f")


async def test_grep_shows_part_of_a_wide_line(session: Any) -> None:
    await session.ok("write_file", "f", "x" * 1000 + "\n" + "x" * 5000 + "\n")
    first, second = (await session.ok("grep", "x", output_mode="content")).splitlines()
    assert first == "f:1: " + "x" * 300 + "..."
    assert second == "f:2: [line of more than 4,000 bytes]"


async def test_execute(root: Path, new_session: Any) -> None:
    session = new_session(Workspace(LocalWorkspaceBackend(root)), execute_chars=200, execute_seconds=5)
    session.deps.state.bind(Kernel(plugins=[deep_summarization], discover=False))
    assert await session.ok("execute", "printf 'a b\\n'") == "a b"
    assert await session.ok("execute", "true") == "Exit code 0, no output"
    assert await session.ok("execute", "exit 3") == "Exit code 3, no output"
    assert await session.ok("execute", "echo out; echo err >&2; exit 2") == "Exit code 2\nout\n[stderr]\nerr"
    long = await session.ok("execute", "seq 1 1000; echo the error >&2")
    pointer, _, shown = long.partition("\n")
    assert shown.startswith("1\n2\n")
    assert "characters omitted" in shown
    assert shown.endswith("1000\n[stderr]\nthe error")
    assert len(long) < 350
    whole = "".join(f"{n}\n" for n in range(1, 1001)) + "\n[stderr]\nthe error\n"
    stored = re.fullmatch(r"\[all 3,913 characters: (\.deep/sessions/\w+/\w+-execute-\w{8}\.txt)\]", pointer)
    assert stored is not None
    assert (root / stored[1]).read_text() == whole
    message = await session.failed("execute", "echo begun; sleep 30", timeout=3)
    assert message == "Stopped after 3 s (the maximum is 5). Output so far:\nbegun"
    assert "at least 1" in await session.failed("execute", "true", timeout=0)
    assert "more than 10,485,760 bytes" in await session.failed("execute", "yes | head -c 11000000")


async def test_long_output_is_shown_where_it_cannot_be_kept(root: Path, new_session: Any) -> None:
    (root / ".deep").write_text("in the way")
    session = new_session(Workspace(LocalWorkspaceBackend(root)), execute_chars=1_000)
    session.deps.state.bind(Kernel(plugins=[deep_summarization], discover=False))
    pointer, _, long = (await session.ok("execute", "seq 1 1000")).partition("\n")
    assert pointer == "[all 3,893 characters: not stored; redirect the output to a file]"
    assert long.startswith("1\n2\n")
    assert long.endswith("\n1000")
    assert len(long) <= 1_000


async def test_without_a_store_the_output_says_that_its_middle_is_lost(root: Path, new_session: Any) -> None:
    session = new_session(Workspace(LocalWorkspaceBackend(root)), execute_chars=1_000)
    long = await session.ok("execute", "seq 1 1000")
    assert long.startswith("[all 3,893 characters: not stored; redirect the output to a file]\n1\n")
    assert not (root / ".deep").exists()


async def test_execute_without_commands(new_session: Any) -> None:
    assert "cannot run commands" in await new_session(Workspace(memory_backend())).failed("execute", "true")


async def test_a_workspace_that_is_gone_is_not_the_models_mistake(root: Path, new_session: Any) -> None:
    session = new_session(Workspace(LocalWorkspaceBackend(root / "gone")))
    with pytest.raises(WorkspaceUnavailableError):
        await session.ok("ls")


async def test_a_search_that_takes_too_long_is_stopped(new_session: Any) -> None:
    backend = memory_backend()
    session = new_session(Workspace(backend), grep_seconds=0.05)
    await session.ok("write_file", "f", "x\n")

    async def slow(path: str) -> Any:
        await anyio.sleep(30)

    backend.list_dir = slow
    assert "stopped after 0.05 s" in await session.failed("grep", "x")
    assert "stopped after 0.05 s" in await session.failed("glob", "**/*")


@pytest.mark.parametrize("ripgrep", [True, False])
async def test_the_agents_own_files_are_searched_only_where_it_asks(
    root: Path, new_session: Any, ripgrep: bool
) -> None:
    session = new_session(Workspace(local_backend(root)), ripgrep=ripgrep)
    for name in ("a.txt", ".deep/results/b.txt", "sub/.deep/history/c.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("needle\n")
    assert await session.ok("glob", "**/*.txt") == "a.txt"
    assert await session.ok("grep", "needle") == "a.txt"
    for path, found in ((".deep", ".deep/results/b.txt"), (".deep/results/b.txt",) * 2, ("sub/.deep/history",) * 2):
        assert found in await session.ok("grep", "needle", path)
    assert await session.ok("glob", ".deep/**/*.txt") == ".deep/results/b.txt"


@pytest.mark.parametrize("ripgrep", [True, False])
@pytest.mark.parametrize("plugins", [[deep_summarization], []], ids=["stores", "does not"])
async def test_what_another_session_stored_is_neither_listed_nor_searched(
    root: Path, new_session: Any, ripgrep: bool, plugins: list[Any]
) -> None:
    session = new_session(Workspace(local_backend(root)), ripgrep=ripgrep)
    session.deps.state.bind(Kernel(plugins=plugins, discover=False))
    own = session.deps.session_id
    for name in (own, "another"):
        (root / ".deep/sessions" / name).mkdir(parents=True)
        (root / ".deep/sessions" / name / "b.txt").write_text("needle\n")
    found = {f".deep/sessions/{own}/b.txt"}
    assert await session.ok("ls", ".deep/sessions") == f"{own}/"
    assert await session.ok("ls", ".deep/sessions/another") == ".deep/sessions/another is empty."
    for path in (".", ".deep", ".deep/sessions", f".deep/sessions/{own}", ".deep/sessions/another"):
        shown = await session.ok("grep", "needle", path)
        assert "another/b.txt" not in shown
        listed = await session.ok("glob", "**/*.txt", path)
        assert "another/b.txt" not in listed
        if path in (".deep", ".deep/sessions", f".deep/sessions/{own}"):
            assert (shown, listed) == (*found, *found)
    assert "No matches" in await session.ok("grep", "needle", ".deep/sessions/another/b.txt")
    assert await session.ok("glob", ".deep/**/*.txt") == "".join(found)


async def test_a_stored_file_that_is_gone_is_reported_as_such(root: Path, new_session: Any) -> None:
    session = new_session(Workspace(local_backend(root)))
    for folder in (".deep/sessions/", f"{root}/.deep/sessions/", "./.deep/sessions/"):
        assert "run what made it again" in await session.failed("read_file", f"{folder}x/y.txt")
    assert "made it again" not in await session.failed("read_file", ".deep/skills/y.txt")
