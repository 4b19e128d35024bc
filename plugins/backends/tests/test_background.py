"""Commands that stay: terminals, logs, limits; and nothing of them is left, however their owner ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from deep_backends import (
    BackgroundCommand,
    CommandLimits,
    LocalBackend,
    SupportsBackground,
    TooManyCommands,
    attended,
    background_of,
    composite_backend,
    end_commands,
    memory_backend,
    sandbox_backend,
    sweep_commands,
)
from deep_backends.attended import About, Ended, Folder
from deep_backends.background import Output, how_it_ended
from deep_backends.modes import ReadOnlyBackend

from tests.drawn import many

if TYPE_CHECKING:
    from conftest import World

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")]
LIMITS = CommandLimits()
PYTHON = f"exec {sys.executable} -q"
LIMIT = 60
"""Seconds after which a test fails that would hang; none waits for it."""
IGNORES = "trap '' TERM HUP INT; (setsid sleep 3600 &); (setsid sh -c 'trap \"\" TERM HUP; sleep 3600' &); "


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder, where commands are known."""
    folder = Path(os.path.realpath(tmp_path)) / "data"
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    return folder


@pytest.fixture(params=["local", pytest.param("sandbox", marks=pytest.mark.needs("bubblewrap"))])
def backend(world: World, request: pytest.FixtureRequest) -> LocalBackend:
    return world.backend if request.param == "local" else sandbox_backend(world.root)


async def start(
    backend: SupportsBackground, command: str, *, session: str = "s", limits: CommandLimits = LIMITS
) -> str:
    found = await backend.start_command(command, session=session, folder=f".deep/sessions/{session}", limits=limits)
    return found.name


async def said(backend: SupportsBackground, name: str, wanted: bytes) -> bytes:
    """All that a command said, once it has said this."""
    with anyio.fail_after(LIMIT):
        while wanted not in (output := await backend.command_output("s", name, 0)).data:
            await anyio.sleep(0.01)
    return output.data


async def ended(backend: SupportsBackground, name: str, session: str = "s") -> BackgroundCommand:
    with anyio.fail_after(LIMIT):
        while (found := {c.name: c for c in await backend.list_commands(session)}[name]).is_running:
            await anyio.sleep(0.01)
    return found


def marked(mark: str) -> list[int]:
    """The processes of a command that run."""
    wanted = f"{attended.MARK}={mark}".encode()
    return [pid for pid in attended._pids() if wanted in attended._environment(pid) and attended._started(pid)]


def marks() -> list[str]:
    return [about.mark for each in attended.folders() if (about := each.about()) is not None]


async def gone(*of: str) -> None:
    with anyio.fail_after(LIMIT):
        while left := [pid for mark in of for pid in marked(mark)]:
            assert left
            await anyio.sleep(0.02)


# -- terminals ---------------------------------------------------------------------------------------------------------


async def test_a_repl_answers_what_is_typed_and_ctrl_c_interrupts_it_and_not_its_sandbox(backend: LocalBackend) -> None:
    name = await start(backend, PYTHON)
    await said(backend, name, b">>> ")
    assert await backend.send_input("s", name, b"6 * 7\n")
    await said(backend, name, b"42")
    assert await backend.send_input(
        "s", name, b"print('begun', flush=True); [].sort() or __import__('time').sleep(3600)\n"
    )
    await said(backend, name, b"begun")
    assert await backend.send_input("s", name, b"\x03")
    await said(backend, name, b"KeyboardInterrupt")
    assert await backend.send_input("s", name, b"2 ** 10\n")
    await said(backend, name, b"1024")
    assert await backend.send_input("s", name, b"\x04")  # Ctrl-D
    found = await ended(backend, name)
    assert (found.exit_code, found.reason, how_it_ended(found)) == (0, "", "exited with code 0")
    assert not await backend.send_input("s", name, b"too late\n")


