"""What a command in the sandbox cannot reach: files, network, processes, environment."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deep_backends import SandboxBackend, sandbox_backend
from pydantic_ai.workspaces import WorkspaceRef, WorkspaceTimeoutError, WorkspaceUnavailableError

if TYPE_CHECKING:
    from conftest import World

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap")]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    (path / ".ssh").mkdir()
    (path / ".ssh" / "id").write_text("secret of the home")
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-the-host")
    return path


@pytest.fixture
def sandbox(world: World, home: Path) -> SandboxBackend:
    return sandbox_backend(world.root)


async def output(sandbox: SandboxBackend, command: str) -> str:
    result = await sandbox.run(command, shell=True, timeout=120)
    return result.stdout + result.stderr


# -- files -------------------------------------------------------------------------------------------------------------


async def test_the_workspace_is_writable(world: World, sandbox: SandboxBackend) -> None:
    assert await output(sandbox, "pwd; cat inside.txt; mkdir -p a/b && echo new > a/b/c && cat a/b/c") == (
        f"{world.root}\ninsidenew\n"
    )
    assert (world.root / "a" / "b" / "c").read_text() == "new\n"


@pytest.mark.parametrize(
    "command",
    [
        "echo x > {outside}/new",
        "echo x > {outside}/secret.txt",
        "echo x > ../outside/new",
        "rm -rf {outside}",
        "ln -s {outside} link; echo x > link/new",
        "ln {outside}/secret.txt hard; echo x > hard",
        "echo x > ~/new; echo x > ~/.bashrc",
        "echo x > {base}/new; mkdir {base}/folder",
        "chmod 777 {outside}; chown 1 {outside}",
        "mount -o remount,rw /; echo x > {outside}/new",
        "mount --bind / a; umount {base}; echo x > {outside}/new",
        "unshare -Ur sh -c 'mount -o remount,rw,bind /; echo x > {outside}/new'",
        "cat /proc/1/root{outside}/secret.txt; echo x > /proc/1/root{outside}/new",
        "chroot / sh -c 'echo x > {outside}/new'",
    ],
)
async def test_nothing_outside_is_changed(world: World, sandbox: SandboxBackend, home: Path, command: str) -> None:
    before = world.snapshot()
    await output(sandbox, command.format(base=world.base, outside=world.outside))
    assert world.snapshot() == before
    assert sorted(os.listdir(home)) == [".ssh"]


@pytest.mark.slow
async def test_what_reads_the_output_of_a_command_finishes(world: World, sandbox: SandboxBackend) -> None:
    done = await sandbox.run(["bash", "-c", "echo kept > >(sleep 0.2; tee log); exit 3"])
    assert (done.exit_code, done.stdout) == (3, "kept\n")
    assert (world.root / "log").read_text() == "kept\n"
    assert (await sandbox.run(["no-such-program"])).exit_code == 127


async def test_the_system_is_read_only(sandbox: SandboxBackend) -> None:
    for folder in ("/etc", "/usr", "/var/lib", "/opt", "/"):
        if os.path.isdir(folder):
            assert "ead-only" in await output(sandbox, f"touch {folder}/deep-probe"), folder
            assert not os.path.exists(f"{folder}/deep-probe")


async def test_home_and_temporary_folders_are_empty_and_private(sandbox: SandboxBackend, home: Path) -> None:
    seen = await output(sandbox, f"cat {home}/.ssh/id; find {home} /run /var/tmp -type f; touch /tmp/deep-private ~/x")
    assert "secret of the home" not in seen
    assert f"{home}/.ssh" not in seen.replace(f"cat: {home}/.ssh/id", "")
    assert not os.path.exists("/tmp/deep-private")
    assert await output(sandbox, "ls ~") == ""  # gone with the command


async def test_what_is_readable_can_be_read_and_not_written(world: World, home: Path) -> None:
    sandbox = sandbox_backend(world.root, readable=["~/.ssh"])
    assert "secret of the home" in await output(sandbox, "cat ~/.ssh/id")
    assert "ead-only" in await output(sandbox, "echo x > ~/.ssh/id")


async def test_protected_files_and_what_git_runs_are_read_only(world: World, home: Path) -> None:
    (world.root / "deep.toml").write_text("policy")
    (world.root / ".git" / "hooks").mkdir(parents=True)
    (world.root / ".git" / "config").write_text("[core]")
    (world.root / "conf" / "a").mkdir(parents=True)
    (world.root / "conf" / "a" / "b.toml").write_text("policy")
    sandbox = sandbox_backend(world.root, protected=[world.root / "deep.toml", world.root / "conf" / "a" / "b.toml"])
    await output(
        sandbox,
        "echo x > deep.toml; rm -f deep.toml; mv deep.toml other; echo x > .git/config; echo x > .git/hooks/pre-commit;"
        "mv .git .old; rm -rf .git; mv conf other; rm -rf conf; mkdir -p conf/a; echo x > conf/a/b.toml; echo x > fine",
    )
    assert (world.root / "deep.toml").read_text() == "policy"
    assert (world.root / "conf" / "a" / "b.toml").read_text() == "policy"
    assert (world.root / ".git" / "config").read_text() == "[core]"
    assert os.listdir(world.root / ".git" / "hooks") == []
    assert (world.root / "fine").exists()


@pytest.mark.parametrize("name", [".envrc", ".vscode/tasks.json", ".husky/pre-commit", "sitecustomize.py", ".npmrc"])
async def test_what_runs_later_is_read_only(world: World, sandbox: SandboxBackend, name: str) -> None:
    (world.root / name).parent.mkdir(exist_ok=True)
    (world.root / name).write_text("of the user")
    seen = await output(sandbox, f"echo x > {name}; rm -rf {name}; mv {name.partition('/')[0]} other; ls {name}")
    assert "ead-only" in seen or "busy" in seen
    assert (world.root / name).read_text() == "of the user"


@pytest.mark.parametrize(
    "command",
    [
        "echo x > deep.toml",
        "ln -s inside.txt deep.toml",
        "mkdir deep.toml; echo x > deep.toml/y",
        "echo x > y; mv y deep.toml",
        "(trap '' HUP; sleep 0.2; echo x > deep.toml) & echo x > deep.toml",
        "echo x > deep.toml; exit 3",
    ],
)
async def test_a_protected_file_that_a_command_creates_is_put_aside(
    world: World, home: Path, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    sandbox = sandbox_backend(world.root, protected=[world.root / "deep.toml"])
    for number in ("", "1"):
        seen = await output(sandbox, command)
        assert f"[deep.toml is protected: what this command created is in deep.toml.sandboxed{number}]" in seen
        assert not os.path.lexists(world.root / "deep.toml")
        assert os.path.lexists(world.root / f"deep.toml.sandboxed{number}")
    assert "deep.toml is protected" in caplog.text
    assert "protected" not in await output(sandbox, "echo fine > other")


async def test_it_is_put_aside_too_if_the_command_runs_out_of_time(world: World, home: Path) -> None:
    sandbox = sandbox_backend(world.root, protected=[world.root / "deep.toml"])
    with pytest.raises(WorkspaceTimeoutError):
        await sandbox.run("echo x > deep.toml; sleep 600", shell=True, timeout=3)
    assert not os.path.lexists(world.root / "deep.toml")


@pytest.mark.parametrize("target", ["{outside}", "inside"])
async def test_a_link_on_the_way_to_a_protected_file_is_put_aside(world: World, home: Path, target: str) -> None:
    protected = world.root / "conf" / "a" / "secret.txt"
    sandbox = sandbox_backend(world.root, protected=[protected])
    before = sorted(os.listdir(world.outside))
    place = target.format(outside=world.outside)
    await output(sandbox, f"mkdir conf inside; echo x > inside/secret.txt; ln -s $(realpath {place}) conf/a")
    assert not os.path.lexists(protected)
    assert os.path.islink(world.root / "conf" / "a.sandboxed")
    assert sorted(os.listdir(world.outside)) == before


async def test_what_runs_later_and_a_command_creates_does_not_stay(world: World, sandbox: SandboxBackend) -> None:
    seen = await output(sandbox, "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; echo x > .envrc")
    for name in (".git/hooks/pre-commit", ".envrc"):
        assert f"[{name} runs later (" in seen
        assert not (world.root / name).exists()
        assert (world.root / f"{name}.sandboxed").read_text() == "x\n"
    assert "sandboxed" in await output(sandbox, "echo y > .envrc")
    assert (world.root / ".envrc.sandboxed1").read_text() == "y\n"


async def test_a_guarded_link_that_a_command_replaces_is_put_back(world: World, sandbox: SandboxBackend) -> None:
    (world.root / ".envrc").symlink_to("inside.txt")
    seen = await output(sandbox, "echo x > .envrc; rm .envrc; echo y > .envrc")
    assert "[.envrc runs later (" in seen
    assert (world.root / ".envrc").readlink() == Path("inside.txt")
    assert (world.root / "inside.txt").read_text() == "inside"


async def test_what_a_link_leads_to_counts(world: World, sandbox: SandboxBackend) -> None:
    (world.root / "below").mkdir()
    (world.root / "below" / ".envrc").symlink_to("../inside.txt")
    assert "[below/.envrc runs later (" in await output(sandbox, "echo x > inside.txt")
    assert not (world.root / "below" / ".envrc").exists()


# -- network -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [False, True])
async def test_the_network_is_reached_only_if_it_is_allowed(world: World, home: Path, network: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 60); print('connected')"
        sandbox = sandbox_backend(world.root, network=network)
        result = await sandbox.run([sys.executable, "-I", "-S", "-c", script], timeout=120)
    assert ("connected" in result.stdout) is network, result


@pytest.mark.parametrize("kind", ["abstract", "in /tmp"])
async def test_no_socket_of_the_host_is_reached(sandbox: SandboxBackend, kind: str, tmp_path: Path) -> None:
    name = f"\0deep-{os.getpid()}" if kind == "abstract" else f"/tmp/deep-{os.getpid()}.socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        try:
            script = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r}); print('connected')"
            result = await sandbox.run([sys.executable, "-I", "-S", "-c", script], timeout=120)
        finally:
            if kind != "abstract":
                os.unlink(name)
    assert "connected" not in result.stdout
    assert "Error" in result.stderr  # Python ran


# -- processes ---------------------------------------------------------------------------------------------------------


async def test_no_process_of_the_host_is_seen_or_ended(sandbox: SandboxBackend) -> None:
    assert int(await output(sandbox, "ls /proc | grep '^[0-9]' | wc -l")) < 10
    assert "o such process" in await output(sandbox, f"kill -9 {os.getpid()}") or os.getpid() < 10


# -- environment -------------------------------------------------------------------------------------------------------


async def test_no_process_has_the_environment_of_the_host(sandbox: SandboxBackend) -> None:
    seen = await output(
        sandbox, f"env; cat /proc/[0-9]*/environ; cat /proc/{os.getpid()}/environ; cat /proc/$PPID/environ"
    )
    assert "secret-of-the-host" not in seen
    assert "PATH=" in seen


# -- making one --------------------------------------------------------------------------------------------------------


def test_without_bubblewrap_there_is_no_backend(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(world.root))
    (world.root / "bwrap").write_text('#!/bin/sh\nshift 99; exec "$@"\n')
    (world.root / "bwrap").chmod(0o755)
    with pytest.raises(WorkspaceUnavailableError, match="apt-get install bubblewrap"):
        sandbox_backend(world.root)


def test_the_root_of_the_file_system_is_refused() -> None:
    with pytest.raises(ValueError, match="below /"):
        sandbox_backend("/")


def test_a_conversation_does_not_continue_without_its_sandbox(world: World) -> None:
    assert sandbox_backend(world.root).ref == WorkspaceRef(provider="deep-sandbox", id=str(world.root))
    assert world.backend.ref != sandbox_backend(world.root).ref
