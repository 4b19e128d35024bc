"""Ctrl-C ends every wait of a command, whenever it comes: at any step before the wait, just before it, and in it."""

from __future__ import annotations

import _thread
import asyncio
import io
import os
import pty
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import call
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import anyio.to_thread
import pytest
from deep_cli import TerminalReporter, run_task
from deep_cli.chat.conversation import Chat
from deep_cli.chat.screen import ChatScreen
from deep_cli.chat.stored import StoredChat, new_id
from deep_cli.run.agent import make_agent
from deep_cli.run.approval import Answer, Question
from deep_cli.run.progress import CliProgress
from deep_cli.terminal.interrupts import ChatLoop
from deep_cli.terminal.waiting import exit_code, interruptible_stdin
from deep_sessions import MemoryStore
from pydantic_ai.models.function import FunctionModel

from deep_core import ApprovalEvent, Kernel, RunEvent
from tests.environments import Distribution
from tests.stubs import Call, Script, function_model

QUESTION = Question("c1", "execute", "filesystem", {"command": "rm x"})
SELECT = select.select


@dataclass
class Terminal:
    """A terminal without a command on it.

    Attributes:
        here: where a person types.
        there: what the program reads.
    """

    here: int
    there: Any

    def type(self, text: str) -> None:
        """Type it."""
        os.write(self.here, text.encode())

    def unread(self) -> str:
        """The typed and unread text, once there is any."""
        assert SELECT([self.there], [], [], 60)[0]
        return os.read(self.there.fileno(), 100).decode()


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    here, there = pty.openpty()
    with open(there, encoding="utf-8", closefd=False) as stream:
        yield Terminal(here, stream)
    os.close(here)
    os.close(there)


def in_c(*calls: Callable[[], Any]) -> deque[Any]:
    """Make the calls without a Python step between them, which would handle signals; return the last two results."""
    return deque(map(call, calls), maxlen=2)


def ask(terminal: Terminal) -> Answer:
    return TerminalReporter(stream=io.StringIO(), replies=terminal.there).ask(QUESTION)  # type: ignore[misc]


