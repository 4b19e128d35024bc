"""Changes to files ask where a person can answer, and one key accepts them: for the chat, or for the folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plugins.cli.tests.chat_terminal import CTRL_D, ESC, SHIFT_TAB, Terminal
from tests.stubs import Call, OpenAIStub, Script

MODEL = ("--model", "openai-chat:stub")
READ = Call("read_file", {"path": "a.txt"})


def write(name: str) -> Call:
    """A call that creates a file."""
    return Call("write_file", {"path": name, "content": f"this is {name}\n"})


def leave(chat: Terminal) -> None:
    """Leave from the prompt."""
    chat.prompt()
    chat.type(CTRL_D)
    assert chat.end() == 0


@pytest.mark.slow
def test_an_edit_asks_with_its_diff_and_no_is_no(deep: Any) -> None:
    edit = Call("edit_file", {"path": "a.txt", "old_string": "hello", "new_string": "goodbye"})
    with OpenAIStub(Script(READ, edit, "Then not.")) as stub, Terminal(deep, "chat", *MODEL, env=stub.env) as chat:
        chat.say("Change it.")
        chat.see("    run it?")
        lines = chat.display
        assert "    -hello" in lines
        assert "    +goodbye" in lines
        assert any("edit_file wants to run  [filesystem]  it changes files" in line for line in lines)
        assert not any("read_file wants" in line for line in chat.lines)
        chat.type("n\r")
        chat.expect("Then not.")
        leave(chat)
    assert (deep.work / "a.txt").read_text() == "hello\n"


@pytest.mark.slow
@pytest.mark.parametrize("key", ["e\r", SHIFT_TAB], ids=["e", "Shift-Tab"])
def test_one_key_accepts_this_edit_and_the_next_ones_but_no_command(deep: Any, key: str) -> None:
    command = Call("execute", {"command": "touch c"})
    script = Script(write("b"), write("d"), command, "Not the command.", write("e"), "No.")
    with OpenAIStub(script) as stub, Terminal(deep, "chat", *MODEL, env=stub.env) as chat:
        chat.say("Write them.")
        chat.see("    run it?")
        chat.type(key)
        chat.expect("by mode: accept-edits")
        chat.expect("execute wants to run")
        assert (deep.work / "d").exists()
        chat.see("    run it? yes, no, always (execute, in this chat), or say why not:")
        chat.type("n\r")
        chat.expect("Not the command.")
        chat.see("ready · accept-edits")
        chat.type(SHIFT_TAB)
        chat.see("ready · plan")
        chat.type(SHIFT_TAB)
        chat.see("ready · ask")
        chat.say("Again.")
        chat.see("    run it?")
        chat.type(ESC)
        chat.expect("stopped")
        leave(chat)
    assert not (deep.work / "c").exists()
    assert not (deep.work / "e").exists()


@pytest.mark.slow
def test_the_mode_is_kept_for_the_folder_and_forgotten(deep: Any) -> None:
    with OpenAIStub(Script(*[step for name in "bcde" for step in (write(name), "Done.")])) as stub:
        with Terminal(deep, "chat", *MODEL, env=stub.env) as chat:
            chat.say("Write it.")
            chat.see("    run it?")
            chat.type("ke\r")
            chat.expect("Done.")
            leave(chat)
        with Terminal(deep, "chat", *MODEL, env=stub.env) as chat:
            chat.see("ready · accept-edits")
            chat.say("Write it.")
            chat.expect("Done.")
            chat.say("/rules")
            chat.expect("every chat of this folder begins in mode accept-edits")
            chat.say("/rules forget")
            chat.see("ready · ask")
            chat.say("/mode accept-edits")
            chat.see("ready · accept-edits")
            chat.say("/mode plan")
            chat.say("/mode keep")
            chat.expect("no mode is kept")
            chat.say("/mode edits")
            chat.expect("no mode edits")
            chat.say("/mode accept-edits")
            chat.say("/mode keep")
            chat.expect("chats of this folder begin in mode accept-edits")
            leave(chat)
        done = deep("run", "Write it.", *MODEL, env=stub.env).ok()  # nobody is here: it never asked
        assert "by mode" not in done.err
        with Terminal(deep, "chat", *MODEL, env=stub.env) as chat:
            chat.see("ready · accept-edits")
            leave(chat)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--approve", "allow"), ()], ids=["allow", "option"])
def test_who_allows_edits_is_not_asked(deep: Any, arguments: tuple[str, ...]) -> None:
    if not arguments:
        deep.config("[plugins.filesystem]\noptions.require_write_approval = false\n")
    script = Script(write("b"), "Done.")
    with OpenAIStub(script) as stub, Terminal(deep, "chat", *MODEL, *arguments, env=stub.env) as chat:
        chat.say("Write it.")
        chat.expect("Done.")
        assert not any("approved" in line for line in chat.lines)
        leave(chat)
    assert (deep.work / "b").exists()


@pytest.mark.slow
def test_a_task_on_a_terminal_asks_and_one_without_does_not(make_deep: Callable[..., Any]) -> None:
    deep = make_deep("backends", "filesystem")
    with OpenAIStub(Script(write("b"), write("d"), "Done.", write("c"), "Done.")) as stub:
        asked = deep.typed("run", "Write.", *MODEL, answers=[("or say why not:", "e\n")], env=stub.env).ok()
        assert "+this is b" in asked.out
        deep("run", "Write.", *MODEL, env=stub.env).ok()
    assert {path.name for path in deep.work.iterdir()} >= {"b", "c", "d"}
