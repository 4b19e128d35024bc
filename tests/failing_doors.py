"""Six ways to talk to one agent, each as a person or a program meets it: say something, see, try again.

A door is one conversation at a time with the model of a failing provider. What it stores is in a file of SQLite.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
import json
import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

from acp import RequestError
from anyio.from_thread import BlockingPortal, start_blocking_portal
from deep_cli.chat.conversation import Chat
from deep_cli.chat.prompt import ChatPrompt
from deep_cli.chat.screen import ChatScreen
from deep_cli.chat.slash_commands import obey
from deep_cli.chat.stored import StoredChat
from deep_cli.main import main
from deep_cli.run.agent import make_agent
from deep_cli.run.names import new_id
from deep_cli.run.progress import CliProgress
from deep_cli.terminal.interrupts import ChatLoop
from deep_durable import Patience, Worker, enqueue, finish, open_queue
from deep_durable.session_agent import open_runner
from deep_sessions import AgentDeps, AgentError, DeepAgent, RunResult, load_session, open_store, words_of_end

from deep_core import Kernel
from plugins.acp.tests.editor import connected
from plugins.web.tests.pages import working
from tests import failing_plugin
from tests.environments import REPOSITORY
from tests.failing_provider import FailingProvider

__all__ = ["DOORS", "Door", "Kept", "Way"]

Way = Literal["whole", "streamed"]
SECONDS = 60
"""A test that hangs is stopped by this; none waits for it."""
CONFIG = "[agent.model.retry]\nbackoff_ms = 1\nmax_wait_ms = 200\nmax_attempts = 3\n"
FOLD = REPOSITORY / "plugins/web/src/deep_web/static/fold.js"


class Kept(NamedTuple):
    """What a store has of a conversation.

    Attributes:
        prompts: what the user said, in order.
        answers: what the model said.
        status: of the last run.
        reason: how its last request ended; None without a request.
        code: of its error; "" without one.
    """

    prompts: list[str]
    answers: list[str]
    status: str
    reason: str | None
    code: str


class Door(ABC):
    """A way to talk to the agent.

    Args:
        provider: answers the model's requests.
        folder: of the test.
        way: whether requests are streamed.
    """

    name = ""
    ways: tuple[Way, ...] = ("streamed",)
    tries_itself = False
    """Whether a run that may succeed later is tried again without a word."""
    shows_waits = True
    """Whether a request that is sent again is shown, also where an answer follows."""

    def __init__(self, provider: FailingProvider, folder: Path, way: Way) -> None:
        self.provider, self.folder, self.way = provider, folder, way
        self.config = folder / "options.toml"
        self.config.write_text(CONFIG, encoding="utf-8")
        self.store = f"sqlite:///{folder / 'sessions.db'}"
        self.session = ""
        self.numbers = itertools.count(1)

    @abstractmethod
    def begin(self) -> None:
        """Begin a conversation."""

    @abstractmethod
    def say(self, text: str) -> None:
        """Send a message, and wait until there is nothing more to see."""

    @abstractmethod
    def retry(self) -> None:
        """Try the last run again, in the way that this interface has."""

    @abstractmethod
    def seen(self) -> str:
        """Return what this interface has shown of the conversation."""

    def kept(self) -> Kept:
        """Return what is stored."""

        async def read() -> Kept:
            store = open_store(self.store)
            try:
                state = await load_session(store, self.session)
                ends = [entry for entry in await store.entries(self.session) if entry.kind == "run_ended"]
            finally:
                await store.aclose()
            state.keep_prompt()  # of a run that waits: it is in the journal
            parts = [part for message in state.messages() for part in message.parts]
            run = state.run
            assert run is not None
            return Kept(
                [part.content for part in parts if part.part_kind == "user-prompt" and isinstance(part.content, str)],
                [part.content for part in parts if part.part_kind == "text"],
                run.status,
                json.loads(ends[-1].data).get("finish_reason") if ends else None,
                (run.error or {}).get("code", ""),
            )

        return asyncio.run(read())

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""


# -- the command line --------------------------------------------------------------------------------------------------


class _Screen(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def deep(folder: Path, *words: str | Path, terminal: bool = False, env: dict[str, str] | None = None) -> str:
    """Run a command of `deep` in this process; return what it prints, and its exit code if that is not 0."""
    screen, stdin, code = _Screen(terminal), sys.stdin, 0
    with (
        patch.dict(os.environ, {**(env or {}), "TERM": "dumb", "COLUMNS": "500"}),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(screen),
        contextlib.redirect_stderr(screen),
        open(os.devnull, encoding="utf-8") as nothing,
    ):
        sys.stdin = nothing
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdin = stdin
    return screen.getvalue() + (f"exit code {code}\n" if code else "")


class RunDoor(Door):
    """`deep run`: whole in a pipe, streamed on a terminal."""

    name = "run"
    ways = ("whole", "streamed")

    def begin(self) -> None:
        self.session, self._shown = f"run{next(self.numbers)}", ""

    def say(self, text: str) -> None:
        self._run(text)

    def retry(self) -> None:
        self._run("--retry")

    def seen(self) -> str:
        return self._shown

    def close(self) -> None:
        return None  # each command is a process's work

    def _run(self, word: str) -> None:
        where = ("--session", self.session, "--store", self.store, "--config", self.config)
        how = ("-p", failing_plugin.__file__, "--model", self.provider.model_id)
        terminal = self.way == "streamed"
        self._shown += deep(self.folder, "run", word, *where, *how, terminal=terminal, env=self.provider.env)


class ChatDoor(Door):
    """`deep chat`, without the keys."""

    name = "chat"

    def __init__(self, provider: FailingProvider, folder: Path, way: Way) -> None:
        super().__init__(provider, folder, way)
        self._shown, self._loop, self._stack = io.StringIO(), ChatLoop(), contextlib.ExitStack()
        self._screen = ChatScreen(self._shown, stream=self._shown)
        progress = CliProgress(self._screen)
        with contextlib.chdir(folder):  # as in `_kernel`
            kernel = self._stack.enter_context(Kernel(plugins=[progress, failing_plugin], config=self.config))
        made = make_agent(kernel, provider.model(), "local", is_stored=True)
        self._chat = Chat(
            kernel,
            progress,
            made,
            StoredChat(new_id(str(folder)), str(folder), is_new=True),
            open_store(self.store),
            self._screen,
            make=lambda model: made,
            prompt=ChatPrompt(folder),
            approve="ask",
            max_requests=9,
            loop=self._loop,
        )

    def begin(self) -> None:
        self._loop.run(self._chat.begin_anew())
        self.session = self._chat.stored.id
        self._shown.seek(0)
        self._shown.truncate()

    def say(self, text: str) -> None:
        self._loop.run(self._chat.turn(text))

    def retry(self) -> None:
        assert self._loop.run(obey("/retry", self._chat, self._screen)) is True

    def seen(self) -> str:
        return self._shown.getvalue()

    def close(self) -> None:
        self._loop.run(self._chat.close())
        self._stack.close()
        self._loop.close()


# -- servers -----------------------------------------------------------------------------------------------------------


class _Served(Door):
    """A server in a thread of its own."""

    def __init__(self, provider: FailingProvider, folder: Path, way: Way) -> None:
        super().__init__(provider, folder, way)
        self.stack, self.talk = contextlib.ExitStack(), contextlib.ExitStack()
        self.portal: BlockingPortal = self.stack.enter_context(start_blocking_portal())

    def do(self, work: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        async def limited() -> Any:
            async with asyncio.timeout(SECONDS):
                return await work(*arguments)

        return self.portal.call(limited)

    def close(self) -> None:
        self.talk.close()
        self.stack.close()


class PageDoor(_Served):
    """The page: what its script makes of the server's events, and its button."""

    name = "page"

    def __init__(self, provider: FailingProvider, folder: Path, way: Way) -> None:
        super().__init__(provider, folder, way)
        serving = working(folder, provider.model(), plugins=[failing_plugin], config=CONFIG, store=self.store)
        self._running = self.stack.enter_context(self.portal.wrap_async_context_manager(serving))
        module = folder / "fold.mjs"  # as a module whatever the package.json above it says
        shutil.copy(FOLD, module)
        command = ["node", str(REPOSITORY / "plugins/web/tests/fold_server.mjs"), module.as_uri()]
        pipe = subprocess.PIPE
        self._node = self.stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        assert self._node.stdin is not None
        self.stack.callback(self._node.stdin.close)

    def begin(self) -> None:
        self.talk.close()
        self._page = self.talk.enter_context(self.portal.wrap_async_context_manager(self._running.page()))
        self.session, self._refusals = self._page.id, ""

    def say(self, text: str) -> None:
        self.do(self._page.ask, text)

    def retry(self) -> None:
        async def click() -> None:
            answer = await self._page.do("retry")
            if answer.status_code == 202:
                await self._page.settled()
            else:
                self._refusals += f"{answer.json()['error']}\n"

        self.do(click)

    def seen(self) -> str:
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        print(json.dumps({"events": [self._page.events]}), file=self._node.stdin, flush=True)
        items = json.loads(self._node.stdout.readline())["items"]
        lines = [item["text"] for item in items if item.get("text")]
        button = ["[Try again]"] if self._page.state.get("again") else []
        return "\n".join([*lines, *button, self._refusals])


