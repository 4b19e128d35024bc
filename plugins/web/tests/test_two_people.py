"""Two people in one conversation, one on the terminal and one on the page: at the end both screens show the same."""

# selenium leaves arguments without types
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="pip install selenium")

from selenium import webdriver

from plugins.cli.tests.chat_terminal import CTRL_D, ESC, Terminal
from tests.browser import browser
from tests.drawn import many
from tests.environments import REPOSITORY

from .processes import WebProcess
from .tabs import Tab

pytestmark = [pytest.mark.needs("Chromium"), pytest.mark.slow]
INTERLEAVINGS, STEPS = many(3, 200), 6


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        with WebProcess(tmp_path_factory.mktemp("web"), store="") as process:
            process.start()
            yield process


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


class Here:
    """The command `deep` of this environment, in the folder of the page."""

    def __init__(self, web: WebProcess) -> None:
        self._web = web

    def attach(self, terminal: int, *arguments: str, env: dict[str, str]) -> Any:
        command = [sys.executable, "-P", "-m", "deep_cli", *arguments, *self._web.agent]
        streams: dict[str, Any] = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
        variables = {**os.environ, "PYTHONPATH": str(REPOSITORY), **env}
        return subprocess.Popen(command, cwd=self._web.folder, env=variables, start_new_session=True, **streams)


class TwoPeople:
    """Does one thing after another, on either screen, without a wait for what the other one does."""

    def __init__(self, chat: Terminal, tab: Tab, gate: Path, draw: random.Random) -> None:
        self._chat, self._tab, self._gate, self._draw = chat, tab, gate, draw
        self._count = 0
        self._is_cut = False
        self.did: list[str] = []

    def step(self) -> None:
        """Do something."""
        ways = [
            self._type,
            self._type,
            self._click,
            self._click,
            self._hold,
            self._stop,
            self._escape,
            self._change,
            self._undo,
        ]
        way = self._draw.choice(ways)
        self.did.append(way.__name__)
        way()

    def _words(self) -> str:
        self._count += 1
        return f"say word-{self._count}"

    def _type(self) -> None:
        self._chat.type(f"{self._words()}\r")

    def _click(self) -> None:
        if self._tab.js("return document.body.dataset.status") != "waiting":
            self._tab.send(self._words())

    def _hold(self) -> None:
        """Begin an answer that stays unfinished until the gate opens."""
        self._count += 1
        self._gate.unlink(missing_ok=True)
        self._tab.send(f"hold half-{self._count} | whole-{self._count}")

    def _stop(self) -> None:
        self._tab.js("if (!document.getElementById('stop').hidden) document.getElementById('stop').click()")

    def _escape(self) -> None:
        self._chat.type(ESC)
        self._chat.type("\x7f")  # else what follows would be Alt and a key

    def _change(self) -> None:
        """Send a message of the page again, if nothing runs."""
        again = "[...document.querySelectorAll('article.user .change button:nth-child(2)')].at(-1)?.click()"
        self._tab.js(f"if (document.getElementById('stop').hidden) {again}")

    def _undo(self) -> None:
        self._chat.type("/undo\r")

    def settle(self) -> None:
        """Let everything end: what runs, what waits, what both screens show. The last word is of the terminal."""
        self._gate.touch()
        self._until(lambda: not self._tab.js("return JSON.parse(sessionStorage.getItem('sending') ?? '[]').length"))
        self._chat.type(f"{self._words()}\r")
        last = f"word-{self._count}"
        held = "if (!document.getElementById('held').hidden) document.getElementById('go-on').click()"
        self._until(lambda: (self._tab.js(held), self._calm(), self._tab_says(last))[1:] == (True, True))
        self._until(self.is_same)

    def _until(self, condition: Callable[[], bool]) -> None:
        """Wait, and read what the terminal has to say: it draws itself twice a second."""

        def said() -> str:
            return "\n".join([f"{self.did}", f"page: {self.page()}", f"terminal: {self.terminal()}", *self._chat.lines])

        self._tab.until(lambda: self._read() and condition(), said)

    def is_same(self) -> bool:
        """Whether both show the same; the terminal shows a conversation anew from its last messages."""
        page, terminal = self.page(), self.terminal()
        return page[-len(terminal) :] == terminal if self._is_cut else page == terminal

    def _calm(self) -> bool:
        return self._tab.js("return document.body.dataset.status") == "idle" and not self._tab.texts("#queue li")

    def _tab_says(self, text: str) -> bool:
        return any(text in each for each in self._tab.texts("article.assistant .prose"))

    def _read(self) -> bool:
        self._chat._read()  # pyright: ignore[reportPrivateUsage]
        return self._chat.state == "ready"

    def page(self) -> list[str]:
        """What the page shows of both people and of the agent."""
        return self._tab.texts("article.user:not(.sending) > p, article.assistant .prose")

    def terminal(self) -> list[str]:
        """The same of the terminal: what its sentences took back is not there."""
        turns: list[list[str]] = []
        self._is_cut = False
        for line in self._chat.lines:
            if found := re.fullmatch(r"(?:> |another process wrote: )((?:say|hold) .*)", line):
                turns.append([found[1]])
            elif found := re.fullmatch(r"((?:say|hold|word|half|whole|begin)\b.*)", line):
                turns = turns or [[]]  # another one wrote before this one did
                turns[-1].append(found[1])
            elif "the conversation, which is now:" in line:
                turns.clear()
            elif re.fullmatch(r"  … \d+ messages before", line):
                self._is_cut = True
            elif re.search(r"The conversation is as it was before|your message is the next one", line):
                del turns[-1:]
        return [" ".join(text.split()) for turn in turns for text in turn]


@pytest.mark.parametrize("seed", range(INTERLEAVINGS))
def test_both_screens_show_the_same_at_the_end(web: WebProcess, chromium: webdriver.Chrome, seed: int) -> None:
    web.gate.touch()
    tab = Tab(chromium, web.page)
    tab.new()
    tab.say("say begin")
    digits = tab.session[-8:]
    with Terminal(Here(web), "chat", "--resume", digits, env={}, size=(100, 40)) as chat:
        chat.prompt()
        people = TwoPeople(chat, tab, web.gate, random.Random(seed))
        for _ in range(STEPS):
            people.step()
        people.settle()
        chat.type(CTRL_D)
        assert chat.end() == 0
