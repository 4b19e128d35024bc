"""A message for the agent at work (Alt-Enter) is in its run, or it is the next message: none is lost."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deep_sessions
import pytest
from deep_cli.chat.conversation import Chat
from deep_cli.chat.prompt import ChatPrompt
from deep_cli.chat.screen import ChatScreen
from deep_cli.chat.stored import StoredChat
from deep_cli.run.agent import make_agent
from deep_cli.run.names import new_id
from deep_cli.run.progress import CliProgress
from deep_cli.terminal.interrupts import ChatLoop
from deep_sessions import Lease, Mail, MemoryStore, Runner, StoreError, rewind, session_capabilities

from deep_core import Kernel
from tests.stubs import RequestView, Script, function_model


@dataclass
class Conversation:
    """A chat at a prompt where nobody types.

    Attributes:
        shown: what the screen shows.
    """

    chat: Chat
    prompt: ChatPrompt
    shown: io.StringIO
    loop: ChatLoop

    def turn(self, message: str) -> None:
        assert self.loop.run(self.chat.turn(message)) == "done"


@contextmanager
def conversation(script: Script, store: MemoryStore) -> Generator[Conversation]:
    shown, loop, folder = io.StringIO(), ChatLoop(), str(Path.cwd())
    screen = ChatScreen(shown, stream=shown)
    progress, prompt = CliProgress(screen), ChatPrompt(Path(folder))
    with Kernel(plugins=[progress]) as kernel:
        made = make_agent(kernel, function_model(script), "local", is_stored=True)
        new = StoredChat(new_id(folder), folder)
        chat = Chat(
            kernel,
            progress,
            made,
            new,
            store,
            screen,
            make=lambda model: made,
            prompt=prompt,
            approve="ask",
            max_requests=9,
            loop=loop,
        )
        yield Conversation(chat, prompt, shown, loop)
    loop.close()


def test_a_message_that_is_stored_as_the_run_ends_begins_the_next_run() -> None:
    class Late(MemoryStore):
        async def post(self, session_id: str, kind: str, data: bytes) -> int:
            while (await self.info(session_id)).status == "running":
                await asyncio.sleep(0)
            for _ in range(100):  # what else waits for the end of the run goes first
                await asyncio.sleep(0)
            return await super().post(session_id, kind, data)

    def first(view: RequestView) -> str:
        here.chat.steer("be brief")
        return "A long answer."

    def second(view: RequestView) -> str:
        assert "be brief" in str(view.messages[-1])
        return "Short."

    with conversation(Script(first, second), Late()) as here:
        here.turn("begin")
        assert "Short." in here.shown.getvalue()
        assert here.prompt.queue == []


def test_a_message_before_the_first_run_has_begun_is_sent_next() -> None:
    with conversation(Script(), MemoryStore()) as here:

        async def steer() -> None:
            here.chat.steer("be brief")
            assert await asyncio.wait_for(here.prompt.message(), 60) == "be brief"

        here.loop.run(steer())
        assert here.shown.getvalue() == ""


def test_a_message_that_cannot_be_stored_is_sent_next_and_the_error_is_shown() -> None:
    class Full(MemoryStore):
        async def post(self, session_id: str, kind: str, data: bytes) -> int:
            raise StoreError("the disk is full")

    def first(view: RequestView) -> str:
        here.chat.steer("be brief")
        return "A long answer."

    with conversation(Script(first), Full()) as here:
        here.turn("begin")
        assert "the disk is full" in here.shown.getvalue()
        assert "steering" not in here.shown.getvalue()
        assert here.prompt.queue == ["be brief"]


@pytest.mark.parametrize("then", ["", "page"])
@pytest.mark.parametrize("moment", ["sees what waits", "begins"])
def test_what_another_interface_does_before_a_run_is_shown_and_not_taken_back(moment: str, then: str) -> None:
    class Shared(MemoryStore):
        moment = ""

        async def _at(self, moment: str, session_id: str) -> None:
            if self.moment == moment:  # this chat has read the conversation again, and does not run yet
                self.moment = ""
                await rewind(self, session_id, to=0)
                if then:
                    await page.run(session_id, then, run_id="page")

        async def mail(self, session_id: str) -> Sequence[Mail]:
            await self._at("sees what waits", session_id)
            return await super().mail(session_id)

        async def acquire(self, session_id: str, **how: Any) -> Lease:
            await self._at("begins", session_id)
            return await super().acquire(session_id, **how)

    store = Shared()
    with Kernel(plugins=[deep_sessions], discover=False) as kernel, conversation(Script("one", "two"), store) as here:
        agent = kernel.create_agent(function_model(Script("from there")), capabilities=session_capabilities())
        page = Runner(agent, store, kernel=kernel)
        here.turn("first")
        store.moment = moment
        here.turn("second")
        assert store.moment == ""
        shown = here.shown.getvalue().partition("another interface changed the conversation")[2]
        said = [text for text in ("first", "one", "page", "from there", "second", "two") if text in shown]
        assert said == [*(["page", "from there"] if then else []), "second", "two"]
        assert here.loop.run(here.chat.take_back(1)) is None
        assert ("page" in str(here.chat.stored.messages)) == bool(then)
