"""The running interpreter's packages and config files that were read: readable, never written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import deep_backends
import pytest
from deep_backends import (
    ConfinementError,
    LocalBackend,
    ProtectedPathError,
    composite_backend,
    local_backend,
    memory_backend,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai.workspaces import Workspace, WorkspaceBackend, WrapperWorkspace

from deep_core import Kernel, create_default_deps

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.anyio


async def chunks() -> AsyncIterator[bytes]:
    yield b"x"


CHANGES: dict[str, Callable[[LocalBackend, str], Awaitable[object]]] = {
    "write_bytes": lambda backend, path: backend.write_bytes(path, b"x"),
    "write_stream": lambda backend, path: backend.write_stream(path, chunks()),
    "write_if_unchanged": lambda backend, path: backend.write_if(path, b"x", expected=sha256(b"config").hexdigest()),
    "write_if_absent": lambda backend, path: backend.write_if(path, b"x", expected=None),
    "make_dir": lambda backend, path: backend.make_dir(path),
    "remove": lambda backend, path: backend.remove(path),
}


@pytest.fixture
def guarded(world: World) -> LocalBackend:
    (world.root / "conf").mkdir()
    (world.root / "conf" / "deep.toml").write_bytes(b"config")
    (world.root / "packages" / "acme").mkdir(parents=True)
    (world.root / "packages" / "acme" / "code.py").write_bytes(b"config")
    (world.root / "link-to-config").symlink_to("conf/deep.toml")
    (world.root / "link-to-packages").symlink_to("packages")
    os.link(world.root / "conf" / "deep.toml", world.root / "hard-link")
    return local_backend(world.root, protected=[world.root / "conf" / "deep.toml", world.root / "packages"])


PROTECTED = [
    "conf/deep.toml",
    "packages/acme/code.py",
    "packages/acme/new.py",
    "packages/acme",
    "packages",
    "link-to-packages/acme/code.py",
    "link-to-packages/new.py",
    "deep/er/../../packages/acme/code.py",
    "link-to-packages/../conf/deep.toml",
    "hard-link",
]


@pytest.mark.parametrize("path", PROTECTED)
@pytest.mark.parametrize("change", CHANGES)
async def test_no_change_reaches_what_is_protected(world: World, guarded: LocalBackend, change: str, path: str) -> None:
    # Making a directory where a file is fails as it does everywhere; in a protected directory it is refused before.
    occupied = change == "make_dir" and path in ("conf/deep.toml", "link-to-packages/../conf/deep.toml", "hard-link")
    with pytest.raises(FileExistsError if occupied else ProtectedPathError):
        await CHANGES[change](guarded, f"{world.root}/{path}")
    assert (world.root / "conf" / "deep.toml").read_bytes() == b"config"
    assert os.listdir(world.root / "packages") == ["acme"]
    assert os.listdir(world.root / "packages" / "acme") == ["code.py"]
    assert os.path.lexists(world.root / "hard-link")


@pytest.mark.parametrize("change", ["write_bytes", "write_stream", "write_if_absent", "make_dir"])
async def test_no_directory_is_made_below_what_is_protected(world: World, guarded: LocalBackend, change: str) -> None:
    with pytest.raises(ProtectedPathError):
        await CHANGES[change](guarded, f"{world.root}/packages/new/directory/new.py")
    assert os.listdir(world.root / "packages") == ["acme"]


async def test_passing_through_a_protected_directory_is_no_change_of_it(world: World, guarded: LocalBackend) -> None:
    await guarded.write_bytes(f"{world.root}/packages/acme/../../deep/note.txt", b"fine")
    await guarded.remove(f"{world.root}/packages/../deep/note.txt")


async def test_a_directory_that_holds_what_is_protected_stays(world: World, guarded: LocalBackend) -> None:
    with pytest.raises(ProtectedPathError, match=r"deep\.toml"):
        await guarded.remove(f"{world.root}/conf")
    await guarded.write_bytes(f"{world.root}/conf/other.toml", b"fine")
    await guarded.remove(f"{world.root}/conf/other.toml")


async def test_writing_through_a_link_to_a_protected_file_is_refused(world: World, guarded: LocalBackend) -> None:
    with pytest.raises(ProtectedPathError):
        await guarded.write_bytes(f"{world.root}/link-to-config", b"x")
    await guarded.remove(f"{world.root}/link-to-config")  # the link is not the config
    assert (world.root / "conf" / "deep.toml").read_bytes() == b"config"


async def test_a_config_that_is_a_link_cannot_be_replaced_either(world: World) -> None:
    (world.root / "real.toml").write_bytes(b"config")
    (world.root / "deep.toml").symlink_to("real.toml")
    backend = local_backend(world.root, protected=[world.root / "deep.toml"])
    for name in ("deep.toml", "real.toml"):
        with pytest.raises(ProtectedPathError):
            await backend.remove(f"{world.root}/{name}")
        with pytest.raises(ProtectedPathError):
            await backend.write_bytes(f"{world.root}/{name}", b"x")


async def test_a_config_that_does_not_exist_yet_cannot_be_made(world: World) -> None:
    backend = local_backend(world.root, protected=[world.root / "new" / "deep.toml"])
    with pytest.raises(ProtectedPathError):
        await backend.write_bytes(f"{world.root}/new/deep.toml", b"x")
    await backend.write_bytes(f"{world.root}/new/deep.toml.md", b"fine")


async def test_reading_what_is_protected_is_fine(world: World, guarded: LocalBackend) -> None:
    assert await guarded.read_bytes(f"{world.root}/conf/deep.toml") == b"config"
    assert await guarded.read_range(f"{world.root}/packages/acme/code.py", 0, 3) == b"con"
    assert [entry.name for entry in await guarded.list_dir(f"{world.root}/packages")] == ["acme"]


async def test_paths_are_added_later_and_through_a_composite(world: World) -> None:
    path = f"{world.root}/inside.txt"
    await world.backend.write_bytes(path, b"fine")
    composite_backend(memory_backend(), {"/project/": world.backend}).protect(path)
    with pytest.raises(ProtectedPathError):
        await world.backend.write_bytes(path, b"x")


WRAPPERS: dict[str, Callable[[LocalBackend], WorkspaceBackend]] = {
    "Workspace": Workspace,
    "Workspace of a Workspace": lambda backend: Workspace(Workspace(backend)),
    "WrapperWorkspace": lambda backend: WrapperWorkspace(Workspace(backend)),
    "composite": lambda backend: composite_backend(backend, {}),
    "composite over a Workspace": lambda backend: composite_backend(Workspace(backend), {}),
    "route to a wrapper": lambda backend: composite_backend(
        memory_backend(), {"/project/": WrapperWorkspace(Workspace(backend))}
    ),
    "wrapped composite": lambda backend: WrapperWorkspace(Workspace(composite_backend(Workspace(backend), {}))),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
async def test_no_wrapper_loses_the_protection_of_a_config_file(world: World, wrapper: str) -> None:
    config = world.root / "deep.toml"
    config.write_text("[plugins]\n")
    with Kernel(plugins=[deep_backends], discover=False, config=config) as kernel:
        deps = create_default_deps(backend=WRAPPERS[wrapper](world.backend), kernel=kernel)
        await kernel.create_agent(TestModel()).run("go", deps=deps)
    with pytest.raises(ProtectedPathError):
        await world.backend.write_bytes(str(config), b"x")


async def test_nothing_is_written_below_this_interpreters_packages() -> None:
    packages = os.path.realpath(sysconfig.get_path("purelib"))
    for root in (packages, os.path.dirname(packages)):
        backend = local_backend(root)
        for name in ("deep_probe.py", "pydantic_ai/deep_probe.py"):
            with pytest.raises(ProtectedPathError, match=r"site-packages|its directory"):
                await backend.write_bytes(f"{packages}/{name}", b"x")
            assert not os.path.exists(f"{packages}/{name}")
        assert await backend.read_bytes(f"{packages}/pydantic_ai/py.typed") == b""


IN_A_VIRTUAL_ENVIRONMENT = """
import asyncio, json, os, sys
from deep_backends import ProtectedPathError, local_backend

