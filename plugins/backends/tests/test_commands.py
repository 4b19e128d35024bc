"""Commands: a scrubbed environment, limits, and whole process groups stopped."""

from __future__ import annotations

import os
import secrets
import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest
from deep_backends import LocalBackend, local_backend, sandbox_backend
from pydantic_ai.workspaces import WorkspaceOutputLimitError, WorkspaceTimeoutError

from tests import another_process
from tests.drawn import sample

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.anyio

SECRETS = {
    "FOO_API_KEY": "secret-1",
    "OPENAI_API_KEY": "secret-2",
    "AWS_SECRET_ACCESS_KEY": "secret-3",
    "GITHUB_TOKEN": "secret-4",
    "LC_SMUGGLED_TOKEN": "secret-5",
    "DATABASE_URL": "postgres://user:secret-6@host",
    "SSH_AUTH_SOCK": "/secret-7",
}


@pytest.fixture(autouse=True)
def host_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("LC_TIME", "C")


async def test_a_command_sees_no_key_of_the_host(world: World) -> None:
    seen = (await world.backend.run("env", shell=True)).stdout
    assert "secret" not in seen
    assert not any(name in seen for name in SECRETS)
    names = {line.partition("=")[0] for line in seen.splitlines()}
    assert {"PATH", "HOME", "TZ", "LC_TIME"} <= names


async def test_a_named_variable_is_seen_and_only_that(world: World) -> None:
    backend = local_backend(world.root, env=["FOO_API_KEY", "NOT_SET_ON_THE_HOST"])
    seen = (await backend.run("env", shell=True)).stdout
    assert "FOO_API_KEY=secret-1" in seen.splitlines()
    assert "NOT_SET" not in seen
    assert seen.count("secret") == 1


async def test_a_mapping_sets_values(world: World) -> None:
    backend = local_backend(world.root, env={"OPENAI_API_KEY": "another", "NEW": "value"})
    seen = (await backend.run("env", shell=True, env={"CALL": "1"})).stdout.splitlines()
    assert {"OPENAI_API_KEY=another", "NEW=value", "CALL=1"} <= set(seen)
    assert not any("secret" in line for line in seen)


