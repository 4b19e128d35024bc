"""`deep chat` without a terminal: each line of stdin is a message; and what it loads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from deep_cli import Refusal
from deep_cli.run.task_screen import answer_of

from tests.environments import Finished
from tests.stubs import Call, Failure, OpenAIStub, Script, Turn

MODEL = ("--model", "openai-chat:stub")
EXECUTE = Call("execute", {"command": "printf made > b.txt"})

CRASH = """
import os
from deep_core import hookimpl

def burn() -> str:
    "Write a line, and die."
    with open("effects.txt", "a") as file:
        file.write("x")
    os.kill(os.getpid(), 9)

@hookimpl
def deep_toolsets():
    from pydantic_ai.toolsets import FunctionToolset

    return [FunctionToolset([burn], metadata={"tags": ["write"]})]
"""


def piped(deep: Any, text: str, *arguments: str, env: dict[str, str] | None = None) -> Finished:
    """`printf TEXT | deep chat …`."""
    return deep.piped(text, "chat", *arguments, env=env)


@pytest.mark.slow
def test_each_line_is_a_message_and_the_answers_are_all_of_stdout(make_deep: Any) -> None:
    deep = make_deep("backends", "filesystem", "demo")
    done = piped(deep, "a\n\nb\n", "--model", "demo:echo")
    assert (done.code, done.out) == (0, "a\nb\n")
    assert "deep chat --resume" in done.err


@pytest.mark.slow
def test_the_messages_are_one_conversation_which_can_be_resumed(deep: Any) -> None:
    with OpenAIStub(Script("one", "two", "three")) as stub:
        piped(deep, "first\nsecond\n", *MODEL, env=stub.env).ok()
        piped(deep, "third\n", "--resume", env=stub.env).ok()
    assert [m["content"] for m in stub.requests[-1]["messages"] if m["role"] == "user"] == ["first", "second", "third"]
    assert stub.requests[-1]["model"] == "stub"  # the chat's own model, none was named


@pytest.mark.slow
def test_approvals_are_denied_the_model_reads_it_and_the_exit_code_is_3(deep: Any) -> None:
    with OpenAIStub(Script(EXECUTE, "then not", "fine")) as stub:
        done = piped(deep, "go\nand on\n", *MODEL, env=stub.env)
    assert (done.code, done.out) == (3, "then not\nfine\n")
    assert not (deep.work / "b.txt").exists()
    told = json.dumps([m for m in stub.requests[-1]["messages"] if m["role"] == "tool"])
    assert "needs an approval, and no user is here" in told


@pytest.mark.slow
def test_what_is_allowed_runs(deep: Any) -> None:
    with OpenAIStub(Script(EXECUTE, "done")) as stub:
        piped(deep, "go\n", *MODEL, "--approve", "allow", env=stub.env).ok()
    assert (deep.work / "b.txt").read_text() == "made"


@pytest.mark.slow
def test_an_error_is_reported_the_next_line_is_sent_and_the_exit_code_is_1(deep: Any) -> None:
    with OpenAIStub(Script(Failure(401, retry=False), "good")) as stub:
        done = piped(deep, "first\nsecond\n", *MODEL, env=stub.env)
    assert (done.code, done.out) == (1, "good\n")
    assert "check OPENAI_API_KEY" in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_a_line_that_is_not_utf_8_is_reported_and_not_sent_and_the_next_one_is(deep: Any) -> None:
    with OpenAIStub(Script("one", "two", "three")) as stub:
        done = piped(deep, "first\ngr\udcfc\udcdfe\nsecond\n", *MODEL, env=stub.env)
        piped(deep, "third\n", "--resume", env=stub.env).ok()  # the chat was stored
    assert (done.code, done.out) == (1, "one\ntwo\n")
    assert "not sent, it is not UTF-8: gr\\udcfc\\udcdfe" in done.err
    assert [m["content"] for m in stub.requests[1]["messages"] if m["role"] == "user"] == ["first", "second"]


@pytest.mark.slow
def test_verbose_shows_the_traceback(deep: Any) -> None:
    with OpenAIStub(Script(Failure(401, retry=False))) as stub:
        done = piped(deep, "go\n", *MODEL, "--verbose", env=stub.env)
    assert "Traceback" in done.err


@pytest.mark.slow
def test_more_requests_for_one_message_than_allowed_fail_and_each_message_has_its_own(deep: Any) -> None:
    script = Script("one", Call("ls", {}), "two")
    with OpenAIStub(script) as stub:
        done = piped(deep, "first\nsecond\n", *MODEL, "--max-requests", "1", env=stub.env)
    assert (done.code, done.out) == (1, "one\n")
    assert len(stub.requests) == 2
    assert "--max-requests" in done.err


@pytest.mark.slow
def test_without_a_model_or_a_key_it_is_as_in_run(deep: Any) -> None:
    for arguments in ((), MODEL, ("--model", "foo"), ("--backend", "locl", *MODEL)):
        env = {"OPENAI_API_KEY": "x"} if "--backend" in arguments else {}
        chat = piped(deep, "go\n", *arguments, env=env)
        run = deep("run", "go", *arguments, env=env)
        assert (chat.code, chat.err) == (run.code, run.err)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--resume",), "there is no chat of"),
        (("--resume", "0123abcd"), "there is no such chat"),
        (("--resume", "../../x"), "eight digits"),
    ],
)
def test_what_cannot_be_resumed_is_a_usage_error(deep: Any, arguments: tuple[str, ...], said: str) -> None:
    done = piped(deep, "go\n", *MODEL, *arguments)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.slow
def test_a_chat_of_another_folder_says_where_it_belongs(deep: Any) -> None:
    with OpenAIStub(Script("one")) as stub:
        first = piped(deep, "go\n", *MODEL, env=stub.env).ok()
        id = first.err.split("--resume ")[1].strip()
        (deep.work / "below").mkdir()
        done = deep.piped("", "chat", *MODEL, "--resume", id, cwd=deep.work / "below", env=stub.env)
    assert done.code == 2
    assert f"cd there, then deep chat --resume {id}" in done.err


@pytest.mark.slow
def test_the_todos_of_a_session_come_back(make_deep: Any) -> None:
    deep = make_deep("backends", "filesystem", "todo")
    todo = {"todos": [{"content": "buy milk", "status": "pending", "active_form": "Buying milk"}]}
    with OpenAIStub(Script(Call("write_todos", todo), "noted", Call("read_todos", {}), "there")) as stub:
        piped(deep, "note\n", *MODEL, env=stub.env).ok()
        piped(deep, "what?\n", "--resume", env=stub.env).ok()
    told = [m["content"] for m in stub.requests[-1]["messages"] if m["role"] == "tool"]
    assert "buy milk" in told[-1]


@pytest.mark.slow
def test_a_new_chat_has_the_workspace_of_the_one_before_which_stays_stored(deep: Any) -> None:
    write, read = Call("write_file", {"path": "n.txt", "content": "kept"}), Call("read_file", {"path": "n.txt"})
    with OpenAIStub(Script(write, "written", read, "there")) as stub:
        piped(deep, "write\n/new\nread\n", *MODEL, "--backend", "memory", env=stub.env).ok()
    assert any(m["role"] == "tool" and "kept" in m["content"] for m in stub.requests[-1]["messages"])
    assert [m["content"] for m in stub.requests[-1]["messages"] if m["role"] == "user"] == ["read"]
    assert len(deep("sessions", "list").ok().out.splitlines()) == 2


@pytest.mark.slow
def test_an_interrupted_turn_is_continued_before_the_next_message_with_its_model_and_backend(deep: Any) -> None:
    (deep.work / "crash.py").write_text(CRASH, encoding="utf-8")
    with OpenAIStub(Script(Call("burn", {}), "I see.", "good")) as stub:
        killed = piped(deep, "go\n", *MODEL, "-p", "crash.py", env=stub.env)
        assert killed.code != 0
        done = piped(deep, "next\n", "--resume", "-p", "crash.py", env=stub.env).ok()
    assert (deep.work / "effects.txt").read_text() == "x"
    assert done.out == "I see.\ngood\n"
    assert "the last turn was interrupted, and continues: go" in done.err


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("y", "yes"),
        (" Yes \n", "yes"),
        ("n", "no"),
        ("no.", "no"),
        ("A", "always"),
        ("n use tabs", Refusal("use tabs")),
        ("no, use tabs", Refusal("use tabs")),
        ("no new files", Refusal("no new files")),
        ("use tabs", Refusal("use tabs")),
        ("yes please", None),
        ("always use tabs", None),
        ("what", None),
        ("v", None),
        ("", None),
    ],
)
def test_an_answer_is_taken_only_where_it_is_clear(line: str, meant: object) -> None:
    assert answer_of(line) == meant


LOADED = """
import sys
from deep_cli.main import main
try:
    main({arguments!r})