class EditorDoor(_Served):
    """An editor that speaks the Agent Client Protocol."""

    name = "editor"

    def __init__(self, provider: FailingProvider, folder: Path, way: Way) -> None:
        super().__init__(provider, folder, way)
        self._work = folder / "work"
        self._work.mkdir()
        how: dict[str, Any] = {"model": provider.model_id, "store": self.store, "config": self.config}
        self.stack.enter_context(patch.dict(os.environ, provider.env))
        opened = connected(folder, failing_plugin, **how)
        self._editor = self.stack.enter_context(self.portal.wrap_async_context_manager(opened))

    def begin(self) -> None:
        async def new() -> str:
            made = await self._editor.connection.new_session(cwd=str(self._work), mcp_servers=[])
            return made.session_id

        self.session, self._errors = self.do(new), ""
        self._editor.clear()

    def say(self, text: str) -> None:
        async def prompt() -> None:
            try:
                reason = (await self._editor.prompt(self.session, text)).stop_reason
            except RequestError as error:
                self._errors += f"{error}\n"
            else:
                self._errors += f"stopped: {reason}\n"

        self.do(prompt)

    def retry(self) -> None:
        self.say("/retry")

    def seen(self) -> str:
        return f"{self._editor.text()}\n{self._errors}"


# -- programs ----------------------------------------------------------------------------------------------------------


