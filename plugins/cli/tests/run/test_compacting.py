"""`deep run --session NAME --compact`: the session goes on from a summary."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.stubs import OpenAIStub, Script

MODEL = ("--model", "openai-chat:stub")
PLUGINS = ("backends", "filesystem", "summarization")
SESSION = ("run", "--session", "s")


@pytest.mark.slow
def test_a_session_goes_on_from_its_summary(make_deep: Any) -> None:
    deep = make_deep(*PLUGINS)
    script = Script("word " * 900, "word " * 900, "A summary.", "Here.", "word " * 900, "Another one.")
    with OpenAIStub(script) as stub:
        for task in ("one", "two"):
            deep(*SESSION, task, *MODEL, env=stub.env).ok()
        done = deep(*SESSION, "--compact", "the second word", *MODEL, env=stub.env).ok()
        assert "4 messages are summarized" in done.out
        assert "keep above all: the second word" in str(stub.requests[2]["messages"])
        assert deep(*SESSION, "three", *MODEL, env=stub.env).ok().out == "Here.\n"
        assert "word word" not in str(stub.requests[3]["messages"])
        deep(*SESSION, "four", *MODEL, env=stub.env).ok()
        told = json.loads(deep(*SESSION, "--compact", "--output", "json", *MODEL, env=stub.env).ok().out)
    assert (told["schema"], told["session"]) == (1, "s")
    assert told["after"] < told["before"]


@pytest.mark.slow
def test_compact_says_what_it_cannot_do(make_deep: Any) -> None:
    deep = make_deep(*PLUGINS)
    with OpenAIStub(Script("Done.", "A summary that is much longer than what was said. " * 20)) as stub:
        unknown = deep("run", "--session", "none", "--compact", *MODEL, env=stub.env)
        assert (unknown.code, "none" in unknown.err) == (1, True)
        deep(*SESSION, "Hello", *MODEL, env=stub.env).ok()
        longer = deep(*SESSION, "--compact", *MODEL, env=stub.env)
        assert (longer.code, "not fewer than" in longer.err) == (1, True)
        for arguments in (
            ["--compact"],
            [*SESSION[1:], "--compact", "--retry"],
            [*SESSION[1:], "--compact", "--queue"],
        ):
            refused = deep("run", *arguments, *MODEL, env=stub.env)
            assert refused.code == 2
