"""Random typing: keys, pastes, sizes, Esc and Ctrl-C at any moment. The chat stays usable, and loses no message."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest

from plugins.cli.tests.chat_terminal import CTRL_C, CTRL_D, ESC, SHIFT_TAB, UP, Terminal
from tests.drawn import many
from tests.stubs import Call, OpenAIStub, RequestView, Script

CHAT = ("chat", "--model", "openai-chat:stub")
SIZES = [(80, 24), (160, 50), (40, 24)]
CHATS, SEQUENCES, STEPS = many(1, 50), many(2, 10), 8
CLEAR = "\x1b>" + "\x15\x7f" * 12 + "\x15"
"""To the end, then back to the beginning, line by line."""
ASKS = ("whynot:", "ownwords):")
"""What a question ends with: whether to run a call, whether to carry out a plan."""
NUMBERS = count()
COMMANDS = ["sleep 600", "echo hi", "cat", "seq 100", "false", "sleep 600 & wait"]


def model(view: RequestView) -> str | Call:
    """Ask for an edit, or make a plan, if the last message wants it; else answer: shortly, or at length."""
    last = view.messages[-1].text if view.messages[-1].role == "user" else ""
    if "please-plan" in last:
        return Call("write_todos", {"todos": [{"content": "look", "status": "in_progress"}]})
    if "please-ask" in last:
        return Call("write_file", {"path": f"made-{next(NUMBERS)}.txt", "content": "by the model\n"})
    return "Fine. " * (300 if "at-length" in last else 1)


class Typist:
    """Types at random, and looks where each line begins: a person sees a question too.

    Args:
        chat: the terminal.
        draw: the random numbers.
    """

    def __init__(self, chat: Terminal, draw: random.Random) -> None:
        self._chat, self._draw = chat, draw
        self.sent: list[str] = []
        """Messages that were sent, in order."""
        self._commands = 0

    def step(self) -> None:
        """Do one thing."""
        kinds = [self._say, self._say, self._run, self._paste, self._keys, self._escape, self._resize]
        kinds += [self._ask, self._plan]
        self._draw.choice(kinds)()

    def say(self, words: str) -> None:
        """Send a message, also while the agent works."""
        text = f"{words}-{len(self.sent)}."
        self._begin(text[0])
        self._send(text)

    def rest(self) -> None:
        """Stop what runs, until the chat waits for a message: Esc never leaves it."""
        while self._chat.state != "ready":
            shown = len(self._chat.screen)
            self._chat.type(ESC)
            self._chat.until(partial(self._has_moved, shown), "ready")

    def _has_moved(self, shown: int) -> bool:
        return self._chat.state == "ready" or len(self._chat.screen) != shown

    def _begin(self, key: str) -> None:
        """Begin a line of a message with its first key."""
        while True:
            self._chat.type(CLEAR + key)
            self._chat.until(lambda: self._is_line(key) or self._is_answer(key), f"> {key}")
            if self._is_line(key):
                return
            self._chat.type(CLEAR)  # a question came first
            self._answer()

    def _is_line(self, text: str) -> bool:
        return self._chat.tail.endswith(f">{text}")

    def _is_answer(self, text: str) -> bool:
        return self._chat.tail.endswith(tuple(f"{end}{text}" for end in ASKS))

    def _send(self, text: str) -> None:
        """Send the line whose first key has been typed."""
        self.sent.append(text)
        self._enter(text[1:])

    def _enter(self, rest: str) -> None:
        """Finish the line, and wait until the chat has taken it: before, it looks as if nothing was sent."""
        self._chat.type(f"{rest}\r")
        self._chat.until(lambda: self._is_line("") or self._is_answer(""), "an empty line")

    def _answer(self) -> None:
        """Answer the question that takes the keys."""
        self._chat.until(lambda: self._is_answer(""), "a question")
        keys = [SHIFT_TAB, "y\r", "n\r"] if self._is_open(ASKS[0]) else ["1\r", "2\r"]
        self._chat.type(self._draw.choice(["not so\r", CTRL_C, ESC, *keys]))
        self._chat.until(lambda: not self._is_open(*ASKS), "the end of a question")

    def _is_open(self, *ends: str) -> bool:
        return any(end in self._chat.tail for end in ends)

    def _say(self) -> None:
        self.say(self._draw.choice(["short", "at-length"]))

    def _run(self) -> None:
        self._commands += 1
        self._begin("!")
        self._enter(f"{self._draw.choice(COMMANDS)} #{self._commands}")

    def _paste(self) -> None:
        self._begin("p")
        self._chat.type("\x1b[200~two\nlines\x1b[201~")

    def _keys(self) -> None:
        keys = ["a", " ", UP, "\t", "\x7f", SHIFT_TAB, "@", "ä", "\x1b[D"]
        self._begin("k")
        self._chat.type("".join(self._draw.choice(keys) for _ in range(6)))

    def _escape(self) -> None:
        self._chat.type(ESC)
        self._chat.type("\x7f")  # else what follows would be Alt and a key

    def _resize(self) -> None:
        self._chat.resize(*self._draw.choice(SIZES))

    def _ask(self) -> None:
        """Let the model ask, with a line begun before or without, and answer somehow."""
        self._let("ask", "please-ask")

    def _plan(self) -> None:
        """Let the chat ask whether to carry out a plan."""
        self._let("plan", "please-plan")

    def _let(self, mode: str, words: str) -> None:
        self.rest()
        self._begin("/")
        self._enter(f"mode {mode}")
        self.say(words)
        if self._draw.random() < 0.5:
            self._chat.until(lambda: self._is_answer(""), "a question")
        else:
            self._with_a_line()
        if self._chat.state == "question":
            self._answer()

    def _with_a_line(self) -> None:
        """Begin a line before the question comes, and finish it after."""
        text = f"line-{len(self.sent)}."
        self._chat.type(text[0])
        self._chat.until(lambda: self._is_line("l") or self._is_answer("l"), "> l")
        if self._is_answer("l"):
            self._chat.type(CLEAR)
            return
        self._chat.until(lambda: self._chat.state == "line first", "a question that waits for the line")
        match self._draw.randrange(3):
            case 0:
                self._send(text)
                self._chat.until(lambda: self._is_answer(""), "a question")
            case 1:
                self._chat.type(CTRL_C)
                self._chat.until(lambda: self._is_answer(""), "a question")
            case _:
                self._chat.type(ESC)
                self._chat.until(lambda: self._chat.state == "ready", "ready")


def was_asked(stub: OpenAIStub, text: str) -> bool:
    """Whether the model has got a text."""
    return any(text in str(each["messages"]) for each in stub.requests)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CHATS))
def test_no_typing_wedges_the_chat_or_loses_a_message(make_deep: Callable[..., Any], seed: int) -> None:
    deep, draw = make_deep("backends", "filesystem", "todo"), random.Random(seed)
    with (
        OpenAIStub(Script(then=model)) as stub,
        Terminal(deep, *CHAT, env=stub.env, size=draw.choice(SIZES)) as chat,
    ):
        chat.see("ready")
        typist = Typist(chat, draw)
        for number in range(SEQUENCES):
            for _ in range(STEPS):
                typist.step()
            typist.rest()
            typist.say(f"the-last-of-{number}")
            chat.until(partial(was_asked, stub, typist.sent[-1]), typist.sent[-1])
            typist.rest()
        chat.type(CLEAR + CTRL_D)
        assert chat.end() == 0
    asked = "".join(str(each["messages"]) for each in stub.requests)
    lost = [text for text in typist.sent if text not in asked]
    # A message that was stopped before it got into the conversation is said to be kept for the arrow.
    assert len(lost) <= re.sub(r"\s+", "", chat.screen).count("Nothingislost"), lost
    results = [str(m["content"]) for each in stub.requests for m in each["messages"] if m["role"] == "tool"]
    assert [each for each in results if any(text in each for text in typist.sent)] == []  # none was an answer


@pytest.mark.slow
@pytest.mark.parametrize("way", ["sent", "set aside"])
def test_a_line_that_was_begun_before_a_question_is_no_answer(deep: Any, way: str) -> None:
    with OpenAIStub(Script(then=model)) as stub, Terminal(deep, *CHAT, env=stub.env) as chat:
        chat.say("please-ask")
        chat.type("and")  # typed ahead: before the question is drawn, or the chat has read it
        chat.see("a question waits")
        chat.type(" then\r" if way == "sent" else f"{CTRL_C}")
        chat.see("    run it?")
        if way == "sent":
            assert "  next: and then" in chat.display
        chat.type("n\r")
        if way == "set aside":
            chat.prompt("and")
            chat.type(" then\r")
        chat.expect("> and then")
        chat.prompt()
        chat.type(CTRL_D)
        assert chat.end() == 0
    (result,) = [m for m in stub.requests[-1]["messages"] if m["role"] == "tool"]
    assert "The user refused this call. Do not repeat it" in result["content"]
    assert "and then" in str(stub.requests[-1]["messages"][-1]["content"])


@pytest.mark.slow
def test_a_command_and_a_turn_are_stopped_from_their_first_moment(deep: Any) -> None:
    with OpenAIStub(Script(then=model)) as stub, Terminal(deep, *CHAT, env=stub.env) as chat:
        chat.prompt()
        chat.type(f"!sleep 600\r{CTRL_C}")  # read at once: the command has not begun
        chat.expect("✗ stopped")
        chat.prompt()
        chat.type(f"hello\r{CTRL_C}")
        chat.expect("✗ stopped")
        chat.prompt()
        chat.type("!setsid sleep 600 & echo begun\r")  # what it leaves keeps its output open
        chat.see("$ setsid")
        chat.type(CTRL_C * 2)
        chat.expect("✗ stopped")
        chat.prompt()
        chat.type(CTRL_D)
        assert chat.end() == 0
