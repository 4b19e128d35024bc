"""grep says the same with ripgrep and without: patterns, encodings, binary files, links, skipped directories, order."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from deep_backends import LocalBackend, local_backend, memory_backend
from deep_filesystem import ripgrep, search
from deep_filesystem.dialect import NOT_UTF8, BadPattern, read_pattern
from deep_filesystem.linematch import text_of
from deep_filesystem.ripgrep import beside, engine, here, recoded
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.workspaces import LocalWorkspaceBackend, Workspace, WorkspaceRef

from plugins.filesystem.tests.conftest import Session
from tests.drawn import examples, many, sample

needs_ripgrep = pytest.mark.needs("ripgrep")
MODES = ["content", "files_with_matches", "count"]
FILES: dict[str, bytes] = {
    "a.py": b"def foo():\n    return 1\n\ndef bar(): pass",
    "crlf.txt": b"one\r\ntwo foo\r\nthree\r\n",
    "bom.txt": b"\xef\xbb\xbffoo first\nsecond foo\n",
    "utf16.txt": "foo wide\nzwei größe\n".encode("utf-16"),
    "utf16be.txt": b"\xfe\xff" + "foo wide\r\n".encode("utf-16-be"),
    "utf16_no_bom.txt": "foo\n".encode("utf-16-le"),
    "latin.txt": b"caf\xe9 foo\nfoo\xe9bar\nfoo bar\n",
    "utf8.txt": "café größe foo_bar\nſtraße K\n²³ x\n".encode(),
    "binary": b"foo\n" * 30_000 + b"\0foo\n",
    "nul": b"\0",
    "empty": b"",
    "newlines": b"\n\nfoo\n\n",
    "no_end": b"x\nfoo",
    "equal.txt": b"a => foo\na > foo\n==foo\n=foo\n",
    "cr.txt": b"foo\rbar\rbaz\nfoo\r\r\n",
    "tabs.txt": b"\tfoo\n \t foo \n\v\x0cfoo\x1cfoo\n",
    "long.txt": b"foo" + b"x" * 3997 + b"\nfoo" + b"x" * 3998 + b"\nfoo\n",
    "many.txt": b"".join(b"foo %d\n" % number for number in range(120)),
    ".hidden/deep/.rc": b"foo=1\n",
    ".gitignore": b"ignored.txt\n*.log\n",
    "ignored.txt": b"foo ignored\n",
    "x.log": b"foo log\n",
    ".git/config": b"foo\n",
    "sub/node_modules/p/index.js": b"foo\n",
    "sub/.venv/lib.py": b"foo\n",
    "sub/__pycache__/a.pyc": b"foo\n",
    "sub/-dash": b"foo\n",
    "sub/=equal": b"foo\n",
    "sub/we ird[1].txt": b"foo\n",
    "sub/new\nline.txt": b"foo\nbar\n",
    "sub/ignore/.ignore": b"*\n",
    "sub/ignore/kept.txt": b"foo\n",
    "sub/.rgignore": b"*\n",
}


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as outside, tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        for name, data in FILES.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (Path(outside) / "secret.txt").write_bytes(b"foo secret\n")
        (root / "to_file").symlink_to("a.py")
        (root / "to_dir").symlink_to("sub")
        (root / "sub/loop").symlink_to("..")
        (root / "to_outside").symlink_to(outside)
        (root / "secret").symlink_to(f"{outside}/secret.txt")
        (root / "dangling").symlink_to("nowhere")
        os.mkfifo(root / "fifo")
        (root.joinpath(os.fsdecode(b"bad\xff.txt"))).write_bytes(b"foo\n")
        yield root


async def _answer(new_session: Any, root: Path, *, with_ripgrep: bool, **arguments: Any) -> str:
    session = new_session(Workspace(local_backend(root)), ripgrep=with_ripgrep)
    try:
        return await session.ok("grep", **arguments)
    except ToolFailed as error:
        return error.message


def _both(new_session: Any, root: Path, **arguments: Any) -> tuple[str, str]:
    async def run() -> tuple[str, str]:
        return (
            await _answer(new_session, root, with_ripgrep=True, **arguments),
            await _answer(new_session, root, with_ripgrep=False, **arguments),
        )

    return anyio.run(run)


PATTERNS = [
    "foo", "^foo", "foo$", "^$", "o+", r"\bfoo\b", r"^\s+foo", r"\S+e$", r"[^a-z\s]foo", "(?i)FOO", "(?i)STRASSE|k",
    "gr..e", "größe", "[é-ü]", r"\w+_\w+", r"\d+", r"x{3,}", "(foo|bar) ", r"foo.bar", r"foo[^x]bar", r"foo\W",
    "(?<=caf).", r"(o)\1", "^-", "foo\r", r"foo\r", r"\.", "a{", "}", "-->", r"foo\s*$", ".$", ".", r"\t", "[]x]",
    r"\x66oo", "[a&&f]oo", "ſ", "(?i)[F-H]oo", r"[\d_]", r"foo\D", "x*y", r"^.{4,5}$", "(?P<n>foo) bar",
    "=> foo", "==foo", "-foo", "--files",
]  # fmt: skip


@pytest.mark.slow
@needs_ripgrep
@pytest.mark.parametrize("pattern", sample(PATTERNS, *PATTERNS[::4]))
def test_the_answer_is_the_same(tree: Path, new_session: Any, pattern: str) -> None:
    for mode in MODES[: many(1, len(MODES))]:
        with_it, without = _both(new_session, tree, pattern=pattern, output_mode=mode)
        assert with_it == without


@pytest.mark.slow
@needs_ripgrep
@pytest.mark.parametrize(
    "arguments",
    [
        {"glob": "*.txt"},
        {"glob": "*.{py,txt}"},
        {"glob": "sub/*"},
        {"glob": "-dash"},
        {"path": "sub"},
        {"path": "to_dir"},
        {"path": "a.py"},
        {"path": "to_file"},
        {"path": "binary"},
        {"path": "sub/we ird[1].txt"},
        {"path": "sub/-dash"},
        {"path": "sub/=equal"},
        {"path": "sub/new\nline.txt"},
        {"path": "sub/node_modules"},
        {"path": ".git/config"},
        {"path": ".hidden"},
        {"path": "utf16.txt"},
        {"path": "empty"},
        {"ignored": True},
        {"ignored": True, "glob": "*.log"},
    ],
    ids=str,
)
def test_the_answer_is_the_same_wherever_it_looks(tree: Path, new_session: Any, arguments: dict[str, Any]) -> None:
    for mode in MODES:
        with_it, without = _both(new_session, tree, pattern="foo", output_mode=mode, **arguments)
        assert with_it == without


@needs_ripgrep
@pytest.mark.parametrize("few", [beside.FEW_FILES, 0], ids=["a small tree", "a large tree"])
def test_large_files_are_left_out(tmp_path: Path, new_session: Any, monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    monkeypatch.setattr(beside, "FEW_FILES", few)
    for name, size in {"below": 999, "at": 1000, "above": 1001}.items():
        (tmp_path / name).write_bytes(b"foo\n".ljust(size, b"x"))
    (tmp_path / "image").write_bytes(b"\0".ljust(2000, b"x"))

    async def grep(*, with_ripgrep: bool) -> str:
        session = new_session(Workspace(local_backend(tmp_path)), ripgrep=with_ripgrep, grep_bytes=1000)
        return await session.ok("grep", pattern="foo")

    found = anyio.run(lambda: grep(with_ripgrep=True))
    assert found == anyio.run(lambda: grep(with_ripgrep=False))
    assert found.split("\n")[-3:] == ["at", "below", "[Not searched: 1 binary file; 1 too large file]"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More files than are searched without ripgrep: binary ones of many names, rules and ignored folders all over."""
    root = tmp_path_factory.mktemp("large").resolve()
    (root / ".gitignore").write_text("*.log\n!kept.log\n/dist/\n")
    for number in range(200):
        folder = root / f"pkg{number % 4}" / f"sub{number}"
        (folder / "build").mkdir(parents=True)
        files = {f"file{each}.py": b"foo %d\n" % each for each in range(3)}
        files |= {"icon.png": b"\x89PNG\0foo\n", "tool": b"\x7fELF" + b"x" * 9_000 + b"\0foo", "script": b"foo\n"}
        files |= {
            "drop.log": b"foo\n",
            "kept.log": b"foo\n",
            "early": b"foo\n" * 20_000 + b"\0",
            "build/made": b"foo\n\0",
        }
        if number % 7 == 0:
            files |= {".gitignore": b"build/\ngen_*\n", "gen_a.py": b"foo\n", "build/deep/b.py": b"foo\n"}
        for name, data in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
    return root


