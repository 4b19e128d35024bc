"""Patterns mean the same on every backend."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import pytest
from anyio import CancelScope, create_task_group, sleep
from deep_backends import memory_backend
from deep_filesystem.globs import BadGlob, Glob, basename_or_path, path_first
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_ai.workspaces import FileEntry, Workspace, WrapperWorkspace

from plugins.filesystem.tests.conftest import Session
from tests import another_process


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", ".py", ".hidden.py"], ["a/b.py", "a.pyc"]),
        ("**/*.py", ["a.py", "a/b.py", "a/b/c.py"], ["a.txt"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "other/src/a"]),
        ("src/**/test_?.py", ["src/test_1.py", "src/a/b/test_x.py"], ["src/test_12.py"]),
        ("*.{py,txt}", ["a.py", "a.txt"], ["a.md", "a.{py,txt}"]),
        ("{a,b{1,2}}/x", ["a/x", "b1/x", "b2/x"], ["b/x"]),
        ("[a-c]x", ["ax", "cx"], ["dx"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("a[]]b", ["a]b"], ["ab"]),
        ("a.b", ["a.b"], ["aXb"]),
        ("a\nb*", ["a\nbc"], ["a b"]),
        ("***.py", ["a.py"], ["a/b.py"]),
        ("[,{]", [",", "{"], ["[,{]"]),
        (r"\[id\]/*", ["[id]/a"], ["i/a", "d/a"]),
        (r"\{x\}.{py,txt}", ["{x}.py", "{x}.txt"], ["x.py"]),
        (r"a\*b\?", ["a*b?"], ["axb1"]),
        (r"a\\b", ["a\\b"], ["ab"]),
        (r"{a\,b,c}", ["a,b", "c"], ["a", "b"]),
    ],
)
def test_a_pattern_matches(pattern: str, matching: list[str], other: list[str]) -> None:
    glob = Glob(pattern)
    assert [path for path in matching + other if glob.matches(path)] == matching


@pytest.mark.parametrize(
    "pattern", ["{a,b", "[a", "[z-a]", "{a,b}" * 9, "{" * 400 + "}" * 400, "x" * 2_000, "{a,b,c,d,e,f,g,h}" + "x" * 900]
)
def test_a_malformed_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadGlob):
        Glob(pattern)


def test_the_walk_begins_where_the_pattern_does() -> None:
    assert (Glob("src/app/*.py").prefix, Glob("src/app/*.py").depth) == ("src/app/", 0)
    assert (Glob("*/x/*.py").prefix, Glob("*/x/*.py").depth) == ("", 2)
    assert (Glob("src/**/x").prefix, Glob("src/**/x").depth) == ("src/", None)
    assert Glob("{a,b/c}/d").depth == 2


def test_a_filter_without_a_slash_is_for_the_name() -> None:
    assert basename_or_path("*.py").matches("a/b/c.py")
    assert basename_or_path("/a/*.py").matches("a/c.py")
    assert not basename_or_path("a/*.py").matches("b/a/c.py")


def meaning(names: Sequence[str], path: Sequence[str]) -> bool:
    """What a pattern means, name by name and character by character: short, and exponential."""
    if not names:
        return not path
    name, *rest = names
    if name == "**" and not rest:
        return bool(path)  # `a/**` is below `a`
    if name == "**":
        return any(meaning(rest, path[start:]) for start in range(len(path) + 1))
    return bool(path) and name_meaning(name, path[0]) and meaning(rest, path[1:])


def name_meaning(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(name_meaning(pattern[1:], name[start:]) for start in range(len(name) + 1))
    if pattern.startswith("[!a]"):
        return name[:1] not in ("", "a") and name_meaning(pattern[4:], name[1:])
    return name[:1] != "" and pattern[0] in ("?", name[0]) and name_meaning(pattern[1:], name[1:])


NAMES = st.lists(st.sampled_from(["a", "b", "ab", "?", "*", "[!a]", "\n", "."]), min_size=1, max_size=6).map("".join)
PATTERNS = st.lists(st.one_of(NAMES, st.just("**")), min_size=1, max_size=5)
PATHS = st.lists(st.text("ab\n.", min_size=1, max_size=5), min_size=1, max_size=5)


@pytest.mark.hypothesis
@given(PATTERNS, PATHS)
@example(["**", "a", "**", "*b", "**", "a"], ["a", "a", "ab", "b", "a"])
@example(["*a*ab"], ["aaab"])
@example(["a", "**"], ["a"])
def test_it_matches_as_written_down_for_small_ones(pattern: list[str], path: list[str]) -> None:
    assert Glob("/".join(pattern)).matches("/".join(path)) == meaning(pattern, path)


STARS = "*a" * 200 + "b"
HOSTILE = [STARS, "**/*a*a/" * 40 + "b", "**/" + "?*" * 300 + "b", "{" + ",".join(["*a" * 20 + "b"] * 20) + "}"]


@pytest.mark.parametrize("pattern", HOSTILE, ids=["stars", "directories", "marks", "braces"])
def test_a_hostile_pattern_costs_no_more_than_its_length_times_the_path(pattern: str) -> None:
    script = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from deep_filesystem.globs import Glob
glob = Glob(sys.argv[1])
assert not any(glob.matches(path) for path in ("a" * 4000, "/".join(["a" * 99] * 40), "/".join("a" * 2000)))
"""
    # Of the processor, not of the clock: a busy machine changes nothing. Backtracking takes longer than the universe.
    another_process.run(script, pattern).check_returncode()