async def main(root):
    backend = local_backend(root)
    answers = {}
    for name in sys.argv[2:]:
        try:
            await backend.write_bytes(os.path.join(root, name), b"x")
            answers[name] = "written"
        except ProtectedPathError:
            answers[name] = "refused"
    try:
        await backend.remove(os.path.join(root, ".venv"))
        answers["remove"] = "removed"
    except ProtectedPathError:
        answers["remove"] = "refused"
    print(json.dumps(answers))

asyncio.run(main(os.path.realpath(sys.argv[1])))
"""


@pytest.mark.slow
def test_the_running_virtual_environment_inside_the_workspace_is_protected(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True)
    packages = next((tmp_path / ".venv" / "lib").glob("python*/site-packages")).relative_to(tmp_path)
    refused = [".venv/bin/python", ".venv/bin/new", ".venv/pyvenv.cfg", f"{packages}/x.pth", f"{packages}/acme/x.py"]
    written = ["src/x.py", ".venv2/x.py"]
    done = subprocess.run(
        [str(tmp_path / ".venv" / "bin" / "python"), "-c", IN_A_VIRTUAL_ENVIRONMENT, str(tmp_path), *refused, *written],
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == {
        **dict.fromkeys([*refused, "remove"], "refused"),
        **dict.fromkeys(written, "written"),
    }


@pytest.mark.parametrize("change", CHANGES)
async def test_no_error_names_a_folder_of_the_host(world: World, guarded: LocalBackend, change: str) -> None:
    (world.root / "out").symlink_to(world.outside)
    guarded.protect(world.outside / "config.toml", world.base)
    for path in ("out/x", "packages/acme/new.py", "new.py"):
        with pytest.raises(ConfinementError) as caught:
            await CHANGES[change](guarded, f"{world.root}/{path}")
        shown = str(caught.value).replace(f"{world.root}/{path}", path)
        assert str(world.base) not in shown