def test_a_question_is_answered_by_the_line_that_is_typed(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def typed(*sets: Any) -> Any:
        terminal.type("ye\x7fes\nn\n")
        monkeypatch.undo()
        return SELECT(*sets)

    monkeypatch.setattr(select, "select", typed)
    assert ask(terminal) == "yes"
    assert terminal.unread() == "n\n"


def test_a_signal_marked_just_before_the_wait_ends_it_and_the_next_key_stays_unread(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready: deque[Any] = deque()

    def marked(*sets: Any) -> Any:
        terminal.type("y\n")  # what a person does whose Ctrl-C was not heard
        ready.extend(map(call, (_thread.interrupt_main, partial(SELECT, *sets))))
        return ready[-1]

    monkeypatch.setattr(select, "select", marked)
    with pytest.raises(KeyboardInterrupt):
        ask(terminal)
    descriptors = ready[-1][0]
    assert [d for d in descriptors if d != terminal.there.fileno()], "the wait ended by the key, not by the signal"
    assert terminal.unread() == "y\n"


def test_a_signal_in_the_wait_ends_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()

    def person() -> None:
        waits.wait()
        os.kill(os.getpid(), signal.SIGINT)

    def waiting(*sets: Any) -> Any:
        return in_c(waits.set, partial(SELECT, *sets))[-1]

    monkeypatch.setattr(select, "select", waiting)
    thread = threading.Thread(target=person)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ask(terminal)
    thread.join()


@pytest.mark.slow
def test_a_signal_at_any_step_of_a_question_ends_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, at = 0, 0

    def step(frame: FrameType, event: str, value: Any) -> Any:
        nonlocal steps
        if "deep_cli" not in frame.f_code.co_filename:
            return None
        if event == "line":
            steps += 1
            if steps == at:
                signal.raise_signal(signal.SIGINT)
        return step

    def person(*sets: Any) -> Any:
        terminal.type("y\n")  # so that what is after the wait has its turn too
        return SELECT(*sets)

    def answer() -> Answer:
        nonlocal steps
        steps = 0
        before = sys.gettrace()
        sys.settrace(step)
        try:
            return ask(terminal)
        finally:
            sys.settrace(before)

    monkeypatch.setattr(select, "select", person)
    assert answer() == "yes"
    assert steps > 50
    for last in range(1, steps + 1):
        at = last
        usual = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            answer()
        assert signal.getsignal(signal.SIGINT) is usual
        signal.set_wakeup_fd(-1)


def test_a_signal_that_a_handler_takes_does_not_end_a_question(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[int] = []
    woken: list[bool] = []

    def person(*sets: Any) -> Any:
        if heard:
            terminal.type("y\n")
        else:
            os.kill(os.getpid(), signal.SIGUSR1)
        found = SELECT(*sets, 60)
        woken.append(bool(found[0]))
        return found

    usual = signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    monkeypatch.setattr(select, "select", person)
    try:
        assert ask(terminal) == "yes"
    finally:
        signal.signal(signal.SIGUSR1, usual)
    assert (heard, woken) == ([signal.SIGUSR1], [True, True])


def test_input_and_what_asks_with_it_read_the_stdin_that_a_signal_ends(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def marked(*sets: Any) -> Any:
        terminal.type("y\n")
        return in_c(_thread.interrupt_main, partial(SELECT, *sets))[-1]

    monkeypatch.setattr(sys, "stdin", terminal.there)
    monkeypatch.setattr(sys, "stdin", interruptible_stdin())
    assert sys.stdin.isatty()
    assert sys.stdin.fileno() != terminal.there.fileno()  # or `input()` would read the terminal by itself
    monkeypatch.setattr(select, "select", marked)
    with pytest.raises(KeyboardInterrupt):
        input()
    assert terminal.unread() == "y\n"
    os.close(sys.stdin.fileno())


# -- an event loop -----------------------------------------------------------------------------------------------------


class Marking(selectors.SelectSelector):
    """Marks a signal just before the loop waits, once it is armed; the wait is not longer than a minute."""

    armed = False
    found: ClassVar[deque[Any]] = deque(maxlen=1)

    def _select(self, *sets: Any) -> Any:
        *sets, timeout = sets
        if not Marking.armed:
            return SELECT(*sets, timeout)
        Marking.armed = False
        Marking.found.extend(map(call, (_thread.interrupt_main, partial(SELECT, *sets, 60))))
        return Marking.found[-1]


@pytest.fixture
def marking(monkeypatch: pytest.MonkeyPatch) -> type[Marking]:
    monkeypatch.setattr(selectors, "DefaultSelector", Marking)
    return Marking


def test_a_signal_marked_just_before_the_wait_for_the_model_ends_the_run(
    tmp_path: Path, marking: type[Marking]
) -> None:
    async def silent(*_: Any) -> Any:
        marking.armed = True
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run_task("Go", model=FunctionModel(silent), folder=tmp_path)
    assert marking.found[-1][0], "the wait ended by its time"


# -- other processes ---------------------------------------------------------------------------------------------------


def test_a_signal_marked_while_a_process_is_waited_for_is_heard_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = time.sleep

    def marked(seconds: float) -> None:
        # Threads of other tests sleep too: those that attend background commands, for as long as they run.
        if threading.current_thread() is threading.main_thread():
            in_c(_thread.interrupt_main, partial(sleep, seconds))
        else:
            sleep(seconds)

    monkeypatch.setattr(time, "sleep", marked)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with child:
        with pytest.raises(KeyboardInterrupt):
            exit_code(child)
        assert child.poll() is None
        child.kill()


def test_a_process_that_takes_longer_than_it_may_has_no_exit_code() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert exit_code(child, 0.01) is None
        child.communicate(b"\n")
        assert exit_code(child, 60) == 0


HANGS_THE_SECOND_TIME = """
import os
import signal
from pathlib import Path
if not Path("seen").exists():
    Path("seen").touch()
    os._exit(7)
os.open("alive", os.O_WRONLY)  # waits until the test has opened it, and is open as long as this process lives
signal.pause()
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_check_and_the_processes_that_probe_plugins_for_it(make_deep: Any) -> None:
    plugin = Distribution("acme-hangs", {"hangs": "acme_hangs"}, {"acme_hangs.py": HANGS_THE_SECOND_TIME})
    deep = make_deep(others=(plugin,))
    os.mkfifo(deep.work / "alive")
    process = deep.start("doctor", "--timeout", "3600")
    with open(deep.work / "alive", "rb") as alive:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (130, "deep: interrupted\n")
        assert alive.read() == b""  # its end: the process is gone


STARTS = """
import signal, sys

class Typed:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Typed())
sys.argv = ["deep", "run", "Go"]
from deep_command import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    ["deep_cli", "deep_core.lazy", "deep_cli.__main__", "click", "deep_cli.main", "deep_cli.plugins.warnings",
     "deep_core.plugins.index", "deep_cli.run.command", "deep_cli.run.task_screen", "deep_cli.run.runner",
     "pydantic_ai", "deep_filesystem"],
)  # fmt: skip
def test_ctrl_c_while_a_command_imports_is_a_quiet_exit(deep: Any, module: str) -> None:
    done = deep.environment.run(deep.environment.python, "-P", "-c", STARTS.format(module=module))
    assert (done.code, done.out) == (130, ""), done.err
    assert done.err in ("", "deep: interrupted\n") or done.err.startswith("deep: interrupted; ")


# -- a chat ------------------------------------------------------------------------------------------------------------


class Typing(ChatScreen):
    """A screen on which Ctrl-C is typed once: when the first run begins, or when its call waits for approval."""

    def __init__(self, when: str) -> None:
        super().__init__(io.StringIO(), stream=io.StringIO())
        self._when = when

    def _type(self, now: str) -> None:
        if now == self._when:
            self._when = ""
            signal.raise_signal(signal.SIGINT)

    def waiting(self) -> None:
        super().waiting()
        self._type("begins")

    def event(self, event: RunEvent) -> None:
        super().event(event)
        if isinstance(event, ApprovalEvent):
            self._type("ends with a question")


@pytest.mark.parametrize("when", ["begins", "ends with a question"])
def test_a_signal_as_a_run_of_a_chat_begins_or_ends_stops_the_turn_and_the_next_one_is_answered(when: str) -> None:
    call = Call("execute", {"command": "touch made"})
    script = Script(*(["good"] if when == "begins" else [call, "good"]))
    screen, store, loop = Typing(when), MemoryStore(), ChatLoop()
    progress = CliProgress(screen)
    with Kernel(plugins=[progress]) as kernel:
        made = make_agent(kernel, function_model(script), "local", is_stored=True)
        new = StoredChat(new_id(str(Path.cwd())), str(Path.cwd()))
        chat = Chat(
            kernel,
            progress,
            made,
            new,
            store,
            screen,
            make=lambda model: made,
            approve="ask",
            max_requests=9,
            loop=loop,
        )
        assert loop.run(chat.turn("go")) == "stopped"
        assert not chat.has_denials  # nothing was decided
        assert list(Path.cwd().iterdir()) == []
        assert loop.run(chat.turn("go on")) == "done"
    loop.close()


def test_a_thread_that_waits_for_work_is_no_tool_that_does_not_stop() -> None:
    loop, go_on, entered = ChatLoop(), threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        go_on.wait()

    async def turns() -> list[bool]:
        await anyio.to_thread.run_sync(int)  # its thread stays for this task
        idle = await loop.thread_at_work()
        at_work = asyncio.create_task(anyio.to_thread.run_sync(work, abandon_on_cancel=True))
        while not entered.is_set():
            await asyncio.sleep(0)
        at_work.cancel()
        found = [idle, await loop.thread_at_work()]
        go_on.set()
        return [*found, await loop.thread_at_work()]

    assert loop.run(turns()) == [False, True, False]
    loop.close()