@pytest.mark.parametrize(
    ("program", "prompt", "typed", "answer"),
    [
        ("bash --norc", b"$ ", b"x=20; echo $((x + 1)) $TERM\n", b"21 dumb"),
        pytest.param("node", b"> ", b"[1, 2].map((x) => x * 21)\n", b"[ 21, 42 ]", marks=pytest.mark.needs("npm")),
        ("cat", b"", b"no echo, then the line\n", b"no echo, then the line\n"),
        ("read -p 'name? ' name; echo hi $name", b"name? ", b"Ann\n", b"hi Ann\n"),
        ("read -sp 'secret? ' it; test -t 0 -a -t 1 && echo ${#it}", b"secret? ", b"abc\n", b"3\n"),
    ],
    ids=["bash", "node", "cat", "a question", "a secret"],
)
async def test_programs_find_a_terminal(
    backend: LocalBackend, program: str, prompt: bytes, typed: bytes, answer: bytes
) -> None:
    name = await start(backend, f"export PS1='$ '; {program}")
    await said(backend, name, prompt)
    assert await backend.send_input("s", name, typed)
    assert (await said(backend, name, answer)).count(b"no echo") < 2
    await backend.stop_command("s", name)


async def test_output_comes_line_by_line_and_stays_after_the_end(backend: LocalBackend) -> None:
    script = "import sys; print('first'); sys.stderr.write('second\\n'); input(); print('third')"  # no flush
    name = await start(backend, f'{sys.executable} -c "{script}"')
    assert await said(backend, name, b"second\n") == b"first\nsecond\n"
    await backend.send_input("s", name, b"\n")
    await ended(backend, name)
    assert (await backend.command_output("s", name, 0)).data == b"first\nsecond\nthird\n"
    assert (await backend.command_output("s", name, -6)).data == b"third\n"
    log = (await backend.list_commands("s"))[0].log
    root = await backend.working_dir()
    assert await backend.read_bytes(f"{root}/{log}") == b"first\nsecond\nthird\n"
    assert (Path(root) / ".deep/sessions/.gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 7", 7),
        ("kill -9 $$", 137),
        ("no-such-program", 127),
        ("false | true", 0),
        ("set -o pipefail; false | :", 1),
    ],
)
async def test_the_exit_code_is_that_of_bash(backend: LocalBackend, command: str, code: int) -> None:
    assert (await ended(backend, await start(backend, command))).exit_code == code