def _kernel(folder: Path, config: Path) -> Kernel:
    """A kernel that reads no other door's project: an open page or editor stays in its folder."""
    with contextlib.chdir(folder):
        return Kernel(plugins=[failing_plugin], config=config)


class EmbeddedDoor(Door):
    """`DeepAgent` in a program."""

    name = "embedded"
    ways = ("whole", "streamed")
    shows_waits = False

    def __init__(self, provider: FailingProvider, folder: Path, way: Way) -> None:
        super().__init__(provider, folder, way)
        self._loop, self._stack = asyncio.Runner(), contextlib.ExitStack()
        kernel = self._stack.enter_context(_kernel(folder, self.config))
        deps = AgentDeps(model=provider.model(), kernel=kernel, session_store=self.store, runtime="memory")
        self._agent = self._loop.run(DeepAgent.create(deps=deps))

    def begin(self) -> None:
        self.session, self._shown = f"embedded{next(self.numbers)}", ""

    def say(self, text: str) -> None:
        async def stream() -> RunResult:
            items = [item async for item in self._agent.run_stream(text, session_id=self.session)]
            assert isinstance(items[-1], RunResult)
            return items[-1]

        self._tell(stream() if self.way == "streamed" else self._agent.run(text, session_id=self.session))

    def retry(self) -> None:
        async def hear(ctx: Any, events: Any) -> None:
            async for _ in events:
                pass

        self._tell(self._agent.retry(self.session, on_events=hear if self.way == "streamed" else None))

    def _tell(self, work: Any) -> None:
        try:
            done = self._loop.run(work)
        except AgentError as error:
            self._shown += f"{type(error).__name__}: {error.message}\n"
        else:
            why = words_of_end(done.finish_reason or "") if done.error is None else done.error.message
            self._shown += f"{done.status} {done.finish_reason} {done.code} {done.message or ''} {why}\n"

    def seen(self) -> str:
        return self._shown

    def close(self) -> None:
        self._loop.run(self._agent.close())
        self._stack.close()
        self._loop.close()


