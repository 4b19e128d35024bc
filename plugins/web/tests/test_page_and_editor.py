"""One person on the page and one in an editor, in one conversation: both are shown the same, as it happens.

An editor shows its own prompt when it is typed, and cannot move it: only there may the order differ, until the
conversation is loaded.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import anyio
import pytest

pytest.importorskip("acp", reason="pip install agent-client-protocol")

from acp import RequestError

from plugins.acp.tests.editor import CONFIG, Editor, connected
from tests.drawn import many

from .pages import Page, working
from .served import SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"]), pytest.mark.slow]
INTERLEAVINGS, STEPS = many(3, 200), 8


class Two:
    """Both, and what the editor's screen has: its own prompts are there before it sends them."""

    def __init__(self, editor: Editor, page: Page) -> None:
        self._editor, self._page = editor, page
        self._count = 0
        self.refused = 0
        self.own = {"say word-0"}
        """The prompts of the editor."""

    def _words(self) -> str:
        self._count += 1
        return f"word-{self._count}."

    async def prompt(self) -> None:
        """Send from the editor; a prompt to a session at work is refused, and is not in the conversation."""
        words = self._words()
        words = f"say {words}"
        self._editor.updates.append(said(words))
        try:
            await self._editor.prompt(self._page.id, words)
        except RequestError:
            self.refused += 1
            self._editor.updates.remove(said(words))
        else:
            self.own.add(words.removesuffix("."))

    async def send(self) -> None:
        """Send from the page, and do not wait: it is queued, or runs while the editor goes on."""
        response = await self._page.send(f"say {self._words()}")
        if response.status_code != 202:
            self.refused += 1

    async def queue(self) -> None:
        """The same, for after the run under way."""
        await self._page.send(f"say {self._words()}", mode="queue")

    async def wait(self) -> None:
        """Wait until the page shows that nothing runs."""
        await self._page.reaches("idle")


def said(words: str) -> dict[str, object]:
    """What an editor shows of its own prompt."""
    return {"sessionUpdate": "user_message_chunk", "content": {"text": words}}


def shown(editor: Editor) -> list[str]:
    """The words of both and of the agent, as the editor has them, in order."""
    kinds = ("user_message_chunk", "agent_message_chunk")
    pieces = [each for each in editor.updates if each["sessionUpdate"] in kinds]
    joined = groupby(pieces, lambda each: each["sessionUpdate"])
    return words("".join(each["content"]["text"] for each in group) for _, group in joined)


def words(texts: Iterable[str]) -> list[str]:
    return [found for text in texts for found in re.findall(r"(?:say )?word-\d+", text)]


def on_page(page: Page) -> list[str]:
    """The same on the page."""
    return words(text for _, text in page.texts)


@pytest.mark.filterwarnings("ignore")  # the configuration of the page is above the folder of the editor
@pytest.mark.parametrize("seed", range(INTERLEAVINGS))
async def test_both_are_shown_the_same(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    folder = (tmp_path / "project").resolve()
    folder.mkdir()
    (tmp_path / "config.toml").write_text(CONFIG, encoding="utf-8")
    store = f"sqlite:///{tmp_path / 'sessions.db'}"
    async with working(tmp_path, store=store) as running, connected(tmp_path) as editor:
        session = (await editor.connection.new_session(cwd=str(folder), mcp_servers=[])).session_id
        editor.updates.append(said("say word-0."))
        await editor.prompt(session, "say word-0.")
        user = await running.user()
        async with user.page(session) as page:
            two = Two(editor, page)
            for _ in range(STEPS):
                await draw.choice([two.prompt, two.send, two.queue, two.wait])()
            await page.send("say word-99.", mode="queue")  # without a prompt of the editor
            await page.until(lambda message: page.texts[-1:] == [("assistant", "word-99.")])
            expected = on_page(page)
            with anyio.fail_after(SECONDS):
                while sorted(shown(editor)) != sorted(expected):
                    await anyio.sleep(0.01)
            both = shown(editor)
            assert [each for each in both if each not in two.own] == [each for each in expected if each not in two.own]
            for prompt in two.own:
                assert both.index(prompt) < both.index(prompt.removeprefix("say "))
            editor.clear()
            await editor.connection.load_session(cwd=str(folder), session_id=session, mcp_servers=[])
            assert shown(editor) == expected