class Endless(WrapperWorkspace):
    """A tree of long names without an end."""

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        names = ["d", *(f"{'a' * 200}{number}" for number in range(100))]
        return [FileEntry(name=name, path=f"{path}/{name}", is_dir=name == "d", size=None) for name in names]

    async def realpath(self, path: str) -> str:
        return path


@pytest.mark.anyio
@pytest.mark.parametrize(("tool", "arguments"), [("glob", [f"**/{STARS}"]), ("grep", ["x", ".", STARS])])
async def test_a_search_leaves_the_loop_free_and_stops_when_it_is_cancelled(
    new_session: Any, tool: str, arguments: list[str]
) -> None:
    session = new_session(Endless(Workspace(memory_backend())), grep_seconds=3600)
    scope = CancelScope()

    async def search() -> None:
        with scope:
            await session.ok(tool, *arguments)

    async with create_task_group() as group:
        group.start_soon(search)
        for _ in range(20):
            await sleep(0)
        scope.cancel()
    assert scope.cancelled_caught


@pytest.mark.anyio
async def test_the_time_limit_ends_a_search_whose_backend_never_waits(new_session: Any) -> None:
    session = new_session(Endless(Workspace(memory_backend())), grep_seconds=0.01)
    assert "stopped after 0.01 s" in await session.failed("glob", "**/*.py")


ROUTES = ["app/[id]/page.tsx", "app/i/page.tsx", "app/[...slug]/page.tsx", "{x}/a.py", "x/a.py", "what?.md", "whats.md"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("app/[id]/page.tsx", ["app/[id]/page.tsx"]),
        ("app/[id]/*.tsx", ["app/[id]/page.tsx"]),
        ("./app/[...slug]/page.tsx", ["app/[...slug]/page.tsx"]),
        ("{x}/*.py", ["{x}/a.py"]),
        ("what?.md", ["what?.md"]),
        ("app/[i]/page.tsx", ["app/i/page.tsx"]),  # no directory of that name: a class
        ("{x,y}/*.py", ["x/a.py"]),
        (r"app/\[id\]/*", ["app/[id]/page.tsx"]),
        ("**/[id]/*.tsx", ["app/[id]/page.tsx", "app/i/page.tsx"]),
        ("app/[ix]/page.tsx", ["app/i/page.tsx"]),
        ("app/[id]//./page.tsx", ["app/[id]/page.tsx"]),
        ("**/page.tsx", [path for path in ROUTES if path.endswith("page.tsx")]),
    ],
)
async def test_a_path_is_a_path_first(session: Session, pattern: str, found: list[str]) -> None:
    for path in ROUTES:
        await session.workspace.write_text(path, "needle\n")
    assert (await session.ok("glob", pattern)).splitlines() == sorted(found)
    assert (await session.ok("grep", "needle", glob=pattern.removeprefix("./"))).splitlines() == sorted(found)
    folder, _, rest = pattern.removeprefix("./").partition("/")
    if rest and "*" not in folder and folder == "app":
        assert (await session.ok("glob", rest, path=folder)).splitlines() == sorted(found)


