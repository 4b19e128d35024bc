"""`deep chat` on a terminal: a real pseudo-terminal, a stub of a provider that streams, real files and commands."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deep_sessions import create, new_conversation_id, open_store, write_prompt

from plugins.cli.tests.chat_terminal import ALT_ENTER, CTRL_C, CTRL_D, ESC, UP, Terminal
from tests.stubs import Call, Failure, OpenAIStub, RequestView, Script, Turn

MODEL = ("--model", "openai-chat:stub")
WRITE = Call("write_file", {"path": "new.txt", "content": "one\ntwo\n"})
EXECUTE = Call("execute", {"command": "printf made > b.txt"})
ASKS = "[agent]\ninterrupt_on = { edit_file = true, write_file = true }\n"
LONG = "The first half of it. " * 4 + "The other half. " * 4


class HeldStub(OpenAIStub):
    """Sends the first half of a `LONG` answer, and the rest when the test says so."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.go_on = threading.Event()

    def handle(self, *request: Any) -> Any:
        reply = super().handle(*request)
        if not any(b"first half" in event.encode() for event in reply.events):
            return reply
        return replace(reply, events=_Held(reply.events, self.go_on))


class _Held(list[Any]):
    def __init__(self, events: Sequence[Any], go_on: threading.Event) -> None:
        super().__init__(events)
        self._go_on = go_on

    def __iter__(self) -> Iterator[Any]:
        for index, event in enumerate(super().__iter__()):
            if index == 3:  # after the role and half of the text
                self._go_on.wait(60)
            yield event


@pytest.fixture
def chat(deep: Any) -> Callable[..., Terminal]:
    """Starts `deep chat` on a terminal: `chat(stub, "--resume")`."""

    def start(stub: OpenAIStub, *arguments: str) -> Terminal:
        return Terminal(deep, "chat", *MODEL, *arguments, env=stub.env)

    return start


def data(deep: Any) -> Path:
    """The user's data folder."""
    return deep.environment.home / ".local" / "share" / "deep"


def stored(deep: Any) -> list[str]:
    """The ids of the stored chats."""
    return [found["id"] for found in json.loads(deep("sessions", "list", "--json").ok().out)["sessions"]]


def texts(deep: Any, session: str) -> list[str]:
    """What a stored conversation says."""
    return [message["text"] for message in json.loads(deep("sessions", "show", session, "--json").ok().out)["messages"]]


def _say_hello(chat: Any, stub: OpenAIStub) -> None:
    """Begin a conversation, and leave it."""
    with chat(stub) as terminal:
        terminal.say("hello")
        terminal.expect("one")
        terminal.prompt()
        terminal.type(CTRL_D)
        terminal.end()


def wire(stub: OpenAIStub, request: int = -1) -> list[tuple[str, Any]]:
    """The messages of a request, without the system's: (role, text)."""
    return [(m["role"], m["content"]) for m in stub.requests[request]["messages"] if m["role"] != "system"]


# -- turns ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_conversation_continues_over_turns_and_leaving_says_how_to_resume(deep: Any, chat: Any) -> None:
    with OpenAIStub(Script("I am fine.", "You said hello.")) as stub, chat(stub) as terminal:
        terminal.say("hello")
        terminal.expect("I am fine.")
        terminal.say("what did I say?")
        terminal.expect("You said hello.")
        terminal.prompt()
        terminal.type(CTRL_D)
        (session,) = stored(deep)
        terminal.expect(f"deep chat --resume {session[-8:]}")
        assert terminal.end() == 0
    assert texts(deep, session) == ["hello", "I am fine.", "what did I say?", "You said hello."]
    assert wire(stub) == [("user", "hello"), ("assistant", "I am fine."), ("user", "what did I say?")]


@pytest.mark.slow
def test_the_answer_is_on_the_screen_before_it_is_whole(chat: Any) -> None:
    with HeldStub(Script(LONG)) as stub, chat(stub) as terminal:
        terminal.say("tell me")
        terminal.expect("The first half of it.")
        assert "The other half." not in terminal.screen
        stub.go_on.set()
        terminal.expect("The other half. The other half.")
        terminal.prompt()