async def test_a_command_sees_the_environment_of_any_command(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOO_API_KEY", "secret-1")
    name = await start(world.backend, "env; tr '\\0' '\\n' < /proc/$PPID/environ; echo done")
    text = await said(world.backend, name, b"done")
    assert b"secret" not in text
    assert b"SHELL=" in text


# -- limits ------------------------------------------------------------------------------------------------------------


async def test_a_log_keeps_the_last_of_a_flood_and_every_byte_has_its_place(world: World) -> None:
    backend, lines = world.backend, b"".join(b"%d\n" % number for number in range(1, 50_001))
    name = await start(backend, "seq 50000; echo over; read", limits=CommandLimits(bytes=65_536))
    with anyio.fail_after(LIMIT):
        while not (output := await backend.command_output("s", name, -5)).data.endswith(b"over\n"):
            await anyio.sleep(0.01)
    assert output.size == len(lines) + 5
    whole = await backend.command_output("s", name, 0)
    assert whole.start + len(whole.data) == whole.size
    assert 32_768 <= len(whole.data) <= 65_536
    assert whole.data == (lines + b"over\n")[whole.start :]
    log = world.root / (await backend.list_commands("s"))[0].log
    assert log.stat().st_size <= 65_536
    await backend.stop_command("s", name)


async def test_an_output_ends_where_the_command_was_when_it_was_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes while the log is read is told by the next output, and by no other."""
    backend = world.backend
    name = await start(backend, "printf 123456; read; printf 789; read")
    await said(backend, name, b"6")
    read_range = backend.read_range

    async def meanwhile(path: str, begin: int, length: int) -> bytes:
        monkeypatch.setattr(backend, "read_range", read_range)
        await backend.send_input("s", name, b"\n")
        await said(backend, name, b"9")
        return await read_range(path, begin, length)

    monkeypatch.setattr(backend, "read_range", meanwhile)
    output = await backend.command_output("s", name, -2)
    assert output == Output(4, b"56", 6)
    assert (await backend.command_output("s", name, output.size)).data.endswith(b"789")
    await backend.stop_command("s", name)


async def test_only_so_many_run_at_once_and_each_only_so_long(world: World) -> None:
    limits = CommandLimits(number=1)
    name = await start(world.backend, "read", limits=limits)
    with pytest.raises(TooManyCommands, match="1 background commands run already: stop one first"):
        await start(world.backend, "read", limits=limits)
    assert await start(world.backend, "read", session="another", limits=limits) == "c1"
    await world.backend.stop_command("s", name)
    at_once = await start(world.backend, "read", limits=limits)  # its attendant still starts
    assert (await world.backend.stop_command("s", at_once)).reason == "stopped"
    late = await start(world.backend, "read", limits=CommandLimits(number=1, seconds=1))
    assert how_it_ended(await ended(world.backend, late)).startswith("was stopped: its time was over")
    end_commands("another")


# -- the end -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_stopping_asks_first_and_takes_all_that_it_started(backend: LocalBackend) -> None:
    kind = await start(backend, "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.1; done")
    await said(backend, kind, b"up")
    found = await backend.stop_command("s", kind)
    assert (found.is_running, found.exit_code, found.reason) == (False, 3, "stopped")
    assert b"bye" in (await backend.command_output("s", kind, 0)).data
    rude = await start(backend, f"{IGNORES} echo up; while :; do sleep 3600; done")
    await said(backend, rude, b"up")
    assert (await backend.stop_command("s", rude)).exit_code == 137
    assert [pid for mark in marks() for pid in marked(mark)] == []


async def test_what_it_leaves_behind_ends_with_it(backend: LocalBackend) -> None:
    name = await start(backend, f"{IGNORES} nohup sleep 3600 >/dev/null 2>&1 & echo left; sleep 0.1")
    await ended(backend, name)
    assert [pid for mark in marks() for pid in marked(mark)] == []


async def test_a_command_that_kills_its_attendant_is_found_by_its_mark(world: World) -> None:
    name = await start(world.backend, f"{IGNORES} kill -9 $PPID; sleep 3600")
    found = await ended(world.backend, name)
    assert how_it_ended(found) == "is lost: its process was killed"
    await gone(*marks())


async def test_the_end_of_a_session_ends_all_but_what_is_kept(backend: LocalBackend) -> None:
    names = [await start(backend, "read") for _ in range(3)]
    assert (await backend.keep_command("s", names[1])).is_kept
    end_commands("s")
    assert [each.is_running for each in await backend.list_commands("s")] == [False, True, False]
    assert [each.name for each in await backend.list_commands() if each.is_running] == [names[1]]
    logs = [Path(await backend.working_dir()) / each.log for each in await backend.list_commands("s")]
    assert all(log.exists() for log in logs)
    end_commands("s", kept=True)
    assert await backend.list_commands("s") == []
    assert not any(log.exists() for log in logs)


async def test_a_command_that_is_forgotten_while_its_end_is_looked_at_is_no_error(tmp_path: Path) -> None:
    """The thread that waits for its attendant, a second window, and the next start all look at it."""
    about = About("true", "s", str(tmp_path), str(tmp_path / "log"), 0.0, "mark", owner="1 2", attendant="3 4")
    folder = Folder.create("s")
    attended.forget(folder, about)
    assert folder.ended(about) == Ended(None, "lost")
    folder.note("too late")
    assert folder.stop() is None
    assert not folder.path.exists()


async def test_many_may_start_list_and_forget_the_commands_of_one_session_at_once() -> None:
    about = About("true", "s", "/", "/nonexistent", 0.0, "mark", owner="1 2", attendant="3 4")
    names: list[str] = []

    def comes_and_goes() -> None:
        for _ in range(10):
            folder = Folder.create("s")
            names.append(folder.name)
            with contextlib.suppress(FileNotFoundError):  # another thread has forgotten it
                (folder.path / "about.json").write_text(json.dumps(asdict(about)))
                (folder.path / "ended").touch()
                os.utime(folder.path / "ended", (0, 0))
            sweep_commands()

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(anyio.to_thread.run_sync, comes_and_goes)
    assert len(names) == 40


OWNER = """
import asyncio, os, signal, sys
from deep_backends import CommandLimits, local_backend, sandbox_backend

async def main(kind, root, count, command, end):
    backend = (local_backend if kind == "local" else sandbox_backend)(root)
    limits = CommandLimits(bytes=65_536)
    for number in range(int(count)):
        found = await backend.start_command(command, session="s", folder=".deep/sessions/s", limits=limits)
        if end == "keep" and number == 0:
            await backend.keep_command("s", found.name)
    for number in range(int(count)):  # each is at its worst
        while b"up" not in (await backend.command_output("s", f"c{number + 1}", 0, 100)).data:
            await asyncio.sleep(0.02)
            if (await backend.command_output("s", f"c{number + 1}", 0, 100)).start:
                break  # a flood
    print("started", flush=True)
    if end in ("kill", "keep"):
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(*sys.argv[1:]))
"""
# Twenty, and not without end: where starting takes long, fifty commands filled the machine with processes.
FLOODS = f"{IGNORES} echo up; (for i in $(seq 20); do (sleep 3600 &) ; sleep 1; done) & yes flood"


def run_owner(world: World, kind: str, count: int, command: str, end: str) -> None:
    """Run a process that starts commands. Not in a fork: a fork's server waits for what is kept."""
    words = [sys.executable, "-c", OWNER, kind, str(world.root), str(count), command, end]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("started\n", 0 if end == "exit" else -signal.SIGKILL), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["local", pytest.param("sandbox", marks=pytest.mark.needs("bubblewrap"))])