@pytest.mark.slow
@needs_ripgrep
@pytest.mark.parametrize("patience", [here.PATIENCE, 0.0], ids=["beside the walk", "again behind it"])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"ignored": True}, {"glob": "*.{py,png}"}, {"glob": "pkg1/**"}, {"glob": "pkg*/sub?/*"}, {"path": "pkg2"}],
    ids=str,
)
def test_the_answer_is_the_same_in_a_large_tree(
    large: Path, new_session: Any, monkeypatch: pytest.MonkeyPatch, patience: float, arguments: dict[str, Any]
) -> None:
    monkeypatch.setattr(here, "_patience", lambda began: patience)
    for pattern in ("foo", "foo 2$", "absent", "(?i)elf|png"):
        for mode in MODES:
            with_it, without = _both(new_session, large, pattern=pattern, output_mode=mode, **arguments)
            assert with_it == without


@needs_ripgrep
def test_binary_files_that_were_not_looked_for_are_said(
    tmp_path: Path, new_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "FEW_FILES", 0)
    monkeypatch.setattr(beside, "SNIFFED", 2)
    for number in range(4):
        (tmp_path / f"data{number}").write_bytes(b"\0")
    found = anyio.run(lambda: _answer(new_session, tmp_path, with_ripgrep=True, pattern="foo"))
    assert found.split("\n")[-1] == "[Not searched: 2 or more binary files]"