@pytest.mark.slow
def test_tool_calls_are_one_line_each_and_requests_are_not_shown(chat: Any) -> None:
    calls = [Call("read_file", {"path": "a.txt"}), Call("glob", {"pattern": "*.txt"})]
    with OpenAIStub(Script(calls, "It says hello.")) as stub, chat(stub) as terminal:
        terminal.say("look")
        terminal.expect("It says hello.")
    assert terminal.screen.count("✓ read_file a.txt  [filesystem,") == 1
    assert terminal.screen.count("✓ glob *.txt  [filesystem,") == 1
    assert "→ request" not in terminal.screen


@pytest.mark.slow
def test_into_a_file_go_the_answers_alone_and_the_prompt_stays_on_the_screen(deep: Any) -> None:
    class IntoFile:
        """`deep … > answers`, typed on a terminal."""

        def attach(self, terminal: int, *arguments: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
            with open(deep.work / "answers", "wb") as answers:
                return subprocess.Popen(
                    deep.command(*arguments),
                    cwd=deep.work,
                    env=deep.environment.variables(**env),
                    stdin=terminal,
                    stdout=answers,
                    stderr=terminal,
                    start_new_session=True,
                )

    with OpenAIStub(Script("I am fine.")) as stub, Terminal(IntoFile(), "chat", *MODEL, env=stub.env) as terminal:
        terminal.say("hello")
        terminal.say("/quit")
        assert terminal.end() == 0
    assert (deep.work / "answers").read_text() == "I am fine.\n"


@pytest.mark.slow
def test_what_the_model_writes_cannot_move_the_cursor(chat: Any) -> None:
    with OpenAIStub(Script("up\x1b[2Kand \u202eaway")) as stub, chat(stub) as terminal:
        terminal.say("go")
        terminal.see("up\\x1b[2Kand \\u202eaway")


@pytest.mark.slow
def test_several_lines_are_one_message(chat: Any) -> None:
    with OpenAIStub(Script("one", "two", "three")) as stub, chat(stub) as terminal:
        terminal.prompt()
        terminal.type(f"first{ALT_ENTER}second\r")
        terminal.expect("one")
        terminal.prompt()
        terminal.type("first\\\rsecond\r")
        terminal.expect("two")
        terminal.prompt()
        terminal.type("\x1b[200~def f():\n    return 1\n\x1b[201~\r")  # as terminals paste
        terminal.expect("three")
    assert [text for role, text in wire(stub) if role == "user"] == [
        "first\nsecond",
        "first\nsecond",
        "def f():\n    return 1",
    ]


@pytest.mark.slow
def test_what_is_typed_while_the_model_answers_is_the_next_message(chat: Any) -> None:
    with HeldStub(Script(LONG, "the next answer")) as stub, chat(stub) as terminal:
        terminal.say("tell me")
        terminal.expect("The first half of it.")
        terminal.type("and then?\r")
        terminal.expect("and then?")  # the terminal has taken it
        stub.go_on.set()
        terminal.expect("the next answer")
    assert wire(stub)[-1] == ("user", "and then?")


@pytest.mark.slow
def test_what_was_typed_before_comes_back_with_the_arrow_also_in_another_chat(deep: Any, chat: Any) -> None:
    with OpenAIStub(Script("one", "two")) as stub:
        with chat(stub) as terminal:
            terminal.say("remember me")
            terminal.expect("one")
            terminal.prompt()
            terminal.type(CTRL_D)
            terminal.end()
        with chat(stub) as terminal:
            terminal.prompt()
            terminal.type(f"{UP}\r")
            terminal.expect("two")
    assert wire(stub) == [("user", "remember me")]
    (kept,) = data(deep).glob("chats/*/typed")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


# -- approvals --------------------------------------------------------------------------------------------------------


def test_a_write_is_asked_about_with_its_diff_and_happens_when_approved(deep: Any, chat: Any) -> None:
    deep.config(ASKS)
    edit = Call("edit_file", {"path": "a.txt", "old_string": "hello", "new_string": "goodbye"})
    with OpenAIStub(Script(Call("read_file", {"path": "a.txt"}), edit, "done")) as stub, chat(stub) as terminal:
        terminal.say("edit")
        shown = terminal.answer("y")
        terminal.expect("done")
    for line in ("--- a.txt (now)", "-hello", "+goodbye"):
        assert line in shown
    assert (deep.work / "a.txt").read_text() == "goodbye\n"


@pytest.mark.slow
def test_a_denial_with_a_reason_reaches_the_model_and_the_chat_continues(deep: Any, chat: Any) -> None:
    deep.config(ASKS)
    with OpenAIStub(Script(WRITE, "I see.", "still here")) as stub, chat(stub) as terminal:
        terminal.say("write")
        terminal.answer("call it NEW.txt instead")
        terminal.expect("I see.")
        terminal.say("go on")
        terminal.expect("still here")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert ("tool", "The user refused this call: call it NEW.txt instead") in wire(stub)
    assert not (deep.work / "new.txt").exists()


@pytest.mark.slow
def test_a_command_is_shown_in_full_and_always_asks_once_in_the_chat(deep: Any, chat: Any) -> None:
    more = Call("execute", {"command": "printf more > c.txt"})
    with OpenAIStub(Script(EXECUTE, "first", more, "second")) as stub, chat(stub) as terminal:
        terminal.say("go")
        assert "command: printf made > b.txt" in terminal.answer("a")
        terminal.expect("1  execute: every call")  # > makes more of it than one command
        terminal.see("    which?")
        terminal.type("1\r")
        terminal.expect("first")
        terminal.say("more")
        terminal.expect("second")
    assert terminal.screen.count("run it?") == 1
    assert (deep.work / "c.txt").read_text() == "more"


@pytest.mark.slow
def test_a_refusal_is_reported_once_and_as_yours(chat: Any) -> None:
    with OpenAIStub(Script(EXECUTE, "then not")) as stub, chat(stub) as terminal:
        terminal.say("go")
        terminal.answer("no")
        terminal.expect("then not")
    assert terminal.screen.count("denied") == 1
    assert "✗ denied: execute $ printf made > b.txt  [filesystem, by you]" in terminal.screen


@pytest.mark.slow
def test_what_was_typed_before_the_question_does_not_answer_it(deep: Any, chat: Any) -> None:
    asked, go = threading.Event(), threading.Event()

    def slow(view: RequestView) -> Call:
        asked.set()
        go.wait(60)
        return EXECUTE

    with OpenAIStub(Script(slow, "fine")) as stub, chat(stub) as terminal:
        terminal.say("go")
        asked.wait(60)
        terminal.type("y\n")
        terminal.expect("y")  # the terminal has taken it
        go.set()
        terminal.answer("n")
        terminal.expect("fine")
    assert not (deep.work / "b.txt").exists()


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_in_a_stream_keeps_what_was_said_and_the_next_message_is_answered(deep: Any, chat: Any) -> None:
    with HeldStub(Script(LONG, "good")) as stub, chat(stub) as terminal:
        terminal.say("tell me")
        terminal.expect("The first half of it.")
        terminal.type(CTRL_C)
        terminal.expect("stopped")
        terminal.expect("say what to do next")
        stub.go_on.set()
        terminal.say("shorter, please")
        terminal.expect("good")
    said = [text for role, text in wire(stub) if role == "assistant"]
    assert len(said) == 1
    assert LONG.startswith(said[0])
    assert "The first half of it." in said[0]


@pytest.mark.slow
def test_ctrl_c_before_any_answer_keeps_the_message(chat: Any) -> None:
    asked, go = threading.Event(), threading.Event()

    def slow(view: RequestView) -> str:
        asked.set()
        go.wait(60)
        return "too late"

    with OpenAIStub(Script(slow, "good")) as stub, chat(stub) as terminal:
        terminal.say("wrong")
        asked.wait(60)
        terminal.type(CTRL_C)
        terminal.expect("stopped")
        go.set()
        terminal.say("right")
        terminal.expect("good")
    assert wire(stub) == [("user", "wrong"), ("user", "right")]


@pytest.mark.slow
def test_ctrl_c_in_a_command_ends_it_and_leaves_no_call_without_its_return(deep: Any, chat: Any) -> None:
    os.mkfifo(deep.work / "started")
    command = Call("execute", {"command": "echo > started; sleep 300; touch late"})
    read = Call("read_file", {"path": "a.txt"})
    with OpenAIStub(Script(read, command, "good")) as stub, chat(stub) as terminal:
        terminal.say("go")
        terminal.answer("y")
        (deep.work / "started").read_text()  # waits until the command has opened it
        terminal.type(CTRL_C)
        terminal.expect("stopped")
        terminal.say("go on")
        terminal.expect("good")
    # The stub refuses a history in which a call has no return.
    assert stub.statuses == [200, 200, 200]
    returns = [text for role, text in wire(stub) if role == "tool"]
    assert "hello" in returns[0]
    assert "interrupted" in returns[1]
    assert not (deep.work / "late").exists()


STUCK = """
import asyncio
from pydantic_ai import FunctionToolset
from deep_core import hookimpl

def in_a_thread() -> str:
    open("started", "w").close()
    return open("never").read()

async def deaf() -> str:
    open("started", "w").close()
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            open("heard", "w").close()

@hookimpl
def deep_toolsets(context):
    return [FunctionToolset([in_a_thread, deaf], id="stuck")]
"""


@pytest.fixture
def stuck(deep: Any) -> str:
    """A plugin file with tools that do not end: one in a thread, one that ignores cancellation."""
    for name in ("started", "never"):
        os.mkfifo(deep.work / name)
    (deep.work / "stuck.py").write_text(STUCK, encoding="utf-8")
    return "stuck.py"


@pytest.mark.slow
def test_a_tool_that_cannot_be_stopped_holds_up_neither_the_chat_nor_its_end(deep: Any, chat: Any, stuck: str) -> None:
    script = Script(Call("read_file", {"path": "a.txt"}), Call("in_a_thread", {}), "good")
    with OpenAIStub(script) as stub, chat(stub, "-p", stuck) as terminal:
        terminal.say("go")
        (deep.work / "started").read_text()
        terminal.type(CTRL_C)
        terminal.expect("A tool does not stop")
        terminal.say("go on")
        terminal.expect("good")
        terminal.prompt()
        terminal.type(CTRL_D)
        terminal.expect("deep chat --resume")
        assert terminal.end() == 0
    returns = [text for role, text in wire(stub) if role == "tool"]
    assert "hello" in returns[0]
    assert "interrupted" in returns[1]


@pytest.mark.slow
def test_a_second_ctrl_c_leaves_a_run_that_does_not_end_and_what_was_done_is_kept(
    deep: Any, chat: Any, stuck: str
) -> None:
    script = Script(Call("read_file", {"path": "a.txt"}), Call("deaf", {}), "good")
    with OpenAIStub(script) as stub:
        with chat(stub, "-p", stuck) as terminal:
            terminal.say("go")
            (deep.work / "started").read_text()
            terminal.type(CTRL_C)
            terminal.see("stopping; Ctrl-C again leaves at once")
            terminal.type(CTRL_C)
            terminal.expect("deep chat --resume")
            assert terminal.end() == 130
        with chat(stub, "--resume") as terminal:
            terminal.say("go on")
            terminal.expect("good")
    assert stub.statuses == [200, 200, 200]
    assert any(role == "tool" and "hello" in text for role, text in wire(stub))


def test_ctrl_c_at_a_question_runs_nothing_and_the_chat_continues(deep: Any, chat: Any) -> None:
    with OpenAIStub(Script(EXECUTE, "good")) as stub, chat(stub) as terminal:
        terminal.say("go")
        terminal.expect("or say why not:")
        terminal.type(CTRL_C)
        terminal.expect("  ✗ stopped")
        terminal.say("then not")
        terminal.expect("good")
    assert not (deep.work / "b.txt").exists()
    assert [role for role, _ in wire(stub)] == ["user", "assistant", "tool", "user"]


@pytest.mark.slow
def test_ctrl_c_at_the_prompt_drops_what_is_typed_and_at_an_empty_one_leaves(deep: Any, chat: Any) -> None:
    with OpenAIStub(Script("good")) as stub, chat(stub) as terminal:
        terminal.prompt()
        terminal.type(f"not this{CTRL_C}but this\r")
        terminal.expect("good")
        terminal.prompt()
        terminal.type(CTRL_C)
        terminal.expect("deep chat --resume")
        assert terminal.end() == 0
    assert wire(stub) == [("user", "but this")]


# -- stored and resumed -----------------------------------------------------------------------------------------------


def test_a_turn_that_a_kill_interrupted_is_continued(deep: Any, chat: Any) -> None:
    with HeldStub(Script("one", "two", LONG, "three")) as stub:
        with chat(stub) as terminal:
            terminal.say("first")
            terminal.expect("one")
            terminal.say("second")
            terminal.expect("two")
            terminal.say("third")
            terminal.expect("The first half of it.")
            terminal.kill()
        stub.go_on.set()
        with chat(stub, "--resume") as terminal:
            terminal.expect("> second")
            terminal.expect("two")
            terminal.expect("the last turn was interrupted, and continues: third")
            terminal.expect("three")
            terminal.prompt()
    assert wire(stub) == [
        ("user", "first"),
        ("assistant", "one"),
        ("user", "second"),
        ("assistant", "two"),
        ("user", "third"),
    ]


@pytest.mark.slow
def test_a_command_that_a_kill_interrupted_runs_once_and_the_model_reads_it(deep: Any, chat: Any) -> None:
    os.mkfifo(deep.work / "started")
    command = Call("execute", {"command": "printf x >> effects.txt; echo > started; sleep 300"})
    with OpenAIStub(Script(command, "I see.")) as stub:
        with chat(stub) as terminal:
            terminal.say("go")
            terminal.answer("y")
            (deep.work / "started").read_text()
            terminal.kill()
        with chat(stub, "--resume") as terminal:
            terminal.expect("I see.")
    assert (deep.work / "effects.txt").read_text() == "x"
    assert any(role == "tool" and "Nobody knows whether this call ran" in text for role, text in wire(stub))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["the input ends", "it is killed"])