@pytest.mark.parametrize("end", ["exit", "kill"])
async def test_those_that_fork_ignore_and_flood_leave_nothing_when_their_owner_ends(
    world: World, kind: str, end: str
) -> None:
    count = many(5, 50)
    run_owner(world, kind, count, FLOODS, end)
    known = marks()
    assert len(known) == count
    if end == "exit":
        assert [pid for mark in known for pid in marked(mark)] == []  # at once
    await gone(*known)  # also before the next start


@pytest.mark.slow
async def test_what_is_kept_outlives_its_owner_and_another_process_stops_it(world: World) -> None:
    run_owner(world, "local", 2, "echo up; read line; echo got $line; read", "keep")
    await ended(world.backend, "c2")
    sweep_commands()
    first, second = await world.backend.list_commands("s")
    assert (first.is_running, second.reason) == (True, "owner")
    assert await world.backend.send_input("s", "c1", b"more\n")
    await said(world.backend, "c1", b"got more")
    assert not (await world.backend.stop_command("s", "c1")).is_running
    await gone(*marks())


@pytest.mark.slow
async def test_the_next_start_ends_what_nobody_attends(world: World) -> None:
    """As after a kill of everything: the owner, and the process that looks after the command."""
    run_owner(world, "local", 1, "echo up; setsid sleep 3600; true", "keep")
    (folder,) = attended.folders()
    about = folder.about()
    assert about is not None
    attended.send_signal(about.attendant, signal.SIGKILL)
    with anyio.fail_after(LIMIT):
        while attended.is_alive(about.attendant):
            await anyio.sleep(0.01)
    sweep_commands()
    await gone(about.mark)
    assert (await world.backend.list_commands("s"))[0].reason == "lost"


async def test_a_number_that_another_process_has_now_is_never_signaled(world: World) -> None:
    name = await start(world.backend, "read")
    folder = Folder.of("s", name)
    about = folder.about()
    assert about is not None
    async with await anyio.open_process(["sleep", "3600"]) as other:
        try:
            pid, _, first = about.attendant.partition(" ")
            assert attended.identity(int(pid)) == about.attendant
            reused = f"{other.pid} {int(first) - 1}"  # the clock has 10 ms: both may have begun at once
            assert not attended.is_alive(reused)
            attended.send_signal(reused, signal.SIGKILL)
            assert attended.is_alive(attended.identity(other.pid))
        finally:
            other.kill()
    await world.backend.stop_command("s", name)


async def test_old_ones_are_forgotten_with_their_logs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    name = await start(world.backend, "echo x")
    log = world.root / (await ended(world.backend, name)).log
    sweep_commands()
    assert log.exists()
    monkeypatch.setattr(attended, "KEPT_DAYS", -1)
    sweep_commands()
    assert not log.exists()
    assert await world.backend.list_commands("s") == []


