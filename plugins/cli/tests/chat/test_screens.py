"""What a person sees on a terminal, through an emulator: at two sizes, resized in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from plugins.cli.tests.chat_terminal import ALT_ENTER, CTRL_C, CTRL_D, ESC, SHIFT_TAB, Terminal
from tests.stubs import Call, OpenAIStub, RequestView, Script

MODEL = ("--model", "openai-chat:stub")
SIZES = [((80, 24), (100, 30)), ((160, 50), (90, 28))]
sizes = pytest.mark.parametrize(("size", "then"), SIZES, ids=["80x24", "160x50"])
EDIT = Call("edit_file", {"path": "a.txt", "old_string": "hello", "new_string": "goodbye"})
ANSWER = (
    "# Done\n\nThe file says **goodbye** now, and "
    + "nothing else has changed in this folder; " * 4
    + "see:\n\n```\nx\n```\n"
)


def block(lines: list[str], first: str, count: int) -> list[str]:
    """These many lines, from the first that begins so."""
    at = next((place for place, line in enumerate(lines) if line.startswith(first)), None)
    assert at is not None, "\n".join(lines)
    return lines[at : at + count]


def whole_words(lines: list[str], text: str) -> None:
    """No word of a text is broken over two lines."""
    words = {word.strip("*#`") for word in text.split()}
    shown = [word for line in lines for word in line.split()]
    assert words <= {*shown, ""}, words - {*shown}


@pytest.mark.slow
@sizes
def test_the_demo(tmp_path: Path, own_home: Path, size: tuple[int, int], then: tuple[int, int]) -> None:
    class Here:
        """The command of this environment, which has the sample project."""

        def attach(self, terminal: int, *arguments: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
            variables = {**os.environ, **env, "DEEP_PLUGINS_ALLOW": "backends,cli,demo,filesystem,sessions,todo"}
            command = [sys.executable, "-P", "-m", "deep_cli", *arguments]
            return subprocess.Popen(
                command, cwd=tmp_path, env=variables, stdin=terminal, stdout=terminal, stderr=terminal
            )

    with Terminal(Here(), "demo", "--dir", "copy", env={}, size=size) as terminal:
        terminal.expect("✓ ls .")
        terminal.resize(*then)
        assert terminal.end() == 0
    lines = terminal.lines
    (failed,) = [line for line in lines if "✗ execute" in line]
    assert failed.startswith("  ✗ execute $ python3 -m unittest  exit code 1")
    at = lines.index(failed)
    assert "    │ FAILED (failures=1)" in lines[at : at + 8]
    assert block(lines, "  ✓ edit_file invoices/money.py  +1 -1", 9)[5:7] == [
        "    -    return int(float(text) * 100)",
        "    +    return round_cents(Decimal(text) * 100)",
    ]
    assert block(lines, "    ☑ Look around", 4)[1].startswith("    ◐ Find what is wrong")
    assert "todos=" not in "\n".join(lines)
    assert any(line.startswith(" • Ran the tests again: all 6 tests pass.") for line in lines)
    assert block(lines, "Files ", 1) == ["Files    changed  CHANGELOG.md"]
    assert max(map(len, lines)) <= max(size[0], then[0])


@pytest.mark.slow
@sizes
def test_a_chat_with_an_edit_that_is_approved_and_one_that_is_undone(
    deep: Any, size: tuple[int, int], then: tuple[int, int]
) -> None:
    again = Call("edit_file", {"path": "a.txt", "old_string": "goodbye", "new_string": "oops"})
    script = Script(Call("read_file", {"path": "a.txt"}), EDIT, ANSWER, again, "Changed again.", "Fine.")
    with OpenAIStub(script) as stub, Terminal(deep, "chat", *MODEL, env=stub.env, size=size) as terminal:
        terminal.say("say goodbye")
        terminal.see("    run it? yes, no, always")
        assert block(terminal.display, "  ? edit_file wants to run", 6)[4:] == ["    -hello", "    +goodbye"]
        terminal.resize(*then)
        terminal.type("y\r")
        terminal.prompt()
        whole_words(terminal.lines, ANSWER)
        done = block(terminal.lines, "  ✓ edit_file a.txt  +1 -1", 2)
        assert done[1] == ""  # its diff stands with the question
        assert (deep.work / "a.txt").read_text() == "goodbye\n"
        terminal.type(SHIFT_TAB)
        terminal.see("ready · accept-edits")
        terminal.say("and again")
        terminal.expect("Changed again.")
        assert (deep.work / "a.txt").read_text() == "oops\n"
        assert any("approved: edit_file a.txt  [filesystem, by mode: accept-edits]" in line for line in terminal.lines)
        terminal.say("/diff")
        terminal.expect("+oops")
        terminal.say("/undo")
        terminal.expect("restored a.txt")
        assert (deep.work / "a.txt").read_text() == "goodbye\n"
        terminal.say("go on")
        terminal.expect("Fine.")
        terminal.prompt()
        assert terminal.display[-1] == ">"
        assert terminal.display[-2].startswith("ready · accept-edits · openai-chat:stub")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert [m["content"] for m in stub.requests[-1]["messages"] if m["role"] == "user"] == ["say goodbye", "go on"]
    assert max(map(len, terminal.lines)) <= max(size[0], then[0])


@pytest.mark.slow
@sizes
def test_an_interrupted_turn_whose_queue_continues(deep: Any, size: tuple[int, int], then: tuple[int, int]) -> None:
    asked, go = threading.Event(), threading.Event()

    def slow(view: RequestView) -> str:
        asked.set()
        go.wait(60)
        return "too late"

    with (
        OpenAIStub(Script(Call("read_file", {"path": "a.txt"}), slow, "Two.")) as stub,
        Terminal(deep, "chat", *MODEL, env=stub.env, size=size) as terminal,
    ):
        terminal.say("one")
        assert asked.wait(60)
        terminal.type("two\r")
        terminal.see("  next: two")
        terminal.resize(*then)
        terminal.type("half")
        terminal.see("> half")
        assert "  next: two" in terminal.see("waiting for the model · ")
        terminal.type(ESC)
        terminal.expect("✗ stopped")
        go.set()
        terminal.expect("Two.")
        terminal.prompt("half")
        assert not any("next: " in line for line in terminal.display)
        assert block(terminal.lines, "> two", 1) == ["> two"]
        terminal.type(CTRL_C)
        terminal.see(">")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert [m["content"] for m in stub.requests[-1]["messages"] if m["role"] == "user"] == ["one", "two"]


@pytest.mark.slow
def test_what_is_steered_reaches_the_run_under_way_and_never_the_answer(deep: Any) -> None:
    asked, go = threading.Event(), threading.Event()

    def slow(view: RequestView) -> Call:
        asked.set()
        go.wait(60)
        return Call("read_file", {"path": "a.txt"})

    with OpenAIStub(Script(slow, "As you say.")) as stub, Terminal(deep, "chat", *MODEL, env=stub.env) as terminal:
        terminal.say("begin")
        assert asked.wait(60)
        terminal.type(f"be brief{ALT_ENTER}")
        terminal.expect("steering: be brief")
        go.set()
        terminal.expect("As you say.")
        terminal.prompt()
    assert "be brief" in str(stub.requests[1]["messages"])
    assert len(stub.requests) == 2


@pytest.mark.slow
def test_deep_alone_chats(make_deep: Any) -> None:
    deep = make_deep("backends", "filesystem", "demo")
    (deep.work / "a.txt").write_text("hello")
    with Terminal(deep, env={"DEEP_MODEL": "demo:echo"}) as terminal:
        terminal.say("hello")
        terminal.expect("> hello")
        terminal.expect("hello")
        terminal.prompt()
        terminal.type("!echo $((40 + 2))\r")
        terminal.expect("42")
        terminal.type("see @a.t\t")
        terminal.see("> see @a.txt")
        terminal.type(CTRL_C)
        terminal.type("/sess\t\r")
        terminal.expect("hello  (this one)")
        terminal.say("/fork")
        terminal.expect("which stays as it is")
        terminal.say("/tools read_file")
        terminal.expect("read_file                filesystem")
