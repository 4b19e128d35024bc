"""The backends answer alike: any sequence of operations, with the same result or the same kind of error."""

from __future__ import annotations

import asyncio
import os
import posixpath
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from deep_backends import composite_backend, local_backend, memory_backend
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.workspaces import FileEntry

from tests.drawn import examples

MOUNT = "a"
PATHS = st.lists(st.sampled_from([MOUNT, "b", ".h"]), max_size=3).map("/".join)
DATA = st.sampled_from([b"", b"one\n", b"two\r\n", b"\xff\0"])
POSITION = st.integers(0, 6)
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["read_bytes", "stat", "list_dir", "exists", "make_dir", "remove", "realpath"]), PATHS),
    st.tuples(st.just("write_bytes"), PATHS, DATA),
    st.tuples(st.just("write_if"), PATHS, DATA, st.none() | DATA),
    st.tuples(st.just("read_range"), PATHS, POSITION, POSITION),
)


async def answer(backend: Any, root: str, operation: tuple[Any, ...]) -> object:
    """What comes of an operation, with paths below the working directory; of an error, Python's own class."""
    name, path, *arguments = operation
    options: dict[str, Any] = {}
    if name == "write_if":
        seen = arguments.pop()
        options["expected"] = None if seen is None else sha256(seen).hexdigest()
    try:
        found = await getattr(backend, name)(posixpath.join(root, path) if path else root, *arguments, **options)
    except (OSError, ValueError) as error:
        return next(each for each in type(error).__mro__ if each.__module__ == "builtins")
    if isinstance(found, FileEntry):
        return _below(found, root) if path else found.is_dir
    if name == "list_dir":
        return [_below(entry, root) for entry in found]
    return found.removeprefix(root) if name == "realpath" else found


def _below(entry: FileEntry, root: str) -> FileEntry:
    return replace(entry, path=entry.path.removeprefix(root))


async def compare(backends: Mapping[str, Any], operations: list[tuple[Any, ...]]) -> None:
    """Each operation on all of them, in turn."""
    for operation in operations:
        answers = {
            name: await answer(backend, await backend.working_dir(), operation) for name, backend in backends.items()
        }
        assert len(set(map(repr, answers.values()))) == 1, (operation, answers)


@given(st.lists(OPERATIONS, min_size=1, max_size=12))
@settings(max_examples=examples(150))
def test_memory_answers_as_a_directory_does(operations: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        backends = {"local": local_backend(os.path.realpath(root)), "memory": memory_backend()}
        asyncio.run(compare(backends, operations))


@given(st.lists(OPERATIONS, min_size=1, max_size=12))
@settings(max_examples=examples(100))
def test_a_mount_answers_as_a_directory_does(operations: list[tuple[Any, ...]]) -> None:
    """But that it stays where it is: it cannot be removed, nor be a file."""
    allowed = [each for each in operations if each[1] not in ("", MOUNT) or not each[0].startswith(("remove", "write"))]

    async def main(root: str) -> None:
        memory = memory_backend()
        await memory.make_dir(f"/workspace/{MOUNT}")
        backends = {
            "memory": memory,
            "local in memory": composite_backend(memory_backend(), {MOUNT: local_backend(root)}),
            "memory in memory": composite_backend(memory_backend(), {MOUNT: memory_backend()}),
        }
        await compare(backends, allowed)

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(main(os.path.realpath(root)))
