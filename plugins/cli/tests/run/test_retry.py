"""What `deep run` prints after a failure, typed: the hint and `--retry` go on with the task, once."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from tests.stubs import Call, Failure, OpenAIStub, Script

MODEL = ("--model", "openai-chat:stub")
NO = Failure(403, "not now")


def hint(err: str) -> list[str]:
    """The arguments of the command that continues the session."""
    (line,) = [line for line in err.splitlines() if line.startswith("Session")]
    return shlex.split(line.partition("deep ")[2])


@pytest.mark.slow
def test_the_command_of_a_failed_run_goes_on_from_its_last_step(deep: Any) -> None:
    script = Script(Call("write_file", {"path": "made.txt", "content": "one"}), NO, NO, "The end.")
    with OpenAIStub(script) as stub:
        failed = deep("run", "Write it.", *MODEL, "--session", "s", env=stub.env)
        assert failed.code == 1
        again = deep(*hint(failed.err), *MODEL, env=stub.env)
        assert again.code == 1
        assert hint(again.err) == hint(failed.err)
        done = deep("run", "--session", "s", "--retry", *MODEL, env=stub.env)
    assert done.ok().out == "The end.\n"
    assert (deep.work / "made.txt").read_text() == "one"
    assert len(stub.requests) == 4
    assert str(stub.requests[-1]).count("Write it.") == 1


@pytest.mark.slow
def test_a_message_that_was_refused_is_read_with_the_next_one(deep: Any) -> None:
    with OpenAIStub(Script(NO, "Hello Ada.")) as stub:
        assert deep("run", "I am Ada.", *MODEL, "--session", "s", env=stub.env).code == 1
        assert deep("run", "Who am I?", *MODEL, "--session", "s", env=stub.env).ok().out == "Hello Ada.\n"
    said = [message["content"] for message in stub.requests[-1]["messages"] if message["role"] == "user"]
    assert "I am Ada." in str(said)
    assert "Who am I?" in str(said)
    shown = deep("sessions", "show", "s").ok().out
    assert shown.index("I am Ada.") < shown.index("Who am I?") < shown.index("Hello Ada.")


@pytest.mark.slow
def test_retry_says_what_it_cannot_try_again(deep: Any) -> None:
    with OpenAIStub(Script("Done.")) as stub:
        unknown = deep("run", "--session", "none", "--retry", *MODEL, env=stub.env)
        assert unknown.code == 1
        assert "`deep sessions list` shows them" in unknown.err
        assert "no sessions; begin one with: deep run --session NAME TASK" in deep("sessions", "list").ok().out
        deep("run", "Hello", *MODEL, "--session", "s", env=stub.env).ok()
        done = deep("run", "--session", "s", "--retry", *MODEL, env=stub.env)
        assert done.code == 1
        assert "its last run completed" in done.err
        for arguments in (["--retry"], ["--session", "s", "--retry", "and a task"]):
            refused = deep("run", *arguments, *MODEL, env=stub.env)
            assert refused.code == 2
            assert "give it --session NAME, and no TASK" in refused.err