@pytest.mark.slow
async def test_a_command_does_not_find_a_program_of_the_workspace_by_a_relative_path(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = world.root / "ls"
    program.write_text("#!/bin/sh\necho of the workspace\n")
    program.chmod(0o755)
    for path in (f".:{os.environ['PATH']}", f":{os.environ['PATH']}", f"{os.environ['PATH']}:"):
        monkeypatch.setenv("PATH", path)
        assert "inside.txt" in (await world.backend.run("ls", shell=True)).stdout
        assert "inside.txt" in (await world.backend.run(["ls"])).stdout


@pytest.mark.parametrize("env", [["A=secret"], [""], {"A=B": "x"}, ["A\0"]])
async def test_a_wrong_name_is_refused_without_telling_a_value(world: World, env: list[str]) -> None:
    with pytest.raises(ValueError, match="env") as refused:
        local_backend(world.root, env=env)
    assert "secret" not in str(refused.value)


async def test_one_string_is_not_a_list_of_names(world: World) -> None:
    with pytest.raises(TypeError, match=r"\['HOME'\]"):
        local_backend(world.root, env="HOME")


async def test_a_command_starts_in_the_root_and_is_not_confined_to_it(world: World) -> None:
    assert (await world.backend.run(["pwd"])).stdout == f"{world.root}\n"
    assert (await world.backend.run(["cat", "../outside/secret.txt"])).stdout == "secret"


@pytest.fixture(params=["local", pytest.param("sandbox", marks=pytest.mark.needs("bubblewrap"))])
def backend(world: World, request: pytest.FixtureRequest) -> LocalBackend:
    return world.backend if request.param == "local" else sandbox_backend(world.root)


LEFT = [
    "sleep 3600 &",
    "nohup sleep 3600 >/dev/null 2>&1 &",
    "setsid sleep 3600 &",
    "sleep 3600 | cat &",
    "(setsid sh -c 'setsid sleep 3600 &' &)",
]
WAYS = ["end", "failure", "timeout", "cancel", "too much output"]
MARK = "DEEP_TEST_LEFT"


def left(mark: str) -> list[str]:
    """The processes with this value in their environment, which whatever a command starts inherits."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(folder.name)
        except OSError:
            continue  # it ended meanwhile
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the process group is killed")
@pytest.mark.parametrize(
    ("command", "way"),
    sample(
        product(LEFT, WAYS),
        *((command, "end") for command in LEFT),
        *((LEFT[-1], way) for way in WAYS),
    ),
)
async def test_nothing_that_a_command_started_is_left(backend: LocalBackend, command: str, way: str) -> None:
    mark = secrets.token_hex(8)
    ending = {"end": "", "failure": "exit 3", "too much output": "yes"}.get(way, "sleep 3600")
    run = partial(backend.run, f"{command}\ntouch started; {ending}", shell=True, env={MARK: mark})
    if way in ("end", "failure"):
        assert (await run()).exit_code == (3 if way == "failure" else 0)
        assert left(mark) == []  # at once
        return
    if way == "cancel":
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            with anyio.fail_after(60):
                while not await backend.exists(f"{await backend.working_dir()}/started"):
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    else:
        with pytest.raises(WorkspaceOutputLimitError if way == "too much output" else WorkspaceTimeoutError):
            await run(timeout=None if way == "too much output" else 2)
    with anyio.fail_after(60):
        while left(mark):
            await anyio.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere only the process group is killed")
async def test_what_reads_the_output_of_a_command_finishes(world: World) -> None:
    """Bash does not wait for a process substitution: a log written with `tee` lost its end, now and then."""
    done = await world.backend.run(["bash", "-c", "echo kept > >(sleep 0.2; tee log)"])
    assert done.stdout == "kept\n"
    assert (world.root / "log").read_text() == "kept\n"


@pytest.mark.slow
async def test_a_program_that_is_missing_or_not_executable_is_reported_as_by_a_shell(backend: LocalBackend) -> None:
    assert (await backend.run(["no-such-program"])).exit_code == 127
    assert (await backend.run(["./inside.txt"])).exit_code == 126
    assert (await backend.run("kill -9 $$", shell=True)).exit_code == 137
    assert (await backend.run("yes | head -n 1; exit 7", shell=True)).exit_code == 7


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux")
@pytest.mark.parametrize("hide", [True, False])
def test_the_first_command_hides_the_environment_of_this_process(world: World, hide: bool) -> None:
    script = f"""
import asyncio, ctypes
from deep_backends import local_backend
asyncio.run(local_backend({str(world.root)!r}, hide_environment={hide}).run(["true"]))
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""
    assert another_process.run(script).stdout == f"{0 if hide else 1}\n"


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux")
async def test_the_parent_of_a_command_has_no_key_either(backend: LocalBackend) -> None:
    seen = (await backend.run("cat /proc/$PPID/environ | tr '\\0' '\\n'", shell=True)).stdout
    assert "secret" not in seen


@pytest.mark.parametrize("way", ["timeout", "cancel"])
async def test_the_whole_process_group_is_killed(world: World, way: str) -> None:
    script = "sleep 3600 & echo $! > child; wait"
    path = world.root / "child"
    if way == "timeout":
        with pytest.raises(WorkspaceTimeoutError):
            await world.backend.run(["sh", "-c", script], timeout=3)
    else:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: world.backend.run(["sh", "-c", script]))
            with anyio.fail_after(30):
                while not (path.exists() and path.read_text()):
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    child = int(path.read_text())
    with anyio.fail_after(30):
        while alive(child):
            await anyio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether the process runs; a dead one that nobody has waited for does not."""
    try:
        os.kill(pid, 0)
        if sys.platform == "linux":
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):  # reading fails too if the process ends meanwhile
        return False
    return True


@pytest.mark.parametrize("limit", [1000, 10 * 1024 * 1024])
async def test_output_above_the_limit_is_an_error_with_its_beginning(world: World, limit: int) -> None:
    backend = local_backend(world.root, max_output_bytes=limit)
    exact = await backend.run(["head", "-c", str(limit), "/dev/zero"])
    assert len(exact.stdout) == limit
    with pytest.raises(WorkspaceOutputLimitError, match="redirect") as refused:
        await backend.run(["head", "-c", str(limit + 1), "/dev/zero"])
    assert refused.value.limit == limit
    assert 0 < len(refused.value.stdout) <= 65536


@pytest.mark.parametrize("limits", [{"max_output_bytes": 0}, {"max_output_bytes": 2**40}, {"max_read_bytes": 0}])
async def test_an_impossible_limit_is_refused(world: World, limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        local_backend(world.root, **limits)
