"""The first hour on a terminal, in fifteen steps. What a person sees after each is kept in `screens/`, to be read.

`python -m scripts.first_hour` writes the screens again.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deep_demo import copy_sample_project

from plugins.cli.tests.chat_terminal import ALT_ENTER, CTRL_D, ESC, SHIFT_TAB, Terminal
from plugins.cli.tests.conftest import made, started
from tests.environments import Distribution
from tests.stubs import AnthropicStub, Call, RequestView, Script, Turn, Usage

__all__ = ["SCREENS", "SIZES", "hour", "installed", "read_screens", "seen", "write_screens"]

SCREENS = Path(__file__).parent / "screens"
SIZES = [(80, 24), (160, 50), (40, 24)]
TEMPORARY = "/tmp"
"""The screens show folders in it. That of `TMPDIR` may have a longer name, and its lines break elsewhere."""
MODEL = "anthropic:claude-sonnet-4-5"
TESTS = "python3 -m unittest"
STOPPED_CLOCK = """
import deep_cli.view
from deep_core import hookimpl

deep_cli.view._duration = lambda seconds: "1 s"


@hookimpl
def deep_toolsets(context):
    return []
"""
"""A plugin by whose clock everything takes a second."""
OLD, NEW = "    return int(float(text) * 100)", "    return round_cents(Decimal(text) * 100)"
TABLE = """Three files have tests:

| File | Tests | What they are about |
|---|---:|---|
| `tests/test_money.py` | 3 | cents, and how half a cent is rounded |
| `tests/test_report.py` | 2 | the table of a month, and its total |
| `tests/test_load.py` | 1 | lines of a CSV file that are not complete |

1. Run them with `python3 -m unittest`.
2. One of them **fails** now.

