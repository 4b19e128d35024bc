"""Searches leave out what git ignores, say so, and agree with git and with each other."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from deep_backends import local_backend, memory_backend
from deep_filesystem import gitignore, ripgrep, search, walk
from deep_filesystem.gitignore import Rules
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_ai.workspaces import Workspace, WorkspaceTimeoutError

from plugins.filesystem.tests.conftest import Session
from tests import another_process
from tests.drawn import examples

needs_ripgrep = pytest.mark.needs("ripgrep")
ENGINES = [pytest.param(True, marks=needs_ripgrep, id="ripgrep"), pytest.param(False, id="walk")]
PROJECT = {
    ".gitignore": "build/\n*.log\n/env\n!keep.log\n",
    ".git/info/exclude": "local/\n",
    "src/main.py": "needle",
    "src/.gitignore": "gen_*\n",
    "src/gen_a.py": "needle",
    "src/env/x.py": "needle",
    "build/lib/a.py": "needle",
    "build/lib/deep/b.py": "needle",
    "env/c.py": "needle",
    "local/d.py": "needle",
    "debug.log": "needle",
    "keep.log": "needle",
    "vendor/.git/HEAD": "ref",
    "vendor/x.log": "needle",
}
SKIPPED_FROM_ROOT = "3 folders and 2 files that git ignores. To include: ignored=true]"


@pytest.fixture
def project(root: Path) -> Path:
    for name, text in PROJECT.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.anyio
@pytest.mark.parametrize("with_ripgrep", ENGINES)
async def test_grep_leaves_out_what_git_ignores_and_says_so(project: Path, with_ripgrep: bool) -> None:
    session = Session(Workspace(local_backend(project)), ripgrep=with_ripgrep)
    *found, note = (await session.ok("grep", "needle")).splitlines()
    # `/env` is the one of the root; another repository in it has rules of its own.
    assert found == ["keep.log", "src/env/x.py", "src/main.py", "vendor/x.log"]
    assert note == f"[Not searched: {SKIPPED_FROM_ROOT}"
    everything = (await session.ok("grep", "needle", ignored=True)).splitlines()
    assert len(everything) == len(PROJECT) - 4
    assert "env/c.py" in everything


@pytest.mark.anyio
@pytest.mark.parametrize("with_ripgrep", ENGINES)
async def test_a_link_called_gitignore_has_no_rules(root: Path, with_ripgrep: bool) -> None:
    (root / "rules.txt").write_text("a.txt\n")
    (root / "a.txt").write_text("needle")
    (root / ".gitignore").symlink_to("rules.txt")
    session = Session(Workspace(local_backend(root)), ripgrep=with_ripgrep)
    assert await session.ok("grep", "needle") == "a.txt"


@needs_ripgrep
@pytest.mark.anyio
async def test_python_lists_no_folder_where_there_are_no_rules(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "src").mkdir()
    (root / "src" / "a.txt").write_text("needle")

    def walked(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the tree was listed in Python")

    monkeypatch.setattr(ripgrep, "walk", walked)
    session = Session(Workspace(local_backend(root)))
    assert await session.ok("grep", "needle") == "src/a.txt"
    (root / "src" / ".gitignore").write_text("a.txt\n")
    with pytest.raises(AssertionError, match="the tree was listed"):
        await session.ok("grep", "needle")


@pytest.mark.anyio
@pytest.mark.parametrize("with_ripgrep", ENGINES)
async def test_inside_an_ignored_folder_everything_is_searched(project: Path, with_ripgrep: bool) -> None:
    session = Session(Workspace(local_backend(project)), ripgrep=with_ripgrep)
    assert await session.ok("grep", "needle", "build/lib") == "build/lib/a.py\nbuild/lib/deep/b.py"
    assert await session.ok("grep", "needle", "debug.log") == "debug.log"
    below = await session.ok("grep", "needle", "src")
    assert below.splitlines()[-1] == "[Not searched: 1 file that git ignores. To include: ignored=true]"


@pytest.mark.anyio
@pytest.mark.parametrize("with_ripgrep", ENGINES)
async def test_no_match_says_what_was_not_searched(project: Path, with_ripgrep: bool) -> None:
    session = Session(Workspace(local_backend(project)), ripgrep=with_ripgrep)
    assert (await session.ok("grep", "absent")).endswith(SKIPPED_FROM_ROOT)


@pytest.mark.anyio
@pytest.mark.parametrize("with_ripgrep", ENGINES)
@pytest.mark.parametrize("rules", ["sub/.gitignore", "sub/.git/info/exclude"])
async def test_rules_of_a_folder_below_hold(root: Path, with_ripgrep: bool, rules: str) -> None:
    for name in (rules, "sub/build/a.txt", "sub/deep/b.txt", "c.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("build/\n" if name == rules else "needle")
    session = Session(Workspace(local_backend(root)), ripgrep=with_ripgrep)
    assert await session.ok("grep", "needle") == (
        "c.txt\nsub/deep/b.txt\n[Not searched: 1 folder that git ignores. To include: ignored=true]"
    )
    # ripgrep has searched the folder too, and the answer would be the same with it.
    assert ("git ignores" in await session.ok("grep", "absent")) is not with_ripgrep


@pytest.mark.anyio
async def test_glob_leaves_out_what_git_ignores_and_says_so(project: Path) -> None:
    session = Session(Workspace(local_backend(project)))
    assert await session.ok("glob", "**/*.py") == (
        "src/env/x.py\nsrc/main.py\n[Not listed: 3 folders and 1 file that git ignores. To include: ignored=true]"
    )
    assert "build/lib/a.py" in await session.ok("glob", "**/*.py", ignored=True)
    assert await session.ok("glob", "build/**/*.py") == "build/lib/a.py\nbuild/lib/deep/b.py"
    assert "git ignores" not in await session.ok("glob", "*.md")  # this one enters no folder


@pytest.mark.anyio
async def test_rules_hold_in_memory_and_without_a_repository() -> None:
    backend = memory_backend()
    await backend.write_bytes("/workspace/.gitignore", b"*.log\n")
    session = Session(Workspace(backend))
    root = await session.workspace.working_dir()
    for name, data in {".gitignore": b"*.log\n", "a.log": b"x", "a.txt": b"x"}.items():
        await backend.write_bytes(f"{root}/{name}", data)
    assert (await session.ok("grep", "x")).splitlines()[0] == "a.txt"


@pytest.mark.anyio
async def test_directories_are_found_by_a_pattern_that_ends_with_a_slash(project: Path) -> None:
    session = Session(Workspace(local_backend(project)))
    assert (await session.ok("glob", "*/")).splitlines()[:3] == [".git/", "src/", "vendor/"]
    assert (await session.ok("glob", "**/lib/")).startswith("No directories match **/lib/ in")
    assert await session.ok("glob", "**/lib/", ignored=True) == "build/lib/"


@pytest.mark.anyio
async def test_the_pages_of_ls_and_glob_are_the_whole_list(workspace: Workspace) -> None:
    session = Session(workspace, list_limit=3)
    names = [f"{number}.txt" for number in range(8)]
    for name in names:
        await session.ok("write_file", name, "x")
    for tool, arguments in (("ls", []), ("glob", ["*.txt"])):
        seen: list[str] = []
        for offset in (0, 3, 6):
            page = (await session.ok(tool, *arguments, offset=offset)).splitlines()
            assert [line.split(" more ")[0] for line in page[3:]] == ([f"... and {5 - offset}"] if offset < 6 else [])
            assert offset == 6 or page[3].endswith(f"; next offset={offset + 3}")
            seen += [line.split()[0] for line in page[:3]]
        assert seen == names
        assert "offset is from 0 to 7" in await session.failed(tool, *arguments, offset=8)


# -- a search that meets its limit -------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_walk_that_meets_its_time_limit_returns_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(Workspace(memory_backend()), grep_seconds=0.5)
    for name in ("a.txt", "b.txt"):
        await session.ok("write_file", name, "needle")
    match_file = search._match_file
    searched: list[str] = []

    async def one_and_never_another(workspace: Any, request: Any, matching: Any, file: Any) -> Any:
        if searched:
            await anyio.sleep_forever()
        searched.append(file.path)
        return await match_file(workspace, request, matching, file)

    monkeypatch.setattr(search, "_match_file", one_and_never_another)
    first, note = (await session.ok("grep", "needle")).splitlines()
    assert first == searched[0]
    assert note.startswith("[Partial: the search met its limit.")


@pytest.mark.anyio
async def test_a_walk_of_too_many_entries_returns_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "MAX_ENTRIES", 3)
    session = Session(Workspace(memory_backend()))
    for name in ("a.txt", "sub/b.txt", "sub/c.txt", "sub/d.txt"):
        await session.ok("write_file", name, "needle")
    for tool, pattern in (("grep", "needle"), ("glob", "**/*.txt")):
        first, note = (await session.ok(tool, pattern)).splitlines()
        assert first == "a.txt"
        assert note.startswith("[Partial:")
    assert "more than 3 files" in await session.failed("glob", "**/*.md")


@needs_ripgrep
@pytest.mark.anyio
async def test_what_ripgrep_printed_until_the_limit_is_returned(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.txt", "b.txt"):
        (root / name).write_text("needle\n")
    run = ripgrep._run

    async def late(workspace: Any, arguments: list[str], *rest: Any) -> Any:
        if "--count" in arguments:
            raise WorkspaceTimeoutError("late", stdout=f"{root.resolve()}/b.txt\0001\n/half a pa")
        return await run(workspace, arguments, *rest)

    monkeypatch.setattr(ripgrep, "_run", late)
    session = Session(Workspace(local_backend(root)))
    first, note = (await session.ok("grep", "needle", output_mode="content")).splitlines()
    assert first == "b.txt:1: needle"
    assert note.startswith("[Partial:")


@pytest.mark.anyio
async def test_of_a_binary_file_only_the_head_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "big").write_bytes(b"\0needle\n" * 1_000_000)
    session = Session(Workspace(local_backend(root)), ripgrep=False)
    lengths: list[int] = []
    backend: Any = session.workspace.backend
    read_range = backend.read_range

    async def counted(path: str, start: int, length: int) -> bytes:
        data = await read_range(path, start, length)
        lengths.append(len(data))
        return data

    monkeypatch.setattr(backend, "read_range", counted)
    assert (await session.ok("grep", "needle")).startswith("No matches")
    assert sum(lengths) == search.HEAD


# -- the rules ---------------------------------------------------------------------------------------------------------

# git reads `a**/b` in a way of its own, against its documentation: two stars are a name here, or apart.
PART = st.lists(
    st.sampled_from([
        "a", "b", "ab", "*", "?", "[ab]", "[!a]", "[a-b]", "[]a]", "[", "\\a", "\\", "!", "#", " ", ".",
        "[[:alpha:]]", "[^b-a]",
    ]),
    min_size=1,
    max_size=4,
).map("".join).filter(lambda name: "**" not in name)  # fmt: skip
RULE = st.tuples(
    st.sampled_from(["", "", "!", "/"]),
    st.lists(st.one_of(PART, PART, st.just("**")), min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "", "/", "/**", "  ", "\\ ", "\r"]),
).map("".join)
PATHS = [
    "a", "b", "ab", "aab", "a b", "!a", "#a", ".a", "[a", "a ", "c/a", "c/b", "c/ab", "a/b", "a/b/a",
    "ab/a/b", "b/ab", "b/a/ab", "c/[b",
]  # fmt: skip


def _by_us(rules: Rules, paths: list[str]) -> set[str]:
    """The files that are ignored, because of themselves or of a folder above."""
    ignored: set[str] = set()
    for path in paths:
        names = path.split("/")
        for depth in range(1, len(names) + 1):
            part = "/".join(names[:depth])
            if rules.decide(part, names[depth - 1], is_dir=depth < len(names)):
                ignored.add(path)
                break
    return ignored


@pytest.fixture(scope="module")
def repository() -> Any:
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["git", "init", "-q", directory], check=True)
        yield Path(directory)


def _by_git(repository: Path, text: str, paths: list[str]) -> set[str]:
    (repository / ".gitignore").write_bytes(text.encode())
    files = [path for path in paths if not any(other.startswith(f"{path}/") for other in paths)]
    for path in files:
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).touch()
    done = subprocess.run(
        [
            "git",
            "-C",
            str(repository),
            "-c",
            "core.excludesFile=/dev/null",
            "check-ignore",
            "--no-index",
            "--stdin",
            "-z",
        ],
        input="\0".join(files).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return {*done.stdout.decode().split("\0")} - {""}


FILES = [path for path in PATHS if not any(other.startswith(f"{path}/") for other in PATHS)]


@pytest.mark.slow
@pytest.mark.needs("git")
@pytest.mark.hypothesis
@given(st.lists(RULE, min_size=1, max_size=4))
@example(["*", "!*/", "!*a"])
@example(["a/**", "!a/b"])
@example(["**/b", "c/**/b", "/**/ab"])
@example(["b/*", "!b/a", "b/a/*", "!b/a/ab"])
@example(["[]a]", "[!]b]"])
@example(["[/[ab]"])
@example(["[^b-a]"])
@settings(max_examples=examples(60), deadline=None)
def test_the_rules_are_git_s(repository: Path, rules: list[str]) -> None:
    text = "\n".join(rules)
    assert _by_us(Rules(text), FILES) == _by_git(repository, text, FILES), rules


@pytest.mark.parametrize("rule", ["*a" * 200 + "b", "**/*a*a/" * 40 + "b", "**/" + "?*" * 300 + "b"])
def test_a_hostile_rule_costs_no_more_than_its_length_times_the_path(rule: str) -> None:
    script = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from deep_filesystem.gitignore import Rules
rules = Rules(sys.argv[1])
for path in ("a" * 4000, "/".join(["a" * 99] * 40), "/".join("a" * 2000)):
    assert not rules.decide(path, path.rpartition("/")[2], is_dir=False)
"""
    another_process.run(script, rule).check_returncode()


@pytest.mark.anyio
async def test_a_huge_file_of_rules_is_not_read(root: Path) -> None:
    (root / ".gitignore").write_bytes(b"*.txt\n" + b"#" * gitignore.MAX_BYTES)
    (root / "a.txt").write_text("needle")
    assert await Session(Workspace(local_backend(root))).ok("grep", "needle") == "a.txt"


@pytest.mark.anyio
@pytest.mark.parametrize("with_ripgrep", ENGINES)
async def test_a_byte_order_mark_hides_no_rule(project: Path, with_ripgrep: bool) -> None:
    for rules in (".gitignore", ".git/info/exclude"):
        (project / rules).write_text("\ufeff" + PROJECT[rules], encoding="utf-8")
    session = Session(Workspace(local_backend(project)), ripgrep=with_ripgrep)
    *found, _ = (await session.ok("grep", "needle")).splitlines()
    assert found == ["keep.log", "src/env/x.py", "src/main.py", "vendor/x.log"]