@pytest.mark.anyio
async def test_a_directory_is_a_path_first_too(session: Session) -> None:
    for path in ROUTES:
        await session.workspace.write_text(path, "needle\n")
    assert await session.ok("glob", "app/[id]/") == "app/[id]/"
    assert await session.ok("grep", "needle", glob="app/[id]/") == "app/[id]/page.tsx"
    assert await session.ok("grep", "needle", glob="i/") == "app/i/page.tsx"
    found = await session.ok("grep", "needle", glob="ap/*.tsx")
    assert found == "No matches for 'needle' in the working directory. ap does not exist. Did you mean app?"


@pytest.mark.anyio
@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    "pattern", ["r\u00e9sum\u00e9/*", "**/\u00e9t*.txt", "r*/\u00e9tude.txt", "**/[\u00e9x]tude.txt"]
)
async def test_both_forms_of_accents_are_found(session: Session, form: Any, pattern: str) -> None:
    path = unicodedata.normalize(form, "r\u00e9sum\u00e9/\u00e9tude.txt")
    await session.workspace.write_text(path, "needle\n")
    assert await session.ok("glob", pattern) == path
    assert await session.ok("grep", "needle", glob=pattern) == path
    assert await session.ok("glob", unicodedata.normalize("NFD", pattern.replace("[\u00e9x]", "\u00e9"))) == path


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("**/*.MD", " Did you mean README.md, docs/a.md?"),
        ("docs/A.md", " Did you mean docs/a.md?"),
        ("**/*.rst", ""),
    ],
)
async def test_a_pattern_in_another_case_is_suggested(session: Session, pattern: str, meant: str) -> None:
    for path in ("README.md", "docs/a.md"):
        await session.workspace.write_text(path, "needle\n")
    assert (await session.ok("glob", pattern)).endswith(f".{meant}")
    assert (await session.ok("grep", "needle", glob=pattern)).endswith(f".{meant}")
    assert (await session.ok("grep", "absent", glob="*.md")).endswith("working directory.")
    assert (await session.ok("glob", "*ADME", path="docs")).endswith("**/*ADME")
    assert (await session.ok("glob", "DOC*/")).endswith("Did you mean docs?")
    await session.workspace.write_text(".gitignore", "README.md\n")
    assert "README.md" not in await session.ok("glob", "**/R*.MD")
    assert (await session.ok("grep", "needle", glob="**/R*.MD", ignored=True)).endswith(" Did you mean README.md?")
    assert (await session.ok("grep", "needle", glob="[Z-a]xyz.md")).startswith("No matches")


NAMES = st.text("ab[]{},*?\\", min_size=1, max_size=5).filter(lambda name: name.strip("*"))


@given(st.lists(NAMES, min_size=1, max_size=3))
@pytest.mark.anyio
async def test_a_pattern_that_exists_as_written_matches_itself_alone(names: list[str]) -> None:
    path = "/".join(names)

    async def exists(asked: str) -> bool:
        return asked == path

    patterns = await path_first(path, exists)
    if len(patterns) == 1 and patterns != [path]:
        assert Glob(*patterns).matches(path)
        assert Glob(*patterns).prefix == "".join(f"{name}/" for name in names[:-1])