def test_a_question_that_was_left_open_is_asked_again(deep: Any, chat: Any, how: str) -> None:
    deep.config(ASKS)
    with OpenAIStub(Script(WRITE, "written")) as stub:
        with chat(stub) as terminal:
            terminal.say("write")
            terminal.expect("or say why not:")
            if how == "it is killed":
                terminal.kill()
            else:
                terminal.type(CTRL_D)
                terminal.expect("deep chat --resume")
                assert terminal.end() == 0
        with chat(stub, "--resume") as terminal:
            shown = terminal.answer("y")
            terminal.expect("written")
    assert "--- new.txt (now)" in shown
    assert "+one" in shown
    assert (deep.work / "new.txt").read_text() == "one\ntwo\n"
    assert len(stub.requests) == 2


@pytest.mark.slow
def test_ctrl_c_at_a_question_that_is_asked_again_leaves_a_conversation_that_continues(deep: Any, chat: Any) -> None:
    with OpenAIStub(Script(EXECUTE, "good")) as stub:
        with chat(stub) as terminal:
            terminal.say("go")
            terminal.expect("or say why not:")
            terminal.kill()
        with chat(stub, "--resume") as terminal:
            terminal.expect("or say why not:")
            terminal.type(CTRL_C)
            terminal.expect("stopped")
            terminal.say("then not")
            terminal.expect("good")
    assert [role for role, _ in wire(stub)] == ["user", "assistant", "tool", "user"]
    assert not (deep.work / "b.txt").exists()


