"""Hundreds of skills: the catalog is bounded, and files are read once, only to the end of the frontmatter."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deep_skills import DirectoryLoader
from deep_skills.index import SkillIndex
from deep_skills.roots import Root
from pydantic_ai import Agent

from deep_core import create_default_deps
from tests import another_process
from tests.stubs import Call, Script, function_model

TOKENS = 2_000
"""Maximum tokens of the catalog, the schemas and one answer of list_skills together (characters / 4)."""


def many(root: Path, count: int, body: str = "Do it.") -> None:
    words = ["invoice", "deploy", "graph", "résumé", "kernel", "日本語", "migrate", "audit"]
    for number in range(count):
        folder = root / f"{words[number % 8].encode('ascii', 'ignore').decode() or 'nippon'}-{number:04}"
        folder.mkdir(parents=True)
        text = f"Handles {words[number % 8]} number {number}. " + "Use it when the user asks for such a thing. " * 6
        (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: {text}\n---\n{body}")


@dataclass
class Disk:
    """Record the operations on SKILL.md files."""

    opened: int = 0
    read: int = 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk, descriptors = Disk(), set[int]()
    real_open, real_read = os.open, os.read

    def open_(path: Any, *args: Any, **kwargs: Any) -> int:
        descriptor = real_open(path, *args, **kwargs)
        if str(path).endswith("SKILL.md"):
            disk.opened += 1
            descriptors.add(descriptor)
        return descriptor

    def read(descriptor: int, size: int) -> bytes:
        data = real_read(descriptor, size)
        if descriptor in descriptors:
            disk.read += len(data)
        return data

    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "read", read)
    return disk


def loader(root: Path, cache: Path | None) -> DirectoryLoader:
    index = SkillIndex((lambda: cache) if cache is not None else None)
    return DirectoryLoader("project", lambda: [Root(str(root))], index=index)


def test_reading_stops_at_the_end_of_the_frontmatter(tmp_path: Path, disk: Disk) -> None:
    many(tmp_path / "s", 10, body="x" * 300_000)
    assert len(loader(tmp_path / "s", None).scan().skills) == 10
    assert (disk.opened, disk.read) == (10, 10 * 4_096)


def test_a_frontmatter_longer_than_a_block_is_read_to_its_end_and_no_further(tmp_path: Path, disk: Disk) -> None:
    folder = tmp_path / "s/big"
    folder.mkdir(parents=True)
    fields = "name: big\ndescription: d\nmetadata:\n" + "".join(f"  k{n}: {'v' * 90}\n" for n in range(100))
    (folder / "SKILL.md").write_text(f"---\n{fields}---\n" + "x" * 300_000)
    (found,) = loader(tmp_path / "s", None).scan().skills
    assert found.meta.metadata["k49"] == "v" * 90
    assert disk.read <= len(fields) + 8 + 4_096


def test_a_file_without_frontmatter_is_given_up_after_a_block(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "s/x").mkdir(parents=True)
    (tmp_path / "s/x/SKILL.md").write_text("x" * 300_000)
    assert loader(tmp_path / "s", None).scan().skills == ()
    assert disk.read == 4_096


@pytest.mark.slow
def test_an_index_spares_every_read_until_a_file_changes(tmp_path: Path, disk: Disk) -> None:
    root, cache = tmp_path / "s", tmp_path / "cache"
    cache.mkdir()
    many(root, 400)
    first = loader(root, cache)
    cold = first.scan()
    assert disk.opened == 400
    assert first.scan() == cold, "warm in memory"
    assert loader(root, cache).scan() == cold, "warm on disk, in another process or agent"
    assert disk.opened == 400
    file = root / "deploy-0001/SKILL.md"
    status = file.stat()
    text = file.read_text().replace("Handles", "Changes")  # as many bytes, and the old modification time
    file.write_text(text)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    changed = {found.meta.name: found.meta.description for found in loader(root, cache).scan().skills}
    assert disk.opened == 401
    assert changed["deploy-0001"].startswith("Changes deploy")


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"format": 1}', '{"format": 1, "files": {"a": 3}}', '{"format": 9}']
)
def test_a_changed_cache_is_ignored(tmp_path: Path, content: str) -> None:
    root, cache = tmp_path / "s", tmp_path / "cache"
    cache.mkdir()
    many(root, 3)
    cold = loader(root, cache).scan()
    (file,) = cache.iterdir()
    file.write_text(content)
    assert loader(root, cache).scan() == cold


def test_problems_are_remembered_with_the_rest(tmp_path: Path, disk: Disk) -> None:
    root, cache = tmp_path / "s", tmp_path / "cache"
    cache.mkdir()
    (root / "bad").mkdir(parents=True)
    (root / "bad/SKILL.md").write_text("---\nname: [\n---\n")
    cold = loader(root, cache).scan()
    assert loader(root, cache).scan() == cold
    assert len(cold.problems) == disk.opened == 1


@pytest.mark.parametrize("how", ["a file", "raises"])
def test_a_cache_that_cannot_be_written_is_ignored(tmp_path: Path, how: str) -> None:
    many(tmp_path / "s", 3)
    blocked = tmp_path / "cache"
    blocked.write_text("in the way")

    def refused() -> Path:
        if how == "raises":
            raise PermissionError("read-only home")
        return blocked

    roots = [Root(str(tmp_path / "s"))]
    for _ in range(2):
        scan = DirectoryLoader("project", lambda: roots, index=SkillIndex(refused)).scan()
        assert len(scan.skills) == 3


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("count", [400, 1_000])
async def test_a_request_stays_within_its_budget(
    count: int,
    project: Path,
    make_agent: Callable[..., Agent[Any, Any]],
    results: Callable[[list[Any]], list[str]],
    contexts: Callable[[list[Any], str], list[str]],
) -> None:
    many(project / ".deep/skills", count)
    last = f"audit-{count - 1:04}"
    script = Script(Call("list_skills"), Call("list_skills", {"query": f"AUDIT {count - 1}"}), "done")
    result = await make_agent(function_model(script)).run("go", deps=create_default_deps())
    (catalog,) = contexts(result.all_messages(), "catalog")
    everything, searched = results(result.all_messages())
    assert (len(catalog) + len(everything) + 730) / 4 <= TOKENS
    for text in (catalog, everything):
        shown = text.count("\n- ")
        assert shown >= 20
        assert f"{count - shown} more: " in text
    assert searched.splitlines()[1].startswith(f"- {last} (project): Handles audit number {count - 1}.")


@pytest.mark.anyio
async def test_descriptions_get_as_long_as_there_is_room(
    project: Path, make_agent: Callable[..., Agent[Any, Any]], contexts: Callable[[list[Any], str], list[str]]
) -> None:
    many(project / ".deep/skills", 30)
    result = await make_agent(function_model(Script("done"))).run("go", deps=create_default_deps())
    (catalog,) = contexts(result.all_messages(), "catalog")
    assert catalog.count("\n- ") == 30
    assert 3_600 < len(catalog) < 4_200


@pytest.mark.parametrize("line", ["a: x{blanks}y: \t{blanks}\x01", "a:{blanks}'", "a: {letters}: {blanks}\x01"])
def test_a_broken_line_takes_time_linear_in_its_length(line: str) -> None:
    # Of the processor, not of the clock. A pattern that looks twice at blanks takes many minutes.
    script = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from deep_skills.fields import parse_leniently
from deep_skills.problem import BadSkill
line = sys.argv[1].encode().decode("unicode_escape")
try:
    parse_leniently(line.replace("{blanks}", " " * 200_000).replace("{letters}", "x" * 200_000), 1)
except BadSkill:
    pass
"""
    another_process.run(script, line.encode("unicode_escape").decode()).check_returncode()