# -- who can -----------------------------------------------------------------------------------------------------------


async def test_a_composite_asks_its_default_and_others_cannot(world: World) -> None:
    both = composite_backend(world.backend, {"/notes/": memory_backend()})
    assert background_of(both) is world.backend
    for other in (memory_backend(), composite_backend(memory_backend(), {}), ReadOnlyBackend(world.backend), None):
        assert background_of(other) is None


@pytest.mark.parametrize("name", ["c2", "../s/c1", "c", "", "c1/../c1", "about.json"])
@pytest.mark.parametrize("what", ["command_output", "send_input", "stop_command", "keep_command"])
async def test_an_unknown_name_is_an_error(world: World, name: str, what: str) -> None:
    await start(world.backend, "true")
    more: dict[str, tuple[object, ...]] = {"command_output": (0,), "send_input": (b"x",)}
    call: Callable[..., object] = getattr(world.backend, what)
    with pytest.raises(KeyError):
        await call("s", name, *more.get(what, ()))  # type: ignore[misc]


async def test_a_log_goes_through_no_link(world: World) -> None:
    (world.root / ".deep").symlink_to(world.outside)
    with pytest.raises(OSError, match="outside"):
        await start(world.backend, "echo x")
    assert sorted(path.name for path in world.outside.iterdir()) == ["folder", "secret.txt"]
    assert await world.backend.list_commands("s") == []


# -- the sandbox -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("path", [".envrc", "a/.husky/pre-commit", ".vscode/tasks.json", "package.json"])
async def test_what_runs_later_does_not_stay_and_is_said(world: World, path: str) -> None:
    backend = sandbox_backend(world.root)
    text = '{"scripts": {"test": "evil"}}'
    name = await start(backend, f"mkdir -p $(dirname {path}); echo '{text}' > {path}; echo up; read")
    await said(backend, name, b"up")
    with anyio.fail_after(LIMIT):
        while not (notes := (await backend.list_commands("s"))[0].notes):  # while it still runs
            await anyio.sleep(0.05)
    (note,) = notes
    assert not (world.root / path).exists()
    assert note.startswith(f"{path} runs later (")
    await backend.stop_command("s", name)


@pytest.mark.needs("bubblewrap")
async def test_what_the_command_makes_right_before_its_end_does_not_stay(world: World) -> None:
    backend = sandbox_backend(world.root)
    name = await start(backend, "trap 'echo x > .envrc; exit' TERM; echo up; while :; do sleep 0.05; done")
    await said(backend, name, b"up")
    found = await backend.stop_command("s", name)
    assert not (world.root / ".envrc").exists()
    assert found.notes


@pytest.mark.needs("bubblewrap")
async def test_what_was_there_is_read_only_and_what_the_file_tools_write_stays(world: World) -> None:
    (world.root / "package.json").write_text('{"scripts": {"test": "good"}}')
    backend = sandbox_backend(world.root)
    name = await start(backend, "echo evil > package.json; mv package.json x; rm package.json; echo up; read; read")
    text = await said(backend, name, b"up")
    assert text.count(b"Read-only file system") + text.count(b"busy") == 3
    await backend.write_bytes(f"{world.root}/package.json", b'{"scripts": {"test": "better"}}')
    await backend.write_bytes(f"{world.root}/.envrc", b"approved")
    await backend.send_input("s", name, b"\n")
    found = await backend.stop_command("s", name)
    assert found.notes == ()
    assert (world.root / ".envrc").read_text() == "approved"
    assert "better" in (world.root / "package.json").read_text()


@pytest.mark.needs("bubblewrap")
async def test_a_command_in_the_sandbox_sees_no_other_and_no_record_of_any(world: World, data: Path) -> None:
    backend = sandbox_backend(world.root)
    await start(backend, "sleep 3600")
    name = await start(backend, f"ls {data}/deep/commands; ps ax | grep -c 'sleep 360[0]'; echo up")
    assert b"s\n0\nup" not in await said(backend, name, b"up")
    end_commands("s", kept=True)