except SystemExit as end:
    pass
answer(sorted(sys.modules))
"""


@pytest.mark.slow
def test_the_help_loads_neither_pydantic_nor_the_line_editor(deep: Any) -> None:
    found = deep.environment.ask(LOADED.format(arguments=["chat", "--help"]), flags=["-P"])
    assert not {name.partition(".")[0] for name in found} & {"pydantic", "pydantic_ai", "prompt_toolkit", "rich"}


@pytest.mark.exhaustive
def test_no_other_command_and_no_pipe_loads_the_line_editor(deep: Any) -> None:
    with OpenAIStub(Script("one", "two")) as stub:
        for arguments in (["run", "go", *MODEL], ["chat", *MODEL]):
            found = deep.environment.ask(LOADED.format(arguments=arguments), flags=["-P"], env=stub.env)
            assert "pydantic_ai" in found
            assert "prompt_toolkit" not in found
            assert ("deep_cli.chat.conversation" in found) is (arguments[0] == "chat")


DOWN = Failure(status=400, message="the provider is down")


@pytest.mark.slow
def test_retry_tries_a_failed_turn_again_without_saying_it_twice(deep: Any) -> None:
    with OpenAIStub(Script("one", DOWN, "two")) as stub:
        done = piped(deep, "first\nsecond\n/retry\n", *MODEL, env=stub.env)
    assert done.out == "one\ntwo\n"
    assert "/retry tries again" in done.err
    assert [m["content"] for m in stub.requests[-1]["messages"] if m["role"] == "user"] == ["first", "second"]


@pytest.mark.slow
def test_a_first_message_that_failed_is_kept_and_retry_answers_it_later(deep: Any) -> None:
    with OpenAIStub(Script(DOWN, "here")) as stub:
        failed = piped(deep, "hello\n", *MODEL, env=stub.env)
        assert (failed.code, "Continue with: deep chat --resume" in failed.err) == (1, True)
        again = piped(deep, "/retry\n", "--resume", env=stub.env)
    assert (again.code, again.out) == (0, "here\n")
    assert "the last turn failed: /retry tries it again" in again.err
    assert [m["content"] for m in stub.requests[-1]["messages"] if m["role"] == "user"] == ["hello"]


@pytest.mark.slow
def test_a_message_after_a_failed_one_is_read_with_it(deep: Any) -> None:
    with OpenAIStub(Script(DOWN, "both")) as stub:
        assert piped(deep, "first\nsecond\n", *MODEL, env=stub.env).out == "both\n"
    said = [m["content"] for m in stub.requests[-1]["messages"] if m["role"] == "user"]
    assert all(word in str(said) for word in ("first", "second"))


@pytest.mark.slow
def test_retry_after_an_answer_says_that_there_is_nothing_to_try(deep: Any) -> None:
    with OpenAIStub(Script("one")) as stub:
        done = piped(deep, "first\n/retry\n", *MODEL, env=stub.env)
    assert "there is nothing to try again: the last message has its answer" in done.err
    assert len(stub.requests) == 1


@pytest.mark.slow
def test_compact_summarizes_the_chat_so_far_and_keeps_what_was_asked_for(make_deep: Any) -> None:
    deep = make_deep("backends", "filesystem", "summarization")
    with OpenAIStub(Script("word " * 900, "word " * 900, "A summary.", "three")) as stub:
        done = piped(deep, "first\nsecond\n/compact the third word\nthird\n", *MODEL, env=stub.env)
        assert "4 messages are summarized" in done.out + done.err
        assert "The user asks to keep above all: the third word" in str(stub.requests[2]["messages"])
        assert "word word" not in str(stub.requests[3]["messages"])
        assert "A summary." in str(stub.requests[3]["messages"])
        again = piped(deep, "/compact\n", *MODEL, env=stub.env)
    assert "there is nothing to compact yet" in again.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("finish", "words"), [("length", "cut at the model's limit"), ("content_filter", "content filter")]
)
def test_an_answer_that_is_not_whole_is_shown_and_said_and_the_chat_goes_on(deep: Any, finish: Any, words: str) -> None:
    with OpenAIStub(Script(Turn(text="Half of", finish=finish), "it.")) as stub:
        done = piped(deep, "tell\ncontinue\n", *MODEL, env=stub.env)
    assert (done.code, done.out) == (1, "Half of\nit.\n")
    assert words in done.err
    assert ("To go on from there, send: continue" in done.err) is (finish == "length")
