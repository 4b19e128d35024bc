"""The files of a memory: what is written, what survives other processes, and what is read of files that people edit."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from deep_memories.errors import MemoryRefused
from deep_memories.store import MOST_BYTES, Store
from deep_memories.topic import NAME_CHARS, Topic, as_note, one_line, topic_key
from hypothesis import given
from hypothesis import strategies as st

from tests import another_process
from tests.drawn import many


def written(store: Store, name: str) -> str:
    return (store.folder / name).read_text(encoding="utf-8")


# -- what is written ---------------------------------------------------------------------------------------------------


def test_a_topic_is_a_markdown_file(store: Store) -> None:
    assert store.remember("Build & tests", "Run `make test`.") == "build-tests"
    store.remember("build tests", "It takes\n\n3 minutes.")
    assert written(store, "build-tests.md") == "# Build & tests\n\n- Run `make test`.\n- It takes\n  3 minutes.\n"
    assert [topic.notes for topic in store.topics()] == [["Run `make test`.", "It takes 3 minutes."]]


def test_the_same_note_is_kept_once(store: Store) -> None:
    for note in ("Use tabs.", " Use   tabs. ", "- x", "# y", "- x", "# y"):
        store.remember("style", note)
    assert store.topics()[0].notes == ["Use tabs.", "- x", "# y"]


def test_only_the_user_reads_the_files(store: Store) -> None:
    store.remember("style", "Use tabs.")
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((store.folder / "style.md").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["../../etc/passwd", "/abs/olute", "a/b", "..", ".lock", "con", "x\0y", "ÄÖ", "日本"])
def test_no_name_leads_out_of_the_folder(store: Store, name: str) -> None:
    try:
        store.remember(name, "x y z")
    except MemoryRefused:
        assert topic_key(name) == ""
        return
    (path,) = store.folder.glob("*.md")
    assert path.stem == topic_key(name)
    assert store.find(name) is not None


@given(st.text(max_size=300))
def test_a_topics_key_is_a_plain_name_and_its_own_key(name: str) -> None:
    key = topic_key(name)
    assert len(key) <= NAME_CHARS + len("topic-")
    assert len(f"{key}.md".encode()) <= 255
    assert all(char.isalnum() or char == "-" for char in key)
    assert topic_key(key) == key


@given(st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=8))
def test_what_is_noted_is_read_again(notes: list[str]) -> None:
    text = "# t\n\n" + "".join(as_note(note) for note in notes if one_line(note))
    assert Topic("t", text).notes == [one_line(note) for note in notes if one_line(note)]


def test_limits_are_said_and_nothing_is_written(tmp_path: Path) -> None:
    store = Store(tmp_path, note_chars=60, max_topics=1, topic_chars=100)
    for topic, note, said in (("a", "x" * 61, "at most 60"), ("!?", "x", "needs a name"), ("a", " \n", "is empty")):
        with pytest.raises(MemoryRefused, match=said):
            store.remember(topic, note)
    assert store.topics() == []
    store.remember("a", "words " * 9)
    with pytest.raises(MemoryRefused, match="1 topics already"):
        store.remember("b", "x")
    with pytest.raises(MemoryRefused, match="a is full"):
        store.remember("a", "other " * 9)


# -- forgetting --------------------------------------------------------------------------------------------------------


def test_one_note_goes_and_the_rest_of_the_file_stays(store: Store) -> None:
    text = "# Style\n\nBy hand.\n\n* Use tabs.\n  Really.\n1. A number\n- Use British spelling.\n"
    store.folder.mkdir()
    (store.folder / "style.md").write_text(text)
    assert "Use tabs" in store.forget("STYLE", "use tabs. really")
    assert written(store, "style.md") == text.replace("* Use tabs.\n  Really.\n", "")


def test_a_note_that_is_not_there_or_not_the_only_one_is_refused(store: Store) -> None:
    store.remember("style", "Use tabs.")
    store.remember("style", "Use tabs in Makefiles.")
    with pytest.raises(MemoryRefused, match="2 notes have this text"):
        store.forget("style", "use tab")
    with pytest.raises(MemoryRefused, match="no note has this text"):
        store.forget("style", "blanks")
    with pytest.raises(MemoryRefused, match="no topic 'build'"):
        store.forget("build")
    store.forget("style", "Use tabs.")  # the exact one
    assert store.topics()[0].notes == ["Use tabs in Makefiles."]
    store.forget("style", "use tabs in makefiles.")
    assert store.topics() == []
    assert list(store.folder.glob("*.md")) == []


def test_a_topic_goes_as_a_whole(store: Store) -> None:
    store.remember("style", "Use tabs.")
    store.forget("Style")
    assert store.topics() == []


# -- files that people edit, or that are damaged -----------------------------------------------------------------------


def test_what_people_write_is_read(store: Store) -> None:
    store.folder.mkdir()
    (store.folder / "My Notes.md").write_text("Just a line.\nAnother.", encoding="utf-8")
    (store.folder / "windows.md").write_bytes(b"\xef\xbb\xbf# Windows\r\n\r\n- one\r\n- two")
    (store.folder / "empty.md").write_text("")
    (store.folder / "notes.txt").write_text("not Markdown")
    assert {topic.name: topic.notes for topic in store.topics()} == {
        "My Notes": ["Just a line.", "Another."],
        "empty": [],
        "windows": ["one", "two"],
    }
    assert store.remember("my-notes", "A third.") == "My Notes"
    assert written(store, "My Notes.md") == "Just a line.\nAnother.\n- A third.\n"
    store.remember("windows", "three")
    assert store.find("windows") is not None
    assert [topic.notes for topic in store.topics() if topic.name == "windows"] == [["one", "two", "three"]]


def test_damaged_bytes_stay_as_they_are(store: Store) -> None:
    store.folder.mkdir()
    path = store.folder / "old.md"
    path.write_bytes(b"- caf\xe9 \xff\n- good\n- bad\n")
    assert store.topics()[0].notes == ["caf", "good", "bad"]
    store.forget("old", "bad")
    store.remember("old", "new")
    assert path.read_bytes() == b"- caf\xe9 \xff\n- good\n- new\n"


def test_what_is_no_file_is_left_out(store: Store, tmp_path: Path) -> None:
    store.remember("style", "Use tabs.")
    (store.folder / "folder.md").mkdir()
    (store.folder / "nowhere.md").symlink_to(tmp_path / "missing")
    if hasattr(os, "mkfifo"):
        os.mkfifo(store.folder / "pipe.md")
    assert [topic.name for topic in store.topics()] == ["style"]
    with pytest.raises(MemoryRefused, match=r"folder\.md of this topic cannot be read"):
        store.remember("folder", "x")


@pytest.mark.slow
def test_a_huge_file_is_read_in_part_and_not_rewritten(store: Store) -> None:
    store.folder.mkdir()
    path = store.folder / "log.md"
    path.write_text("- line\n" * (MOST_BYTES // 7 + 100))
    size = path.stat().st_size
    (topic,) = store.topics()
    assert len(topic.text) == MOST_BYTES
    with pytest.raises(MemoryRefused, match="cannot be read whole"):
        store.forget("log", "line")
    with pytest.raises(MemoryRefused, match="is full"):
        store.remember("log", "x")
    assert path.stat().st_size == size


def test_a_folder_that_is_not_there_is_no_memory(store: Store) -> None:
    assert store.topics() == []
    assert not store.folder.exists(), "to read creates nothing"


# -- other processes ---------------------------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from deep_memories.store import Store
folder, who, count = sys.argv[1:]
store = Store(Path(folder), note_chars=1000, max_topics=50, topic_chars=200_000)
for n in range(int(count)):
    store.remember("shared", f"{who} says {n}")
    store.remember(f"own {who}", f"note {n}")
    if n % 3 == 2:
        store.forget("shared", f"{who} says {n}")
"""


def test_processes_that_write_at_once_lose_nothing(store: Store) -> None:
    count = many(15, 60)
    writers = [another_process.start("-c", WRITER, store.folder, who, str(count)) for who in ("ann", "bob", "cy")]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    found = {topic.name: topic.notes for topic in store.topics()}
    wanted = {f"{who} says {n}" for who in ("ann", "bob", "cy") for n in range(count) if n % 3 != 2}
    assert sorted(found["shared"]) == sorted(wanted)
    assert all(len(found[f"own-{who}"]) == count for who in ("ann", "bob", "cy"))
    assert [path.name for path in store.folder.iterdir() if path.name.startswith(".writing")] == []


def test_a_lock_that_another_holds_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_memories import store as module
    from filelock import FileLock

    monkeypatch.setattr(module, "LOCK_SECONDS", 0.05)
    store.folder.mkdir()
    with FileLock(store.folder / ".lock"), pytest.raises(MemoryRefused, match="another process"):
        store.remember("style", "Use tabs.")