@pytest.mark.slow
def test_what_had_no_answer_is_not_recalled_with_the_answer_to_something_else(chat: Any) -> None:
    with OpenAIStub(Script("one", EXECUTE)) as stub:
        with chat(stub) as terminal:
            terminal.say("hello")
            terminal.expect("one")
            terminal.say("go")
            terminal.expect("or say why not:")
            terminal.type(CTRL_C)
            terminal.expect("stopped")
            terminal.prompt()
            terminal.type(CTRL_D)
            terminal.end()
        with chat(stub, "--resume") as terminal:
            terminal.expect("> go")
            assert "one" not in terminal.prompt().partition("> go")[2]


@pytest.mark.slow
def test_a_chat_in_which_nothing_was_answered_is_kept_with_what_was_said(deep: Any, chat: Any) -> None:
    with OpenAIStub(Script(Failure(401, retry=False))) as stub, chat(stub) as terminal:
        terminal.say("hello")
        terminal.expect("does not accept the API key")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    (session,) = stored(deep)
    assert texts(deep, session) == ["hello"]
    assert "--resume" in terminal.screen


@pytest.mark.slow
def test_a_chat_in_which_nothing_was_said_is_not_kept(deep: Any, chat: Any) -> None:
    with OpenAIStub(Script()) as stub, chat(stub) as terminal:
        terminal.say("/cost")
        terminal.expect("requests")
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert stored(deep) == []
    assert "--resume" not in terminal.screen


