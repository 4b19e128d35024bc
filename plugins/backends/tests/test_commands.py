"""Commands: a scrubbed environment, limits, and whole process groups stopped."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import anyio
import pytest
from deep_backends import local_backend
from pydantic_ai.workspaces import WorkspaceOutputLimitError, WorkspaceTimeoutError

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
    except ProcessLookupError:
        return False
    if sys.platform == "linux":
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
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
