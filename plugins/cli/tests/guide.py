"""A chat that does all that docs/terminal.md says: a test compares the two, and the page has pictures of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from deep_demo import copy_sample_project

from plugins.cli.tests.chat_terminal import ALT_ENTER, CTRL_C, CTRL_D, ESC, SHIFT_TAB, UP, Terminal
from tests.stubs import AnthropicStub, Call, RequestView, Script

__all__ = ["KEYS", "Walk", "walk"]

MODEL = "anthropic:claude-sonnet-4-5"
KEYS = {
    "Enter": "\r",
    "Alt-Enter": ALT_ENTER,
    "Esc": ESC,
    "Ctrl-C": CTRL_C,
    "Ctrl-D": CTRL_D,
    "Shift-Tab": SHIFT_TAB,
    "Tab": "\t",
    "arrow up": UP,
    "\\": "\\\r",
}
"""A key as the page names it, and what a terminal sends."""
TESTS = "python3 -m unittest"
FIX = {
    "path": "invoices/money.py",
    "old_string": "    return int(float(text) * 100)",
    "new_string": "    return round_cents(Decimal(text) * 100)",
}
FIXED = "`to_cents` read **19.99** as a float, and `int` cut it to 1998 cents. Now it reads a decimal and rounds. \
All 6 tests pass.\n"


@dataclass
class Walk:
    """What was done.

    Attributes:
        commands: the arguments of each `deep` that was started.
        typed: what was typed in all of them.
    """

    commands: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    typed: list[str] = field(default_factory=list[str])


class Slow:
    """A turn of the model that waits until the user has typed something."""

    def __init__(self, answer: str | Call) -> None:
        self.asked, self.go = threading.Event(), threading.Event()
        self._answer = answer

    def __call__(self, view: RequestView) -> str | Call:
        self.asked.set()
        assert self.go.wait(60)
        return self._answer


def walk(
    deep: Any, size: tuple[int, int], picture: Callable[[str, Terminal], None] = lambda name, terminal: None
) -> Walk:
    """Chat, in a copy of the sample project.

    Args:
        deep: the command, as the fixture makes it.
        size: columns and lines of the terminal.
        picture: is called with the name of a picture when the screen shows it.
    """
    copy_sample_project(deep.work)
    done = Walk()
    tests, changelog, explain = (
        Slow(Call("execute", {"command": TESTS})),
        Slow(Call("read_file", {"path": "CHANGELOG.md"})),
        Slow("x"),
    )
    script = Script(
        Call("execute", {"command": TESTS}),
        Call("read_file", {"path": "invoices/money.py"}),
        Call("edit_file", FIX),
        Call("execute", {"command": TESTS}),
        FIXED,
        changelog,
        "Nothing is missing in the change log.\n",
        "The README is up to date, too.\n",
        tests,
        "As you say: the tests of `money` only.\n",
        explain,
        "Six files, one line each.\n",
        "I am here.\n",
        "It is a list of invoices.\n",
        Call("write_file", {"path": "NOTES.md", "content": "Half a cent goes up.\n"}),
        "Written.\n",
        then="Good.\n",
    )
    with AnthropicStub(script) as stub:

        def start(*arguments: str) -> Terminal:
            done.commands.append(arguments)
            return Terminal(deep, *arguments, env={**stub.env, "DEEP_MODEL": MODEL}, size=size)

        with start() as chat:
            _approve(chat, picture)
            _steer(chat, changelog, picture)
            _stop(chat, tests, explain)
            _modes(chat)
            _type_less(chat)
            _undo(chat, deep)
            _look(chat)
            number = _go_elsewhere(chat)
            done.typed += chat.typed
        for arguments, said in [
            (("chat", "--resume"), "Good."),
            (("chat", "--resume", number), "> Run the tests."),
            (("chat", "--plan"), ""),
            (("chat", "--model", MODEL, "--file", "README.md"), ""),
        ]:
            with start(*arguments) as chat:
                chat.expect(said)
                if arguments == ("chat", "--plan"):
                    chat.say("/clear")
                    chat.say("/exit")
                else:
                    chat.prompt()
                    chat.type(CTRL_D)
                assert chat.end() == 0
                done.typed += chat.typed
    return done


def _approve(chat: Terminal, picture: Callable[[str, Terminal], None]) -> None:
    chat.say("Which test fails, and why? Fix it.")
    chat.see("    run it?")
    picture("approval", chat)
    chat.type("a\r")
    chat.see("    which?")
    chat.type("k1\r")
    chat.expect("edit_file wants to run")
    chat.see("    run it?")
    picture("edit", chat)
    chat.type("y\r")
    chat.expect("19.99 as a float")
    chat.prompt()
    assert any("by you: always" in line for line in chat.lines)  # the second run of the tests did not ask
    picture("answer", chat)
    chat.say("/rules")
    chat.expect("a single command that begins with `python3`")
    chat.say("/rules forget")
    chat.expect("forgotten: every call asks again")


def _steer(chat: Terminal, slow: Slow, picture: Callable[[str, Terminal], None]) -> None:
    chat.say("Is the change log complete?")
    assert slow.asked.wait(60)
    chat.type("And is the README up to date?\r")
    chat.see("  next: And is the README")
    chat.type(f"Only look at this month{ALT_ENTER}")
    chat.expect("steering: Only look at this month")
    chat.see("  next: And is the README")
    picture("steering", chat)
    slow.go.set()
    chat.expect("The README is up to date, too.")


def _stop(chat: Terminal, tests: Slow, explain: Slow) -> None:
    chat.say("Run the tests.")
    tests.go.set()
    chat.see("    run it?")
    chat.type("only those of money\r")
    chat.expect("As you say")
    chat.say("Explain every file.")
    assert explain.asked.wait(60)
    chat.type("never mind")
    chat.see("> never mind")
    chat.type(ESC)
    chat.expect("✗ stopped")
    explain.go.set()
    chat.prompt("never mind")
    chat.type(CTRL_C)
    chat.prompt()
    chat.say("/retry")
    chat.expect("Six files, one line each.")
    chat.say("Are you there?")
    chat.expect("I am here.")


def _modes(chat: Terminal) -> None:
    chat.prompt()
    chat.type(SHIFT_TAB)
    chat.see("ready · accept-edits")
    chat.say("/mode")
    chat.expect("mode plan")
    chat.see("ready · plan")
    chat.say("/plan")
    chat.expect("plan mode is off")
    chat.say("/mode keep")
    chat.expect("chats of this folder begin in mode ask")


def _type_less(chat: Terminal) -> None:
    chat.say("!ls data")
    chat.expect("march.csv")
    chat.prompt()
    chat.type("What is in @data/ma\t")
    chat.see("> What is in @data/march.csv")
    chat.type("?\\\r")
    chat.type("One line.\r")
    chat.expect("attached data/march.csv")
    chat.expect("It is a list of invoices.")
    chat.prompt()
    chat.type(UP)
    chat.see("  One line.")
    chat.type(CTRL_C)
    chat.prompt()


def _undo(chat: Terminal, deep: Any) -> None:
    chat.say("Write down how we round.")
    chat.see("    run it?")
    chat.type("e\r")
    chat.expect("Written.")
    assert (deep.work / "NOTES.md").exists()
    chat.say("/diff")
    chat.expect("+Half a cent goes up.")
    chat.say("/undo")
    chat.expect("restored NOTES.md")
    assert not (deep.work / "NOTES.md").exists()
    chat.say("/rewind 2")
    chat.expect("The conversation is as it was before")
    assert FIX["new_string"] in (deep.work / FIX["path"]).read_text(encoding="utf-8")
    chat.say("/fork")
    chat.expect("which stays as it is")


def _look(chat: Terminal) -> None:
    chat.say("/cost")
    chat.expect("requests, ")
    chat.say("/model")
    chat.expect(MODEL)
    chat.say(f"/model {MODEL}")
    chat.say("/commands")
    chat.say("/tools filesystem")
    chat.expect("read_file")
    chat.say("/retry")
    chat.expect("there is nothing to try again")
    for words in ("new", "merge", "drop"):
        chat.say(f"/worktree {words}")
        chat.expect("makes")  # the sample is in no repository
    chat.say("/mcp")
    chat.expect("no MCP server's tool is offered")
    chat.say("/help")
    chat.expect("leave; the chat is kept")


def _go_elsewhere(chat: Terminal) -> str:
    chat.say("/new")
    chat.expect("This one is kept")
    number = chat.expect("\n").split()[-1]
    chat.say("Say good.")
    chat.expect("Good.")
    chat.say("/sessions which test")
    chat.expect(number)
    chat.say("/search 19.99 float")
    chat.expect(number)
    chat.say("/export talk.md")
    chat.expect("talk.md")
    chat.say("/copy")
    chat.expect("  copied ")
    chat.say(f"/resume {number}")
    chat.expect(f"chat {number}")
    chat.say("/fork")
    chat.expect("which stays as it is")
    chat.say("/compact how we round")
    chat.expect("messages are summarized")
    chat.say("Say good again.")
    chat.expect("Good.")
    chat.say("/quit")
    assert chat.end() == 0
    return number
