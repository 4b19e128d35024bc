"""Patterns mean the same on every backend."""

from __future__ import annotations

import pytest
from deep_filesystem.globs import BadGlob, Glob, basename_or_path


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
    ],
)
def test_a_pattern_matches(pattern: str, matching: list[str], other: list[str]) -> None:
    glob = Glob(pattern)
    assert [path for path in matching + other if glob.matches(path)] == matching


@pytest.mark.parametrize("pattern", ["{a,b", "[a", "[z-a]", "{a,b}" * 9])
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
