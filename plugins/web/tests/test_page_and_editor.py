"""One person on the page and one in an editor, in one conversation: at the end both have been shown the same."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

pytest.importorskip("acp", reason="pip install agent-client-protocol")

from acp import RequestError

from plugins.acp.tests.editor import CONFIG, Editor, connected
from tests.drawn import many

from .pages import Page, working

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"]), pytest.mark.slow]
INTERLEAVINGS, STEPS = many(3, 200), 8


class Two:
    """Both, and what the editor's screen has: its own prompts are there before it sends them."""

    def __init__(self, editor: Editor, page: Page) -> None:
        self._editor, self._page = editor, page
        self._count = 0
        self.refused = 0

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
    """The words of both and of the agent, as the editor has them, sorted: a prompt stands where it was typed."""
    kinds = ("user_message_chunk", "agent_message_chunk")
    texts = [each["content"]["text"] for each in editor.updates if each["sessionUpdate"] in kinds]
    return sorted(re.findall(r"(?:say )?word-\d+", " ".join(texts)))


@pytest.mark.filterwarnings("ignore")  # the configuration of the page is above the folder of the editor
@pytest.mark.parametrize("seed", range(INTERLEAVINGS))
async def test_both_have_been_shown_the_same(tmp_path: Path, seed: int) -> None:
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
            await page.until(lambda message: message.get("status") == "idle" and not message.get("queued"))
            refused = -1
            while refused != two.refused:  # until the editor has the session
                refused = two.refused
                await two.prompt()
            await page.until(lambda message: page.texts[-1:] == [("assistant", f"word-{two._count}.")])  # pyright: ignore
            on_page = [
                f"say {text}" if role == "user" and not text.startswith("say") else text for role, text in page.texts
            ]
            assert shown(editor) == sorted(re.findall(r"(?:say )?word-\d+", " ".join(on_page)))