@pytest.mark.slow
def test_a_conversation_that_began_elsewhere_stays_although_nothing_was_answered(deep: Any, chat: Any) -> None:
    session = new_conversation_id(os.path.realpath(deep.work))

    async def begin() -> None:  # as an editor or a page does
        store = open_store(f"sqlite:///{data(deep) / 'sessions.db'}")
        await create(store, session, [])
        await store.aclose()

    deep("sessions", "list").ok()  # makes the folder
    asyncio.run(begin())
    with OpenAIStub(Script(Failure(401, retry=False))) as stub, chat(stub, "--resume", session) as terminal:
        terminal.say("hello")
        terminal.expect("does not accept the API key")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert stored(deep) == [session]


@pytest.mark.slow
def test_always_ends_with_the_chat(chat: Any) -> None:
    with OpenAIStub(Script(EXECUTE, "first", EXECUTE, "second")) as stub, chat(stub) as terminal:
        terminal.say("go")
        terminal.answer("a")
        terminal.see("    which?")
        terminal.type("1\r")
        terminal.expect("first")
        terminal.say("/new")
        terminal.say("go")
        terminal.answer("y")
        terminal.expect("second")


@pytest.mark.slow
def test_the_store_is_the_users_alone(deep: Any, chat: Any) -> None:
    with OpenAIStub(Script("one")) as stub, chat(stub) as terminal:
        terminal.say("hello")
        terminal.expect("one")
        terminal.prompt()
        files = [*data(deep).glob("sessions.db*")]
        assert files
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.slow
def test_two_that_continue_one_chat_one_after_the_other_have_one_conversation(deep: Any, chat: Any) -> None:
    with OpenAIStub(Script("one", "left", "right", "left again")) as stub:
        _say_hello(chat, stub)
        with chat(stub, "--resume") as first, chat(stub, "--resume") as second:
            first.say("first")
            first.expect("left")
            first.prompt()
            second.say("second")
            second.expect("right")
            second.prompt()
            first.type("third\r")
            first.expect("left again")
            first.prompt()
    (session,) = stored(deep)
    assert texts(deep, session) == ["hello", "one", "first", "left", "second", "right", "third", "left again"]


