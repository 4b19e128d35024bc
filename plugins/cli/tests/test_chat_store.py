"""The files of chats: complete or absent, private, and never lost."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from deep_cli.chat_store import ChatStore, StoredChat
from deep_cli.failure import Failure
from pydantic_ai import DeferredToolRequests
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.usage import RunUsage


@pytest.fixture
def store(tmp_path: Path) -> ChatStore:
    return ChatStore(tmp_path / "chats")


def begun(store: ChatStore, folder: str = "/a/project") -> StoredChat:
    chat = store.new(folder, "openai:x", "local")
    chat.messages = [
        ModelRequest([UserPromptPart("run it \U0001f600")]),
        ModelResponse([TextPart("sure"), ToolCallPart("execute", {"command": "ls"}, tool_call_id="c1")]),
    ]
    chat.pending = DeferredToolRequests(
        approvals=[ToolCallPart("execute", {"command": "ls"}, tool_call_id="c1")],
        metadata={"c1": {"plugin": "filesystem"}},
    )
    chat.usage = RunUsage(requests=2, input_tokens=3)
    chat.deps = '{"format": 1}'
    return chat


def file_of(store: ChatStore, chat: StoredChat) -> Path:
    return store.project(chat.folder) / f"{chat.id}.json"


def test_what_is_stored_comes_back_whole(store: ChatStore, tmp_path: Path) -> None:
    chat = store.save(begun(store))
    again = ChatStore(tmp_path / "chats").load(chat.id, chat.folder)
    assert again == chat


def test_file_and_folder_are_the_users_alone_whatever_the_umask(store: ChatStore) -> None:
    before = os.umask(0)
    try:
        chat = store.save(begun(store))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file_of(store, chat).stat().st_mode) == 0o600
    assert stat.S_IMODE(file_of(store, chat).parent.stat().st_mode) == 0o700
    assert list(file_of(store, chat).parent.iterdir()) == [file_of(store, chat)]


def test_the_newest_is_that_of_the_folder(store: ChatStore) -> None:
    first, second = store.save(begun(store)), store.save(begun(store))
    store.save(begun(store, "/another/project"))
    for chat, when in ((first, 2_000_000_000), (second, 1_000_000_000)):
        os.utime(file_of(store, chat), (when, when))
    assert store.newest("/a/project").id == first.id


def test_a_folder_whose_name_is_no_text_has_chats_too(store: ChatStore) -> None:
    folder = "/a/gr\udcfc\udcdfe"  # as Python reads a name in Latin-1
    chat = store.save(begun(store, folder))
    assert store.load(chat.id, folder).folder == store.newest(folder).folder == folder
    with pytest.raises(Failure, match="it began in /a/gr"):
        store.load(chat.id, "/a/other")


def test_folders_of_one_name_are_kept_apart(store: ChatStore) -> None:
    store.save(begun(store, "/a/project"))
    with pytest.raises(Failure, match="no chat of /b/project"):
        store.newest("/b/project")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[: len(text) // 2], "cannot be read"),
        (lambda text: "", "cannot be read"),
        (lambda text: "[]", "cannot be read"),
        (lambda text: text.replace('"kind":"response"', '"kind":"nosuch"'), "cannot be read"),
        (lambda text: text.replace('"format":1', '"format":2', 1), "written by a later deep-cli"),
    ],
)
def test_a_damaged_or_newer_file_is_one_error_and_stays_as_it_is(store: ChatStore, change: object, said: str) -> None:
    chat = store.save(begun(store))
    path = file_of(store, chat)
    assert callable(change)
    path.write_text(change(path.read_text("utf-8")), encoding="utf-8")
    before = path.read_bytes()
    for resume in (lambda: store.load(chat.id, chat.folder), lambda: store.newest(chat.folder)):
        with pytest.raises(Failure, match=said) as caught:
            resume()
        assert str(path) in caught.value.message
        assert "\n" not in caught.value.message
    assert path.read_bytes() == before


def test_a_write_that_fails_leaves_what_was_stored(store: ChatStore, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = store.save(begun(store))
    before = file_of(store, chat).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    chat.messages = []
    with pytest.raises(OSError, match="No space left"):
        store.save(chat)
    assert file_of(store, chat).read_bytes() == before


def test_what_another_process_has_stored_since_is_not_overwritten(store: ChatStore, tmp_path: Path) -> None:
    mine = store.save(begun(store))
    other = ChatStore(tmp_path / "chats")
    theirs = other.load(mine.id, mine.folder)
    theirs.messages = theirs.messages[:1]
    assert other.save(theirs).id == mine.id
    saved = store.save(mine)
    assert saved.id != mine.id
    assert len(other.load(mine.id, mine.folder).messages) == 1
    assert len(other.load(saved.id, mine.folder).messages) == 2
    assert store.save(saved).id == saved.id


def test_the_file_says_its_format(store: ChatStore) -> None:
    chat = store.save(begun(store))
    data = json.loads(file_of(store, chat).read_text("utf-8"))
    assert (data["format"], data["id"], data["folder"], data["model"]) == (1, chat.id, "/a/project", "openai:x")
