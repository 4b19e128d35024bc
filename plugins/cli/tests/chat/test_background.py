"""Background commands in a chat: listed, kept, stopped, and ended with it, however it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from deep_backends import attended
from deep_backends.attended import Folder

from plugins.cli.tests.chat_terminal import CTRL_D, Terminal
from tests.environments import REPOSITORY

CHAT = ("chat", "--model", "serve:one", "-p", "serve.py")
PLUGIN = """
from deep_core import hookimpl
from tests.dev_server import dev_server_model

@hookimpl
def deep_resolve_model(model_id):
    return dev_server_model() if model_id.startswith("serve:") else None
"""
LIMIT = 60
"""Seconds after which a test fails that would hang; none waits for it."""


@pytest.fixture
def deep(make_deep: Callable[..., Any]) -> Any:
    deep = make_deep("backends", "filesystem")
    (deep.work / "serve.py").write_text(PLUGIN)
    (deep.work / "notes.txt").write_text("red\n")
    return deep


def started(deep: Any, monkeypatch: pytest.MonkeyPatch) -> list[Folder]:
    """The commands of the chat's user."""
    monkeypatch.setenv("XDG_DATA_HOME", str(deep.environment.home / ".local/share"))
    return [*attended.folders()]


def ends(folder: Folder) -> str:
    """Wait for a command's end; return why it ended."""
    late, about = time.monotonic() + LIMIT, folder.about()
    assert about is not None
    while (ended := folder.ended(about)) is None or attended.is_alive(about.attendant):
        assert time.monotonic() < late, "it does not end"
        time.sleep(0.02)
    return ended.reason


def serve(terminal: Terminal) -> None:
    terminal.say("serve")
    terminal.answer("y")
    terminal.answer("y")
    terminal.expect("GET /notes.txt")


@pytest.mark.slow
def test_a_server_is_started_asked_searched_listed_and_stopped(deep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(deep, *CHAT, env={"PYTHONPATH": str(REPOSITORY)}) as terminal:
        serve(terminal)
        terminal.say("/commands")
        terminal.expect("c1 running exec")
        terminal.say("/commands stop c1")
        terminal.expect("c1 was stopped")
        (first,) = started(deep, monkeypatch)
        assert ends(first) == "stopped"
        terminal.say("/commands stop c9")
        terminal.expect("no background command c9")
        terminal.say("/commands now")
        terminal.expect("/commands stop NAME")
        terminal.say("serve")
        terminal.answer("y")
        terminal.answer("y")
        terminal.say("/new")  # the session ends
        terminal.say("/commands")
        terminal.expect("no background commands")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert [ends(each) for each in started(deep, monkeypatch)] == ["stopped", "stopped"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["leave", "kill"])
def test_the_end_of_a_chat_ends_all_but_what_is_kept(deep: Any, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    with Terminal(deep, *CHAT, env={"PYTHONPATH": str(REPOSITORY)}) as terminal:
        serve(terminal)
        terminal.say("serve")
        terminal.answer("y")
        terminal.answer("y")
        terminal.expect("GET /notes.txt")
        terminal.say("/commands keep c2")
        terminal.expect("c2 goes on when this conversation ends")
        terminal.prompt()
        if way == "leave":
            terminal.type(CTRL_D)
            assert terminal.end() == 0
        else:
            terminal.kill()
    first, second = started(deep, monkeypatch)
    assert ends(first) == ("stopped" if way == "leave" else "owner")
    with Terminal(deep, *CHAT, env={"PYTHONPATH": str(REPOSITORY)}) as terminal:
        terminal.say("/commands")
        shown = terminal.expect(" running, kept")
        terminal.say(f"/commands stop {shown.split()[-3]}")
        terminal.expect("was stopped")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert ends(second) == "stopped"