@pytest.mark.slow
def test_a_message_to_a_chat_that_another_process_runs_is_its_next_one_and_both_see_it(deep: Any, chat: Any) -> None:
    with HeldStub(Script("one", LONG, "good")) as stub:
        _say_hello(chat, stub)
        with chat(stub, "--resume") as first, chat(stub, "--resume") as second:
            first.say("first")
            first.expect("The first half of it.")
            second.say("second")
            second.expect("your message is the next one")
            second.say("/undo")
            second.expect("there are 0 turns to take back")
            stub.go_on.set()
            first.expect("another process wrote: second")
            first.expect("good")
            second.expect("> first")  # what the other one did
            second.expect("> second")
            second.expect("good")
            second.prompt()
            first.say("/undo")
            first.expect("The conversation is as it was before")
            second.expect("another interface changed the conversation")
            second.expect("> hello")
    (session,) = stored(deep)
    assert texts(deep, session) == ["hello", "one", "first", LONG]  # each message is a turn, whoever wrote it


@pytest.mark.slow
@pytest.mark.parametrize("who", ["the one who left it", "the one who stopped"])
def test_a_message_that_waits_is_held_after_a_stop_until_a_person_goes_on(deep: Any, chat: Any, who: str) -> None:
    with HeldStub(Script("one", LONG, "good", "better")) as stub:
        _say_hello(chat, stub)
        with chat(stub, "--resume") as first, chat(stub, "--resume") as second:
            first.say("first")
            first.expect("The first half of it.")
            second.say("second")
            second.expect("your message is the next one")
            first.type(ESC)
            first.expect("stopped")
            stub.go_on.set()
            for each in (first, second):
                each.expect("these wait since the last turn ended early: Enter sends them")
                each.expect("next: second")
            if who == "the one who left it":
                second.type("\r")
                second.expect("> second")
                second.expect("good")
                second.prompt()
                first.expect("> second")
                first.expect("good")
            first.say("third")
            first.expect("better")
            first.prompt()
            second.expect("> third")
            second.expect("better")
    (session,) = stored(deep)
    assert [text for text in texts(deep, session) if text in ("second", "good", "third", "better")] == [
        "second",
        "good",
        "third",
        "better",
    ]