```python
def to_cents(text: str) -> int:
\treturn int(float(text) * 100)
```
"""


def says(text: str = "", *calls: Call) -> Turn:
    """A turn of the model at a fixed price."""
    return Turn(text, calls, Usage(2_400, 60, 1_800))


class Held:
    """A turn of the model that waits until the user has typed something."""

    def __init__(self, turn: Turn) -> None:
        self.asked, self.go = threading.Event(), threading.Event()
        self._turn = turn

    def __call__(self, view: RequestView) -> Turn:
        self.asked.set()
        assert self.go.wait(60)
        return self._turn


@contextmanager
def installed() -> Generator[Any]:
    """The command with the usual plugins, in a folder whose path is as long each time: lines break alike."""
    root = Path(tempfile.mkdtemp(prefix="deep-", dir=TEMPORARY)).resolve()
    clock = Distribution("stopped-clock", {"stopped_clock": "stopped_clock"}, {"stopped_clock.py": STOPPED_CLOCK})
    try:
        deep = started(made(root, "backends", "filesystem", "demo", "todo", "summarization", others=(clock,)))
        copy_sample_project(deep.work)
        yield deep
    finally:
        shutil.rmtree(root)


def seen(terminal: Terminal, size: tuple[int, int]) -> list[str]:
    """What fits the screen, with what differs each time replaced by as many characters.

    Not the screen itself: a status line that was higher leaves empty lines below, as many as the machine was slow.
    """
    text = "\n".join(terminal.lines[-size[1] :])
    for digits in (r"(?<=/deep-)[a-z0-9_]{8}(?=/)", r"(?<=deep-demo-)[a-z0-9_]{7}\n?[a-z0-9_]"):
        text = re.sub(digits, lambda found: re.sub(r"\w", "x", found[0]), text)
    text = re.sub(r"\b(?=[a-f]*[0-9])[0-9a-f]{8}\b", "0" * 8, text)
    text = re.sub(r"(?<=rk-)[0-9a-f]{12}", "0" * 12, text)
    return re.sub(r"(?<=tests in 0\.)\d+", "000", text).split("\n")


def hour(deep: Any, size: tuple[int, int]) -> Iterator[tuple[str, Terminal]]:
    """Walk; yields what was done, when the screen shows it.

    Args:
        deep: the command, of `installed`.
        size: columns and lines of the terminal.
    """
    with Terminal(deep, "demo", env={"TMPDIR": TEMPORARY}, size=size) as terminal:
        terminal.expect("deep doctor")
        assert terminal.end() == 0
        yield "1 deep demo shows a whole run, without a key", terminal
    held, stopped = Held(says("", Call("read_file", {"path": "CHANGELOG.md"}))), Held(says("Too late."))
    fix = {"path": "invoices/money.py", "old_string": OLD, "new_string": NEW}
    script = Script(
        says(TABLE),
        says("I run them.", Call("execute", {"command": TESTS})),
        says("", Call("read_file", {"path": "invoices/money.py"})),
        says("", Call("edit_file", fix)),
        says("", Call("execute", {"command": TESTS})),
        says("All 6 tests pass: **19.99** is 1999 cents."),
        says("It has five invoices."),
        held,
        says("The change log is complete."),
        says("The README is up to date, too."),
        stopped,
        says("", Call("write_file", {"path": "NOTES.md", "content": "# Notes\n\n- Half a cent goes up.\n"})),
        says("Written."),
        says("", Call("write_todos", {"todos": [todo("Round in one place"), todo("Say so in the README")]})),
        says("Two steps: see the list."),
        says("", Call("read_file", {"path": "README.md"})),
        says("", Call("edit_file", {"path": "README.md", "old_string": "# Inv", "new_string": "# The inv"})),
        says("Both are done."),
        then=says("Good."),
    )
    with AnthropicStub(script) as stub:

        def start(*arguments: str, **env: str) -> Terminal:
            return Terminal(deep, *arguments, env={**stub.env, "DEEP_MODEL": MODEL, **env}, size=size)

        with start() as chat:
            chat.prompt()
            yield "2 deep opens a chat", chat
            chat.say("Which tests are there?")
            chat.expect("Run them with")
            chat.prompt()
            yield "3 an answer with a table, a list and code", chat
            chat.say("Fix the one that fails.")
            chat.see("    run it?")
            yield "4 a command asks", chat
            chat.type("a\r")
            chat.see("    which?")
            yield "5 what always can cover", chat
            chat.type("1\r")
            chat.expect("edit_file wants to run")
            chat.see("    run it?")
            yield "6 an edit asks, with its diff", chat
            chat.type("e\r")
            chat.expect("is 1999 cents")
            chat.prompt()
            yield "7 the tests ran again, by the rule", chat
            chat.say("!ls data; printf 'a\\tb\\n'")
            chat.expect("b\n")
            chat.say("What is in @data/march.csv?")
            chat.expect("It has five invoices.")
            chat.prompt()
            yield "8 a command of one's own, and an attached file", chat
            chat.say("Is the change log complete?")
            assert held.asked.wait(60)
            chat.type("And is the README up to date?\r")
            chat.type(f"Only look at this month{ALT_ENTER}")
            chat.expect("steering: Only look at this month")
            yield "9 one message waits, another one steers", chat
            held.go.set()
            chat.expect("The README is up to date, too.")
            chat.say("Explain every file.")
            assert stopped.asked.wait(60)
            chat.type(ESC)
            chat.expect("✗ stopped")
            stopped.go.set()
            chat.prompt()
            yield "10 Esc stops a turn", chat
            chat.say("Write down how we round.")
            chat.expect("Written.")
            chat.say("/diff")
            chat.expect("+- Half a cent goes up.")
            chat.prompt()
            yield "11 /diff, with a new file", chat
            chat.say("/undo")
            chat.expect("restored NOTES.md")
            chat.prompt()
            yield "12 /undo", chat
            chat.type(SHIFT_TAB)
            chat.see("ready · plan")
            chat.say("Plan how to round in one place.")
            chat.see("    your answer")
            yield "13 a plan waits for a word", chat
            chat.type("1\r")
            chat.see("    run it?")
            chat.type("y\r")
            chat.expect("Both are done.")
            chat.say("/model antropic:claude-sonnet-4-5")
            chat.prompt()
            chat.say("/serach round")
            chat.prompt()
            chat.say("/search change log")
            chat.expect("/resume ID continues one")
            chat.prompt()
            yield "14 mistakes, and /search", chat
            chat.type(CTRL_D)
            assert chat.end() == 0
        with start("chat", "--resume") as chat:
            chat.prompt()
            yield "15 the chat is resumed", chat
            chat.type(CTRL_D)
            assert chat.end() == 0


def todo(content: str) -> dict[str, str]:
    """A task that is to be done."""
    return {"content": content, "status": "pending"}


# -- the files ---------------------------------------------------------------------------------------------------------


def screens_file(size: tuple[int, int]) -> Path:
    """The file of a size."""
    return SCREENS / f"first-hour-{size[0]}x{size[1]}.txt"


def write_screens(size: tuple[int, int], screens: Iterable[tuple[str, list[str]]]) -> Path:
    """Write what was seen."""
    path, rule = screens_file(size), "=" * size[0]
    path.parent.mkdir(exist_ok=True)
    blocks = ["\n".join([f"{rule} {title}", *lines, ""]) for title, lines in screens]
    path.write_text("".join(blocks), encoding="utf-8")
    return path


def read_screens(size: tuple[int, int]) -> dict[str, list[str]]:
    """Read what is to be seen: lines by title."""
    text = screens_file(size).read_text(encoding="utf-8")
    found = re.split(rf"^={{{size[0]}}} (.+)\n", text, flags=re.M)[1:]
    return {title: body.split("\n")[:-1] for title, body in zip(found[::2], found[1::2], strict=True)}
