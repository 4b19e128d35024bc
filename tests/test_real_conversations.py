"""Conversations with a real model on a real server, in small windows, in every interface. `make test-models`."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deep_sessions import AgentDeps, DeepAgent, MemoryStore
from pydantic_ai.messages import BinaryContent

from deep_core import Kernel, RequestEvent, RunEvent
from plugins.cli.tests import chat_terminal
from plugins.cli.tests.chat_terminal import CTRL_D, Terminal
from plugins.sessions.tests.test_door import PNG
from tests.browser import CHROMIUM, DRIVER, browser
from tests.lab import SMALL, llama, real
from tests.plugins_by_hand import plugin

pytestmark = real
TIDE = "The tide goes out, and the boats lie dry on the sand till it is back. "
LARGE, TIGHT = 8_192, 1_024
PATIENCE = 900
"""Seconds for a turn of the long conversation, and any number for all of them."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def tight() -> Iterator[str]:
    with llama(TIGHT) as address:
        yield address


def config(address: str, **more: Any) -> dict[str, Any]:
    model = {"provider": "llama.cpp", "model": "smollm2", "base_url": address, "max_tokens": 40, **more}
    return {"model": model, "profile": "small"}


async def agent_at(address: str, *plugins: object, **more: Any) -> DeepAgent:
    deps = AgentDeps(session_store=MemoryStore(), kernel=Kernel(plugins=plugins))
    return await DeepAgent.create(config=config(address, **more), deps=deps)


async def turns(agent: DeepAgent, count: int, words: str) -> None:
    """Have a conversation. The answers are poor, and none is an error."""
    for turn in range(count):
        result = await agent.run(f"Turn {turn}. {words} Say one word.", session_id="s")
        assert (turn, result.status, result.error) == (turn, "completed", None)
        assert str(result.output).strip()


@pytest.mark.parametrize("window", [None, 100_000], ids=["asked of the server", "said wrong"])
async def test_a_conversation_that_overflows_goes_on(tight: str, window: int | None) -> None:
    agent = await agent_at(tight, **({} if window is None else {"context_window": window}))
    await turns(agent, 4 if SMALL else 8, TIDE * 10)  # 4 are more than the window
    await agent.close()


async def test_a_message_larger_than_the_window_is_said_and_is_no_dead_end(tight: str) -> None:
    agent = await agent_at(tight)
    result = await agent.run(TIDE * 90, session_id="s")
    assert (result.status, result.finish_reason) == ("failed", "overflow")
    assert "the last message" in str(result.error)
    result = await agent.run("Say one word.", session_id="s")
    assert (result.status, result.error) == ("completed", None)
    await agent.close()


async def test_a_picture_for_a_model_that_only_reads_becomes_words(tight: str) -> None:
    agent = await agent_at(tight)
    picture = BinaryContent(PNG, media_type="image/png")
    result = await agent.run(["What is this?", picture], session_id="s")
    assert (result.status, result.error) == ("completed", None)
    result = await agent.run("And now?", session_id="s")
    assert (result.status, result.error) == ("completed", None)
    await agent.close()


@pytest.mark.skipif(SMALL, reason="takes minutes")
async def test_a_conversation_of_30_turns_in_a_window_of_8192() -> None:
    made = list[str]()

    def listen(event: RunEvent) -> None:
        if isinstance(event, RequestEvent):
            made.append(f"{event.input_tokens}+{event.output_tokens}")

    begin = time.monotonic()
    with llama(LARGE) as address:
        agent = await agent_at(address, plugin("ear", run_event=listen), max_tokens=12)
        for turn in range(30):
            faulthandler.dump_traceback_later(PATIENCE, exit=True)  # in place of pytest's, which is for the whole test
            del made[:]
            result = await agent.run(f"Turn {turn}. {TIDE * 14} Say one word.", session_id="s")
            print(f"turn {turn + 1}, {(time.monotonic() - begin) / 60:.1f} min, tokens: {', '.join(made)}", flush=True)
            assert (turn, result.status, result.error) == (turn, "completed", None)
            assert str(result.output).strip()
            assert made
        await agent.close()


# -- the interfaces ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tight: str, tmp_path: Path) -> Path:
    lines = [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}" for key, value in model(tight)]
    text = '[agent]\nprofile = "small"\n[agent.model]\n' + "\n".join(lines) + "\n"
    (tmp_path / "deep.toml").write_text(text, encoding="utf-8")
    (tmp_path / "project").mkdir()
    return tmp_path


def model(address: str) -> list[tuple[str, Any]]:
    return [*config(address)["model"].items()]


class Deep:
    """The command `deep` in a home of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = {**os.environ, "HOME": str(root), "XDG_CONFIG_HOME": str(root / "config")}
        self.env |= {"XDG_DATA_HOME": str(root / "data"), "XDG_CACHE_HOME": str(root / "cache")}
        self.config = ("--config", str(root / "deep.toml"))
        self.place: dict[str, Any] = {"cwd": root / "project", "env": self.env}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "deep_cli", *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.root / "project",
            env=self.env,
            text=True,
            capture_output=True,
            check=False,
        )

    def attach(self, there: int, *arguments: str, env: Any) -> subprocess.Popen[bytes]:
        place = {**self.place, "env": {**self.env, **env}}
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), there)
        return subprocess.Popen(self.command(*arguments), **place, **streams, start_new_session=True)


def test_deep_run_answers(folder: Path) -> None:
    done = Deep(folder).run("run", "Say one word.", *Deep(folder).config)
    assert done.returncode in (0, 1), done.stderr  # 1: the answer was cut at its limit
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr


def test_deep_chat_talks_on_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_terminal, "PATIENCE", 600)  # a summary takes a thread a minute
    deep = Deep(folder)
    shown = ""
    with Terminal(deep, "chat", *deep.config, env=deep.env) as chat:
        for turn in range(2 if SMALL else 6):
            chat.say(f"Turn {turn}. {TIDE * 8} Say one word.")
            chat.until(lambda: chat.state == "working", "working")  # the terminal repaints cells, not whole texts
            shown += chat.prompt()
        chat.type(CTRL_D)
        assert chat.end() == 0
    assert "Traceback" not in shown
    assert "cannot be made smaller" not in chat.screen


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium")
def test_the_page_talks(folder: Path) -> None:
    from plugins.web.tests.tabs import Tab

    deep = Deep(folder)
    command = deep.command("web", *deep.config, "--no-browser", "--port", "0")
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, cwd=folder / "project", env=deep.env, **streams) as server:
        try:
            assert server.stdout is not None
            page = server.stdout.readline().strip()
            assert page.startswith("http")
            with browser(folder / "profile") as driver:
                tab = Tab(driver, page)
                tab.new()
                for turn in range(2 if SMALL else 4):
                    tab.say(f"Turn {turn}. {TIDE * 8} Say one word.")
                tab.until(lambda: len([text for text in tab.texts("article.assistant") if text]) >= 2)
                assert "cannot be made smaller" not in tab.js("return document.body.innerText")
        finally:
            server.terminate()