@pytest.mark.slow
@needs_ripgrep
def test_ripgrep_is_what_answers(tree: Path, new_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*args: object) -> None:
        raise AssertionError("the walk was asked")

    monkeypatch.setattr("deep_filesystem.operations.search_by_walk", never)
    for mode in MODES:
        assert "a.py" in anyio.run(
            lambda mode=mode: _answer(new_session, tree, with_ripgrep=True, pattern=r"def \w+", output_mode=mode)
        )


@pytest.mark.parametrize("with_ripgrep", [pytest.param(True, marks=needs_ripgrep), False])
def test_what_is_found(tree: Path, new_session: Any, with_ripgrep: bool) -> None:
    found = anyio.run(lambda: _answer(new_session, tree, with_ripgrep=with_ripgrep, pattern="foo")).splitlines()
    assert found.pop() == (
        "[Not searched: 1 with a name that is not UTF-8 (bad\\udcff.txt); 2 linked folders; 5 links; 2 binary files; "
        "2 files that git ignores. To include: ignored=true]"
    )
    assert "binary" in found  # its NUL byte comes long after a match, where both have stopped
    assert {"a.py", "crlf.txt", "bom.txt", "utf16.txt", "latin.txt", ".hidden/deep/.rc"} <= {*found}
    assert {"sub/ignore/kept.txt", "sub/-dash", "cr.txt"} <= {*found}
    for absent in (
        "ignored.txt",
        "x.log",
        "utf16_no_bom.txt",
        "to_file",
        "secret",
        ".git/config",
        "sub/.venv/lib.py",
        "fifo",
    ):
        assert absent not in found
    assert not any(name.startswith(("to_dir", "to_outside", "sub/loop", "sub/node_modules")) for name in found)
    assert "sub/new\\x0aline.txt" in found
    assert found == sorted(found)


alphabet = st.sampled_from("abAB_ 1é\r\t²ßſ-")
words = st.text(alphabet, max_size=6)
junk = st.lists(
    st.one_of(words.map(str.encode), st.sampled_from([b"\xff", b"\xe9", b"\n", b"\r\n", b"\xc3", b"\x80"])), max_size=12
).map(b"".join)
atom = st.one_of(
    st.sampled_from(list("abAB_ 1é²ß-")),
    st.sampled_from(
        [".", r"\w", r"\W", r"\d", r"\s", r"\S", "[a-b]", "[^a]", "[^ab\\s]", "[Bé]", r"[\w-]", r"\t", r"\r", r"\-"]
    ),
)
edge = st.sampled_from(["", "", "^", "$", r"\b"])
piece = st.tuples(edge, atom, st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "+?"]), edge).map("".join)
regex = st.tuples(
    st.sampled_from(["", "", "(?i)"]),
    st.lists(
        st.one_of(piece, st.lists(piece, min_size=1, max_size=2).map(lambda parts: f"({'|'.join(parts)})")),
        min_size=1,
        max_size=3,
    ),
).map(lambda parts: parts[0] + "".join(parts[1]))


