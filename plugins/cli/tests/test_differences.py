"""The difference of two texts is git's, but for the names of the files and its words on a missing line end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from deep_cli.differences import file_diff, unified_diff

TEXTS = ["", "a\n", "a", "a\nb\nc\n", "a\nb\n\nc", "\n", "\tx\n\ty\n", "a\x0cb\n", "a\n" * 9 + "z\n"]


@pytest.mark.parametrize("before", TEXTS)
def test_the_lines_are_gits(before: str, tmp_path: Path) -> None:
    for after in TEXTS:
        for name, text in (("old", before), ("new", after)):
            (tmp_path / name).write_bytes(text.encode())
        command = ["git", "diff", "--no-index", "--no-color", "--diff-algorithm=minimal", "old", "new"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        theirs = done.stdout.decode().split("\n")
        theirs = theirs[theirs.index(next(line for line in theirs if line[:2] == "@@")) : -1] if before != after else []
        ours = [*unified_diff("a.txt", before, after, "before", "after")]
        assert ours[:2] == (["--- a.txt (before)", "+++ a.txt (after)"] if before != after else [])
        known = [line.replace("\\ No newline at end of file", "\\ no newline at the end") for line in theirs]
        assert sorted(ours[2:]) == sorted(known), (before, after)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, b"", ["--- f (old)", "+++ f (new)", "empty file: no file before, 0 bytes now"]),
        (b"", None, ["--- f (old)", "+++ f (new)", "empty file: 0 bytes before, no file now"]),
        (None, b"\0\1", ["--- f (old)", "+++ f (new)", "binary file: no file before, 2 bytes now"]),
        (b"\0", b"text\n", ["--- f (old)", "+++ f (new)", "binary file: 1 bytes before, 5 bytes now"]),
        (b"a\n", None, ["--- f (old)", "+++ f (new)", "@@ -1 +0,0 @@", "-a"]),
        (b"a\n", b"", ["--- f (old)", "+++ f (new)", "@@ -1 +0,0 @@", "-a"]),
        (b"", b"", []),
        (None, None, []),
    ],
)
def test_every_change_of_a_file_is_said(before: bytes | None, after: bytes | None, said: list[str]) -> None:
    assert [*file_diff("f", before, after, "old", "new")] == said