class WorkerDoor(Door):
    """The queue of a worker: messages are left for it, and people look at what became of them."""

    name = "worker"
    ways = ("whole",)
    tries_itself = True
    shows_waits = False

    def __init__(self, provider: FailingProvider, folder: Path, way: Way) -> None:
        super().__init__(provider, folder, way)
        self._loop, self._stack = asyncio.Runner(), contextlib.AsyncExitStack()
        kernel = self._stack.enter_context(_kernel(folder, self.config))

        async def opened() -> None:
            with patch.dict(os.environ, provider.env):
                opening = open_runner(kernel, self.store, model=provider.model_id, backend="memory")
                self._runner = await self._stack.enter_async_context(opening)
            self._queue = open_queue(self.store)

        self._loop.run(opened())

    def begin(self) -> None:
        self.session, self._shown = f"worker{next(self.numbers)}", ""

    def say(self, text: str) -> None:
        async def leave() -> None:
            await enqueue(self._runner.store, self.session, text)
            await self._work()

        # A key is read when a model is made, which may be as late as the run.
        with patch.dict(os.environ, self.provider.env):
            self._loop.run(leave())
        self._look()

    def retry(self) -> None:
        if self._loop.run(self._waits()):
            with patch.dict(os.environ, self.provider.env):
                self._loop.run(self._work())
        else:  # no job waits: a person asks for it
            where = ("--session", self.session, "--store", self.store, "--config", self.config)
            how = ("-p", failing_plugin.__file__, "--model", self.provider.model_id)
            self._shown += deep(self.folder, "run", "--retry", *where, *how, env=self.provider.env)
        self._look()

    async def _waits(self) -> bool:
        return any(job.session_id == self.session for job in await self._queue.jobs())

    async def _work(self) -> None:
        """Work until the session is done, or has met a provider that is down."""
        how: dict[str, Any] = {"store": self._runner.store, "provider": self._runner.provider}
        patience = Patience(first=0.02, most=0.02)
        worker = Worker(partial(finish, self._runner), self._queue, patience=patience, **how)
        before, task = len(self.provider.asked), asyncio.ensure_future(worker.run())
        async with asyncio.timeout(SECONDS):
            while await self._waits():
                found = [job for job in await self._queue.jobs() if job.session_id == self.session]
                met = len(self.provider.asked) > before or not self.provider.is_up
                if met and not self.provider.answers and any(job.provider for job in found):
                    break
                assert not any(job.state == "set aside" for job in found), found
                assert not task.done(), task.exception()
                await asyncio.sleep(0.01)
        worker.stop()
        await task

    def _look(self) -> None:
        self._shown += deep(self.folder, "sessions", "show", self.session, "--store", self.store)
        self._shown += deep(self.folder, "workers", "--store", self.store)

    def seen(self) -> str:
        return self._shown

    def close(self) -> None:
        async def end() -> None:
            await self._queue.aclose()
            await self._stack.aclose()

        self._loop.run(end())
        self._loop.close()


DOORS: tuple[type[Door], ...] = (RunDoor, ChatDoor, PageDoor, EditorDoor, EmbeddedDoor, WorkerDoor)