@pytest.mark.slow
def test_a_message_that_another_process_leaves_is_shown_and_answered_before_the_next_turn(deep: Any, chat: Any) -> None:
    async def leave(session: str) -> None:
        store = open_store(f"sqlite:///{data(deep) / 'sessions.db'}")
        await store.post(session, "prompt", write_prompt("from the page\x1b[2J"))
        await store.aclose()

    with OpenAIStub(Script("one", "two", "three")) as stub, chat(stub) as terminal:
        terminal.say("1")
        terminal.expect("one")
        terminal.prompt()
        (session,) = stored(deep)
        asyncio.run(leave(session))
        terminal.type("2\r")
        terminal.expect("your message is the next one after them")
        terminal.expect("another process wrote: from the page\\x1b[2J")
        terminal.expect("two")
        terminal.expect("> 2")
        terminal.expect("three")
        terminal.prompt()
    assert texts(deep, session)[2:] == ["from the page\x1b[2J", "two", "2", "three"]


@pytest.mark.slow
def test_usage_adds_up_over_turns_and_over_a_resume(deep: Any, chat: Any) -> None:
    from tests.stubs import Usage

    script = Script(Turn(text="one", usage=Usage(1000, 10)), Turn(text="two", usage=Usage(2000, 20)))
    with OpenAIStub(script) as stub:
        for text in ("one", "two"):
            with chat(stub, *(["--resume"] if text == "two" else [])) as terminal:
                terminal.say("go")
                terminal.expect(text)
                terminal.say("/cost")
                shown = terminal.expect(" out;")
    assert "2 requests, 3,000 tokens in, 30 out" in shown


# -- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_providers_error_is_shown_with_what_to_type_and_the_chat_continues(chat: Any) -> None:
    with OpenAIStub(Script(Failure(401, "No.", retry=False), "good")) as stub, chat(stub) as terminal:
        terminal.say("hello")
        terminal.expect("does not accept the API key")
        terminal.expect("/retry tries again")
        terminal.say("/retry")
        terminal.expect("good")
    assert wire(stub) == [("user", "hello")]
    assert "Traceback" not in terminal.screen


