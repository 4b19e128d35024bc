"""Every file operation against every way out of the root: refused, and nothing outside is read or changed."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deep_backends import ConfinementError, LocalBackend, local_backend
from deep_backends.errors import quote_path
from pydantic_ai.workspaces import WorkspaceError

if TYPE_CHECKING:
    from conftest import World

pytestmark = pytest.mark.anyio

SECRET = sha256(b"secret").hexdigest()


async def chunks() -> AsyncIterator[bytes]:
    yield b"writ"
    yield b"ten"


Operation = Callable[[LocalBackend, str], Awaitable[object]]
OPERATIONS: dict[str, Operation] = {
    "read_bytes": lambda backend, path: backend.read_bytes(path),
    "read_range": lambda backend, path: backend.read_range(path, 0, 100),
    "stat": lambda backend, path: backend.stat(path),
    "exists": lambda backend, path: backend.exists(path),
    "list_dir": lambda backend, path: backend.list_dir(path),
    "realpath": lambda backend, path: backend.realpath(path),
    "write_bytes": lambda backend, path: backend.write_bytes(path, b"written"),
    "write_stream": lambda backend, path: backend.write_stream(path, chunks()),
    "write_if_unchanged": lambda backend, path: backend.write_if(path, b"written", expected=SECRET),
    "write_if_absent": lambda backend, path: backend.write_if(path, b"written", expected=None),
    "make_dir": lambda backend, path: backend.make_dir(path),
    "remove": lambda backend, path: backend.remove(path),
}


def link(world: World, name: str, target: str | Path) -> str:
    os.symlink(target, world.root / name)
    return str(world.root / name)


def chain(world: World, target: str | Path) -> str:
    link(world, "one", target)
    link(world, "two", "one")
    return link(world, "three", world.root / "two")


ATTACKS: dict[str, Callable[[World], str]] = {
    "dot dot": lambda world: f"{world.root}/../outside/secret.txt",
    "dot dot through directories": lambda world: f"{world.root}/deep/er/../../../outside/secret.txt",
    "dot dot, new name": lambda world: f"{world.root}/../outside/new.txt",
    "dot dot in the middle of nothing": lambda world: f"{world.root}/./deep//../.././outside/secret.txt",
    "absolute": lambda world: f"{world.outside}/secret.txt",
    "absolute, new name": lambda world: f"{world.outside}/new/file.txt",
    "absolute, double slash": lambda world: f"/{world.outside}/secret.txt",
    "sibling with the same prefix": lambda world: f"{world.root}-evil/secret.txt",
    "the root's parent": lambda world: str(world.base),
    "the file system's root": lambda world: "/",
    "through /proc": lambda world: f"/proc/self/root{world.outside}/secret.txt",
    "directory link": lambda world: link(world, "link", world.outside) + "/secret.txt",
    "directory link, new name": lambda world: link(world, "link", world.outside) + "/new/file.txt",
    "relative directory link": lambda world: link(world, "link", "../outside") + "/secret.txt",
    "link to a sibling with the same prefix": lambda world: link(world, "link", f"{world.root}-evil") + "/secret.txt",
    "link to the parent": lambda world: link(world, "link", "..") + "/outside/secret.txt",
    "link to the file system's root": lambda world: link(world, "link", "/") + f"{world.outside}/secret.txt",
    "link chain": lambda world: chain(world, world.outside) + "/secret.txt",
    "dot dot after a link": lambda world: link(world, "link", "deep/er") + "/../../../outside/secret.txt",
    "dot dot after a link out and back": lambda world: link(world, "link", world.outside / "folder") + "/../secret.txt",
    "link in a linked directory": lambda world: (
        link(world, "deep/er/up", "../../../outside") and link(world, "link", "deep/er") + "/up/secret.txt"
    ),
}
LINKS_THEMSELVES: dict[str, Callable[[World], str]] = {
    "file link": lambda world: link(world, "link", world.outside / "secret.txt"),
    "relative file link": lambda world: link(world, "link", "../outside/secret.txt"),
    "file link chain": lambda world: chain(world, world.outside / "secret.txt"),
    "link to an absent file": lambda world: link(world, "link", world.outside / "new.txt"),
    "link to a directory": lambda world: link(world, "link", world.outside / "folder"),
    "link to a sibling": lambda world: link(world, "link", f"{world.root}-evil"),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_no_operation_leaves_the_root(world: World, operation: str, attack: str) -> None:
    path = ATTACKS[attack](world)
    before = world.snapshot()
    if operation == "realpath" and attack in ("the root's parent", "the file system's root"):
        assert await world.backend.realpath(path) == path  # the root's own path names them
        return
    with pytest.raises(ConfinementError) as refused:
        await OPERATIONS[operation](world.backend, path)
    assert refused.value.root == str(world.root)
    assert quote_path(path) in str(refused.value)
    assert world.snapshot() == before


@pytest.mark.parametrize("attack", LINKS_THEMSELVES)
@pytest.mark.parametrize("operation", sorted(OPERATIONS.keys() - {"remove"}))
async def test_no_operation_follows_a_link_out(world: World, operation: str, attack: str) -> None:
    path = LINKS_THEMSELVES[attack](world)
    before = world.snapshot()
    with pytest.raises(ConfinementError):
        await OPERATIONS[operation](world.backend, path)
    assert world.snapshot() == before
    assert os.path.islink(path)


@pytest.mark.parametrize("attack", LINKS_THEMSELVES)
async def test_removing_a_link_removes_the_link_alone(world: World, attack: str) -> None:
    path = LINKS_THEMSELVES[attack](world)
    before = world.snapshot()
    await world.backend.remove(path)
    assert not os.path.lexists(path)
    assert world.snapshot() == before


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_nul_byte_is_a_value_error(world: World, operation: str) -> None:
    with pytest.raises(ValueError, match="NUL"):
        await OPERATIONS[operation](world.backend, f"{world.root}/a\0b")


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_relative_path_is_a_value_error(world: World, operation: str) -> None:
    with pytest.raises(ValueError, match="absolute"):
        await OPERATIONS[operation](world.backend, "inside.txt")


@pytest.mark.parametrize("operation", sorted(OPERATIONS.keys() - {"realpath"}))
@pytest.mark.parametrize("name", ["n" * 300, "d/" * 3000 + "f"], ids=["one long name", "a long path"])
async def test_a_name_that_is_too_long_is_a_short_error(world: World, operation: str, name: str) -> None:
    with pytest.raises(OSError, match="too long for") as refused:
        await OPERATIONS[operation](world.backend, f"{world.root}/{name}")
    assert len(str(refused.value)) < 400
    assert sorted(os.listdir(world.root)) == ["deep", "inside.txt"]


@pytest.mark.parametrize("operation", sorted(OPERATIONS.keys() - {"exists", "remove", "realpath"}))
async def test_a_link_loop_is_an_os_error(world: World, operation: str) -> None:
    link(world, "loop", "loop2")
    path = link(world, "loop2", "loop")
    for attacked in (path, f"{path}/below"):
        with pytest.raises(OSError, match="loop2"):
            await OPERATIONS[operation](world.backend, attacked)


async def test_a_link_loop_does_not_exist_and_can_be_removed(world: World) -> None:
    path = link(world, "loop", "loop")
    assert not await world.backend.exists(path)
    assert (await world.backend.realpath(f"{path}/x")).startswith(f"{world.root}/")
    with pytest.raises(ConfinementError):
        await world.backend.realpath(f"{path}/../../outside/secret.txt")
    await world.backend.remove(path)
    assert not os.path.lexists(path)


async def test_a_confinement_error_is_what_every_caller_expects(world: World) -> None:
    with pytest.raises(ConfinementError) as refused:
        await world.backend.read_bytes("/etc/passwd")
    assert isinstance(refused.value, WorkspaceError)
    assert isinstance(refused.value, PermissionError)
    assert isinstance(refused.value, ValueError)
    assert (refused.value.path, refused.value.root) == ("/etc/passwd", str(world.root))


@pytest.mark.parametrize("operation", ["write_bytes", "write_stream", "write_if_absent", "make_dir"])
async def test_a_refused_change_leaves_no_directory_behind(world: World, operation: str) -> None:
    with pytest.raises(ConfinementError):
        await OPERATIONS[operation](world.backend, f"{world.root}/new/er/../../../outside/new.txt")
    assert sorted(os.listdir(world.root)) == ["deep", "inside.txt"]


async def test_names_that_only_look_like_dot_dot_are_names(world: World) -> None:
    for name in ("a..b", "..a", "...", "a..", "~"):
        path = f"{world.root}/{name}"
        await world.backend.write_bytes(path, name.encode())
        assert (world.root / name).read_bytes() == name.encode()
        assert await world.backend.read_bytes(path) == name.encode()


async def test_links_that_stay_inside_are_followed(world: World) -> None:
    absolute = link(world, "absolute", world.root / "deep")
    out_and_back = link(world, "out-and-back", "../root/deep")
    for place in (absolute, out_and_back, f"{world.root}/deep/../deep", f"{absolute}/er/.."):
        await world.backend.write_bytes(f"{place}/note.txt", place.encode())
        assert (world.root / "deep" / "note.txt").read_bytes() == place.encode()
        assert await world.backend.read_bytes(f"{place}/note.txt") == place.encode()
        assert await world.backend.realpath(f"{place}/note.txt") == f"{world.root}/deep/note.txt"


async def test_the_root_may_be_named_by_a_link_to_it(world: World) -> None:
    os.symlink(world.root, world.base / "alias")
    backend = local_backend(world.base / "alias")
    assert await backend.working_dir() == str(world.root)
    assert await backend.read_bytes(f"{world.base}/alias/inside.txt") == b"inside"
    doomed = link(world, "doomed", "inside.txt")
    await backend.remove(f"{world.base}/alias/doomed")
    assert not os.path.lexists(doomed)
    assert (world.root / "inside.txt").exists()


async def test_listing_tells_nothing_of_what_a_link_outside_leads_to(world: World) -> None:
    link(world, "folder", world.outside)
    link(world, "file", world.outside / "secret.txt")
    entries = {entry.name: (entry.is_dir, entry.size) for entry in await world.backend.list_dir(str(world.root))}
    assert entries == {"deep": (True, None), "inside.txt": (False, 6), "folder": (False, None), "file": (False, None)}


async def test_a_directory_swapped_for_a_link_before_the_rename_changes_nothing_outside(world: World) -> None:
    class Swapping(LocalBackend):
        def _before_replace(self, path: str) -> None:
            os.rename(world.root / "deep", world.root / "moved")
            os.symlink(world.outside, world.root / "deep")

    before = world.snapshot()
    await Swapping(world.root).write_bytes(f"{world.root}/deep/secret.txt", b"written")
    assert world.snapshot() == before
    assert (world.root / "moved" / "secret.txt").read_bytes() == b"written"


async def test_a_file_swapped_for_a_link_before_the_rename_is_replaced_not_followed(world: World) -> None:
    target = world.root / "inside.txt"

    class Swapping(LocalBackend):
        def _before_replace(self, path: str) -> None:
            target.unlink()
            os.symlink(world.outside / "secret.txt", target)

    before = world.snapshot()
    await Swapping(world.root).write_bytes(str(target), b"written")
    assert world.snapshot() == before
    assert not target.is_symlink()
    assert target.read_bytes() == b"written"


@pytest.mark.slow
async def test_links_swapped_in_while_operations_run_never_lead_out(world: World) -> None:
    """A thread exchanges a directory and a link as fast as it can; the operations see one or the other."""
    spare, place = world.root / "spare", world.root / "place"
    place.mkdir()
    (place / "secret.txt").write_bytes(b"inside")
    os.symlink(world.outside, spare)
    before = world.snapshot()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            try:
                os.rename(place, world.root / "aside")
            except FileNotFoundError:  # a failed write has taken back the directory that it had made
                place.mkdir(exist_ok=True)
                continue
            while True:
                try:
                    os.rename(spare, place)
                    break
                except OSError:  # a write has made the directory again in between
                    shutil.rmtree(place, ignore_errors=True)
            os.rename(world.root / "aside", spare)

    thread = threading.Thread(target=swap)
    thread.start()
    outcomes: set[str] = set()
    path = f"{place}/secret.txt"
    try:
        for _ in range(1500):
            for operation in ("read_bytes", "write_bytes", "stat", "make_dir", "write_if_absent"):
                try:
                    result = await OPERATIONS[operation](
                        world.backend, path if operation != "make_dir" else f"{place}/n"
                    )
                except ConfinementError:
                    outcomes.add("refused")
                except OSError:
                    outcomes.add("in between")
                else:
                    outcomes.add("inside")
                    assert result != b"secret"
    finally:
        stop.set()
        thread.join()
    assert world.snapshot() == before
    assert "inside" in outcomes
    assert "refused" in outcomes