@pytest.mark.exhaustive
@needs_ripgrep
@given(st.lists(junk, min_size=1, max_size=3), st.lists(regex, min_size=1, max_size=3))
@example([b"foo\xffbar\n"], ["o.b", "o$", "o[^x]b", r"\bbar", "^bar"])
@example([b"a\r\n", b"\r\n", b"a\r"], ["a$", "^$", r"\s$", "a.$"])
@settings(max_examples=examples(60))
def test_the_answer_is_the_same_for_any_content(contents: list[bytes], patterns: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        for number, data in enumerate(contents):
            (root / f"{number}.txt").write_bytes(data)
        for pattern in patterns:
            try:
                read_pattern(pattern)
            except BadPattern:
                continue
            with_it, without = _both(Session, root, pattern=pattern, output_mode="content")
            assert with_it == without, (pattern, contents)


@needs_ripgrep
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_form_for_ripgrep_is_accepted_by_it(tmp_path: Path, pattern: str) -> None:
    form = read_pattern(pattern).ripgrep
    if form is not None:
        done = subprocess.run(
            ["rg", "--no-config", f"--regexp={form}", "--", str(tmp_path)], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (1, "")


def test_patterns_of_one_dialect_only_go_to_python() -> None:
    for pattern in (
        r"(?<=a)b",
        r"(a)\1",
        r"(?P<x>a)",
        r"(?s)a.b",
        r"a\Z",
        r"\Ba",
        "a++",
        r"\u00e9",
        "a{500}",
        "a^b",
        "$a",
        "(^a)*",
        "(a|b$)c",
    ):
        assert read_pattern(pattern).ripgrep is None
    for pattern in (
        "a",
        r"\bfoo\(",
        "(?:a|b)+",
        "[a-z]{2,3}",
        "^(a|b)$",
        "(^a|b$)",
        "(?:^|x)a($|;)",
        r"^\s+a*$",
        "^a{2}",
    ):
        assert read_pattern(pattern).ripgrep is not None


@pytest.mark.parametrize("pattern", ["(", "a**", "[a", "*a", r"\p{L}", "(?i", "a\\", "[z-a]"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern, match="invalid regular expression"):
        read_pattern(pattern)


@pytest.mark.parametrize("pattern", ["[[:alpha:]]+", "x[^[:space:]]", "[[:^digit:]]"])
def test_a_posix_class_is_refused_with_what_to_write(pattern: str) -> None:
    with pytest.raises(BadPattern, match=r"is not supported. Write"):
        read_pattern(pattern)
    assert read_pattern("[:a-z]").ripgrep is not None


@pytest.mark.parametrize("pattern", ["a\nb", r"a\nb"])
def test_a_line_feed_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(BadPattern, match="searches line by line"):
        read_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "simple", "linear"),
    [
        ("foo", True, True),
        (r"def \w+\(", True, False),
        ("a.*b.*c", False, False),
        ("(a+)+$", False, False),
        ("(a|b)*", False, False),
        ("a?" * 9, False, False),
    ],
)
def test_what_may_take_long_is_known(pattern: str, simple: bool, linear: bool) -> None:
    dialect = read_pattern(pattern)
    assert (dialect.simple, dialect.linear) == (simple, linear)


@pytest.mark.parametrize(
    ("pattern", "needle"),
    [
        (r"=>\s*\{$", "=>"),
        (r"\bfoo\(", "foo("),
        ("ab+c", "ab"),
        ("ab*cde?f", "cd"),
        ("ab{0,3}c", "a"),
        ("x{2}yz", "yz"),
        ("(foo)?ba(r|z)", "ba"),
        ("(?i)Foo-é2", "-"),
        ("é+ü", "é"),
        ("abc|d", ""),
        ("(?=abc)", ""),
    ],
)
def test_what_every_match_has_in_it_is_known(pattern: str, needle: str) -> None:
    assert read_pattern(pattern).needle == needle.encode()


class Elsewhere(LocalBackend):
    """A backend like a container's: its programs are not this machine's."""

    @property
    def ref(self) -> WorkspaceRef:
        return WorkspaceRef(provider="elsewhere", id="1")


def test_a_backend_without_ripgrep_is_asked_once(tree: Path, new_session: Any) -> None:
    backend = Elsewhere(tree, env={"PATH": "/nonexistent"})
    session = new_session(Workspace(backend))
    asked: list[object] = []
    run = backend.run

    async def counted(*args: Any, **kwargs: Any) -> Any:
        asked.append(args)
        return await run(*args, **kwargs)

    backend.run = counted

    async def twice() -> list[str]:
        return [await session.ok("grep", "foo"), await session.ok("grep", "foo")]

    first, second = anyio.run(twice)
    assert first == second
    assert "a.py" in first
    assert len(asked) == 1
    assert ripgrep.can_try(session.workspace, _request(tree)) is False


def _request(root: Path) -> Any:
    from deep_filesystem.search import SearchRequest
    from deep_filesystem.walk import LeftOut

    return SearchRequest(
        str(root), False, read_pattern("foo"), None, "", 1000, 0, 50, False, LeftOut(), lambda path: False
    )


@pytest.mark.slow
def test_a_catastrophic_pattern_is_stopped_and_the_loop_stays_alive(new_session: Any) -> None:
    async def run() -> tuple[str, int]:
        backend = memory_backend()
        session = new_session(Workspace(backend), grep_seconds=1.0)
        await session.ok("write_file", "a.txt", "a" * 60 + "b\n")
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await anyio.sleep(0.01)
                beats += 1

        async with anyio.create_task_group() as group:
            group.start_soon(beat)
            message = await session.failed("grep", r"(a+)+$")
            group.cancel_scope.cancel()
        return message, beats

    message, beats = anyio.run(run)
    assert "stopped after 1 s" in message
    assert beats > 5


def test_a_large_file_is_searched_in_pieces(root: Path, new_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_filesystem.search.PIECE", 64)
    lines = [f"line {number} {'é' * (number % 40)}" for number in range(200)]
    (root / "utf8.txt").write_text("\n".join(lines))
    (root / "utf16.txt").write_bytes("\n".join(lines).encode("utf-16"))

    for name in ("utf8.txt", "utf16.txt"):
        found = anyio.run(
            lambda name=name: _answer(
                new_session, root, with_ripgrep=False, pattern="line 1[0-9]7 ", path=name, output_mode="content"
            )
        )
        numbers = [line.split(":")[1] for line in found.splitlines()]
        assert numbers == [str(number + 1) for number in range(107, 200, 10)]


@needs_ripgrep
@pytest.mark.anyio
@pytest.mark.parametrize("path", [".", "", "{root}", "{root}/bin"])
@pytest.mark.parametrize("backend", [local_backend, LocalWorkspaceBackend])
async def test_an_rg_of_the_workspace_never_runs(
    tmp_path: Path, new_session: Any, monkeypatch: pytest.MonkeyPatch, path: str, backend: Any
) -> None:
    root = tmp_path / "work"
    for program in (root / "rg", root / "bin" / "rg"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        program.chmod(0o755)
    (root / "a.txt").write_text("needle\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", os.pathsep.join([path.format(root=root), os.environ["PATH"]]))
    session = new_session(Workspace(backend(root)))
    assert await session.ok("grep", "^needle") == "a.txt"
    assert not (tmp_path / "ran").exists()


LEGACY = {
    "gbk": "# 测试编码,配置文件\nport=1\n",
    "big5": "# 測試編碼,設定檔案與資料\n",
    "shift_jis": "# テスト用の設定ファイルです。表示\n",
    "euc_kr": "# 설정 파일의 시험 문장입니다\n",
    "cp1251": "# Проверка кодировки, файл настроек\r\nслово\n",
    "koi8-r": "# Проверка кодировки, файл настроек\n",
    "cp1252": "# “Größe” der Prüfung – naïve\n",
    "latin-1": "# café: größe\n",
    "utf-8": "# Проверка: 测试, größe, テスト, 설정\n",
}


@needs_ripgrep
@pytest.mark.parametrize("few", [beside.FEW_FILES, 0], ids=["a small tree", "a large tree"])
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("测试", ["gbk", "utf-8"]),
        ("(?i)ПРОВЕРКА", ["cp1251", "koi8-r", "utf-8"]),
        ("слово$", ["cp1251"]),
        ("[テ설]", ["euc_kr", "shift_jis", "utf-8"]),
        ("größe", ["latin-1", "utf-8"]),
        ("–", ["cp1252"]),
        ("測試編碼|файл настроек", ["big5", "cp1251", "koi8-r"]),
        ("(?<=# )测", ["gbk"]),
        ("ü.*ï", ["cp1252"]),
        ("中", []),
    ],
)
def test_text_is_found_in_the_encoding_of_its_file(
    tmp_path: Path, new_session: Any, monkeypatch: pytest.MonkeyPatch, few: int, pattern: str, found: list[str]
) -> None:
    monkeypatch.setattr(beside, "FEW_FILES", few)
    for module in (search, engine):
        monkeypatch.setattr(module, "PIECE", search.HEAD)
    for name, text in LEGACY.items():
        (tmp_path / f"{name}.txt").write_bytes(text.encode(name))
    (tmp_path / "large.txt").write_bytes(b"x\n" * 70_000 + "# 测试编码,配置文件\n中\n".encode("gbk"))
    (tmp_path / "binary").write_bytes("测试\0".encode("gbk"))
    (tmp_path / ".gitignore").write_text("ignored*\n")
    (tmp_path / "ignored.txt").write_bytes(LEGACY["gbk"].encode("gbk"))
    expected = sorted([*found, *(["large"] if pattern in ("测试", "(?<=# )测", "中") else [])])
    for mode in MODES:
        with_it, without = _both(new_session, tmp_path, pattern=pattern, output_mode=mode)
        assert with_it == without
    lines = with_it.splitlines()
    assert [line.partition(".txt")[0] for line in lines if ".txt" in line] == expected


@needs_ripgrep
@pytest.mark.parametrize("most", [3, 2_000])
def test_of_many_files_only_those_that_are_not_utf_8_are_searched_again(
    tmp_path: Path, new_session: Any, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(beside, "FEW_FILES", 0)
    monkeypatch.setattr(recoded, "MOST", most)
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("größe\n" * number)
    (tmp_path / "old.txt").write_bytes("größe\n".encode("latin-1"))
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0")
    for mode in MODES:
        with_it, without = _both(new_session, tmp_path, pattern="ö", output_mode=mode)
        assert with_it == without
    assert "old.txt" in with_it


@needs_ripgrep
def test_a_line_is_shown_in_the_encoding_of_its_file(tmp_path: Path, new_session: Any) -> None:
    for name, text in LEGACY.items():
        (tmp_path / f"{name}.txt").write_bytes(text.encode(name))
    for answer in _both(new_session, tmp_path, pattern="测|К|ö", output_mode="content"):
        assert answer.splitlines() == [
            "cp1252.txt:1: # “Größe” der Prüfung – naïve",
            "gbk.txt:1: # 测试编码,配置文件",
            "latin-1.txt:1: # café: größe",
            "utf-8.txt:1: # Проверка: 测试, größe, テスト, 설정",
        ]


@settings(max_examples=examples(20))
@needs_ripgrep
@given(st.lists(st.one_of(st.binary(max_size=6), st.text(max_size=3).map(str.encode)), min_size=1, max_size=20))
def test_ripgrep_finds_what_is_not_utf_8(lines: list[bytes]) -> None:
    data = [b"first", *(line.replace(b"\n", b"").replace(b"\0", b"") for line in lines)]
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"\n".join(data) + b"\n")
        file.flush()
        command = ["rg", "--no-config", "--line-number", "--regexp", str(NOT_UTF8.ripgrep), file.name]
        printed = subprocess.run(command, capture_output=True, check=False).stdout
    numbers = [int(line.partition(b":")[0]) - 1 for line in printed.splitlines() if line[:1].isdigit()]
    assert numbers == [number for number, line in enumerate(data) if text_of(line) != line.decode("utf-8", "replace")]
