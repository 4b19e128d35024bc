"""Searches leave out what git ignores, say so, and agree with git and with each other."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from deep_backends import local_backend, memory_backend
from deep_filesystem import gitignore, search, walk
from deep_filesystem.gitignore import Rules
from deep_filesystem.quoting import unescape
from deep_filesystem.ripgrep import beside, process
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_ai.workspaces import Workspace

from plugins.filesystem.tests.conftest import Session
from tests import another_process
from tests.drawn import examples, many

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
    assert await session.ok("grep", "needle") == "a.txt\n[Not searched: 1 link]"


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
    assert "1 folder that git ignores" in await session.ok("grep", "absent")


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
    match_file = search.match_file
    searched: list[str] = []

    async def one_and_never_another(workspace: Any, request: Any, matching: Any, file: Any) -> Any:
        if searched:
            await anyio.sleep_forever()
        searched.append(file.path)
        return await match_file(workspace, request, matching, file)

    monkeypatch.setattr(search, "match_file", one_and_never_another)
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
    monkeypatch.setattr(beside, "FEW_FILES", 0)

    def late(started: Any, answer: Any, limit: Any) -> bool:
        answer.take(b"./b.txt\x001\n./half a pa")
        return True

    monkeypatch.setattr(process.Started, "read", late)
    session = Session(Workspace(local_backend(root)))
    first, note = (await session.ok("grep", "needle", output_mode="content")).splitlines()
    assert first == "b.txt:1: needle"
    assert note.startswith("[Partial:")


@pytest.mark.anyio
async def test_of_a_binary_file_only_the_head_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "big").write_bytes(b"\0needle\n" * 1_000_000)
    session = Session(Workspace(local_backend(root)), ripgrep=False)
    lengths: list[int] = []
    read = os.read

    def counted(descriptor: int, length: int) -> bytes:
        data = read(descriptor, length)
        lengths.append(len(data))
        return data

    monkeypatch.setattr(search.os, "read", counted)
    assert (await session.ok("grep", "needle")).splitlines()[1] == "[Not searched: 1 binary file]"
    assert sum(lengths) == search.HEAD


# -- the rules ---------------------------------------------------------------------------------------------------------

# git reads `a**/b` in a way of its own, against its documentation: two stars are a name here, or apart.
PIECES = [
    "a", "b", "ab", "*", "?", "[ab]", "[!a]", "[a-b]", "[]a]", "[", "\\a", "\\", "!", "#", " ", ".",
    "[[:alpha:]]", "[^b-a]",
]  # fmt: skip
PART = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join).filter(lambda name: "**" not in name)
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
@example(["[ab]b\\/**"])
@example(["a\\/b", "**\\/ab", "\\/c/a", "c\\/"])
@example(["*b\0/c", "!ab \0"])
@settings(max_examples=examples(60), deadline=None)
def test_the_rules_are_git_s(repository: Path, rules: list[str]) -> None:
    text = "\n".join(rules)
    assert _by_us(Rules(text), FILES) == _by_git(repository, text, FILES), rules


NAMES = ["a", "b", "ab", "a b", "!a", "#a", ".a", "[a", "a ", "aab"]
TREE = st.dictionaries(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join),
    st.lists(RULE, max_size=3),
    min_size=1,
    max_size=9,
)


def _plant(top: Path, tree: dict[str, list[str]]) -> None:
    """Make a file of each path, and beside some of them a file of rules."""
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    for path, rules in tree.items():
        try:
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_text("needle\n")
            if rules:
                (top / path).with_name(".gitignore").write_text("\n".join(rules))
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue  # one path is a folder of another


def _names(answer: str) -> set[str]:
    return {unescape(line) for line in answer.splitlines() if not line.startswith(("[Not ", "No "))}


@pytest.mark.slow
@needs_ripgrep
@pytest.mark.needs("git")
@pytest.mark.hypothesis
@given(TREE, st.sampled_from([beside.FEW_FILES, 0]))
@example({"a/a ": ["a", "**"], "b": []}, 0)
@example({"b": ["a/", "ab/"], "b/a/a": [], "ab/b": ["!a/"], "a b/.a": ["!a/"], "a b/a/b": []}, 0)
@example({"a": ["/a/", "b/ab/"], "b/ab": []}, 1_000)
@example({"a": ["**/**/", "/**/"]}, 1_000)
@settings(max_examples=examples(500), deadline=None)
def test_a_walk_finds_what_git_lists(tree: dict[str, list[str]], few: int) -> None:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(beside, "FEW_FILES", few)
        top = Path(directory).resolve()
        _plant(top, tree)
        command = ["git", "-C", directory, "-c", "core.excludesFile=/dev/null", "ls-files", "-oz", "--exclude-standard"]
        listed = subprocess.run(command, check=True, capture_output=True).stdout.decode()
        of_git = {name for name in listed.split("\0") if name}
        rules = {name for name in of_git if name.endswith(".gitignore")}
        limits = {"list_limit": 1_000, "grep_limit": 1_000}

        async def answers() -> list[set[str]]:
            engines = [Session(Workspace(local_backend(top)), ripgrep=used, **limits) for used in (True, False)]
            found = [_names(await each.ok("grep", "^needle")) for each in engines]
            return [*found, _names(await engines[0].ok("glob", "**/*"))]

        by_ripgrep, by_python, by_glob = anyio.run(answers)
        assert by_ripgrep == by_python == of_git - rules, tree
        assert by_glob == of_git, tree


def _draw_part(draw: random.Random) -> str:
    while True:
        part = "".join(draw.choices(PIECES, k=draw.randrange(1, 5)))
        if "**" not in part:
            return part


def _draw_rule(draw: random.Random) -> str:
    names = [draw.choice(["**", _draw_part(draw), _draw_part(draw)]) for _ in range(draw.randrange(1, 4))]
    return draw.choice(["", "", "!", "/"]) + "/".join(names) + draw.choice(["", "", "/", "/**", "  ", "\\ ", "\r"])


def _plant_forest(top: Path, draw: random.Random, trees: int) -> None:
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    (top / ".gitignore").write_text("\n".join(_draw_rule(draw) for _ in range(draw.choice([0, 0, 1]))))
    for tree in range(trees):
        for _ in range(draw.randrange(1, 10)):
            file = top / f"t{tree}" / "/".join(draw.choices(NAMES, k=draw.randrange(1, 5)))
            with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text("needle\n")
                rules = [_draw_rule(draw) for _ in range(draw.randrange(4))]
                file.with_name(".gitignore").write_text("\n".join(rules))


async def compare_forest(top: Path, seed: int, trees: int = 100) -> None:
    """Compare random trees in one repository, which takes a tenth of the time of one in each."""
    _plant_forest(top, random.Random(seed), trees)
    command = ["git", "-C", str(top), "-c", "core.excludesFile=/dev/null", "ls-files", "-oz", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout.decode()
    of_git = {name for name in listed.split("\0") if name}
    limits = {"list_limit": 10_000, "grep_limit": 10_000, "grep_seconds": 600}
    engines = [Session(Workspace(local_backend(top)), ripgrep=used, **limits) for used in (True, False)]
    searched = {name for name in of_git if not name.endswith(".gitignore")}
    for engine in engines:
        assert _names(await engine.ok("grep", "^needle")) ^ searched == set(), seed
    assert _names(await engines[0].ok("glob", "**/*")) ^ of_git == set(), seed
    shutil.rmtree(top)


@pytest.mark.slow
@needs_ripgrep
@pytest.mark.needs("git")
@pytest.mark.anyio
async def test_ten_thousand_random_trees_are_what_git_lists(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At night, and others each night; by day 200."""
    monkeypatch.setattr(beside, "FEW_FILES", 0)
    first = random.randrange(2**32) if many(0, 1) else 43
    for number in range(many(2, 100)):
        await compare_forest(root / f"forest{number}", first + number)


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