@pytest.mark.slow
def test_an_error_after_a_tool_has_run_keeps_what_it_did(chat: Any) -> None:
    script = Script(Call("read_file", {"path": "a.txt"}), Failure(500, retry=False), "good")
    with OpenAIStub(script) as stub, chat(stub) as terminal:
        terminal.say("look")
        terminal.expect("Everything so far is kept")
        terminal.say("go on")
        terminal.expect("good")
    assert [role for role, _ in wire(stub)] == ["user", "assistant", "tool", "user"]


@pytest.mark.slow
def test_the_model_can_be_changed_and_one_that_is_not_there_changes_nothing(chat: Any) -> None:
    with OpenAIStub(Script("one", "two")) as stub, chat(stub) as terminal:
        terminal.say("/model nosuch:thing")
        terminal.expect("The model is still openai-chat:stub.")
        terminal.say("hello")
        terminal.expect("one")
        terminal.say("/model openai-chat:other")
        terminal.say("hello again")
        terminal.expect("two")
    assert [request["model"] for request in stub.requests] == ["stub", "other"]


@pytest.mark.slow
def test_a_model_that_nobody_knows_is_taken_only_if_the_user_says_so(deep: Any) -> None:
    keys = {"ANTHROPIC_API_KEY": "x", "OPENAI_API_KEY": "x"}
    with Terminal(deep, "chat", "--model", "openai-chat:gpt-5.2", env=keys) as terminal:
        terminal.say("/model anthropic:cluade-sonnet")
        terminal.expect("is no model that Pydantic AI knows. Did you mean")
        terminal.expect("Use it? y/n")
        terminal.type("n\r")
        terminal.expect("The model is still openai-chat:gpt-5.2.")
        terminal.say("/model anthropic:claude-next-9")  # one that came after this release, perhaps
        terminal.see("ready · ask · anthropic:claude-next-9")
        terminal.say("/model anthropic:cluade-sonnet")
        terminal.expect("Use it? y/n")
        terminal.type("y\r")
        terminal.see("ready · ask · anthropic:cluade-sonnet")


@pytest.mark.slow
def test_commands_are_few_and_a_misspelt_one_is_not_sent(chat: Any) -> None:
    with OpenAIStub(Script("one", "two")) as stub, chat(stub) as terminal:
        terminal.say("/hlep")
        terminal.expect("Did you mean '/help'?")
        terminal.say("/help")
        for name in ("/help", "/model", "/cost", "/new", "/quit"):
            terminal.expect(name)
        terminal.say("/etc/hosts is what?")
        terminal.expect("one")
        terminal.say("/new")
        terminal.expect("This one is kept: deep chat --resume")
        terminal.say("hello")
        terminal.expect("two")
        terminal.say("/quit")
        assert terminal.end() == 0
    assert wire(stub, 0) == [("user", "/etc/hosts is what?")]
    assert wire(stub, 1) == [("user", "hello")]


@pytest.mark.slow
def test_files_go_with_the_first_message_whether_it_is_answered_or_not(deep: Any, chat: Any) -> None:
    script = Script(Failure(500, retry=False), "one", "two")
    with OpenAIStub(script) as stub, chat(stub, "--file", "a.txt") as terminal:
        terminal.say("read")
        terminal.expect("✗")
        terminal.say("/retry")
        terminal.expect("one")
        terminal.say("more")
        terminal.expect("two")
    users = [text for role, text in wire(stub) if role == "user"]
    assert users == ['read\n\n<file name="a.txt">\nhello\n\n</file>', "more"]


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_does_not_end_the_chat(deep: Any, chat: Any) -> None:
    place = deep.environment.home / ".local" / "share"
    place.mkdir(parents=True)
    (place / "deep").write_text("a file where the folder should be")
    with OpenAIStub(Script("one", "two")) as stub, chat(stub) as terminal:
        terminal.say("hello")
        terminal.expect("this chat is not stored")
        terminal.say("again")
        terminal.expect("two")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert wire(stub) == [("user", "hello"), ("assistant", "one"), ("user", "again")]
    assert terminal.screen.count("is not stored") == 1
    assert "--resume" not in terminal.screen  # there is nothing that could be resumed
