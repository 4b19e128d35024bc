"""`!COMMAND` in a chat: it is shown to run, Esc and Ctrl-C stop it and only it, and messages wait for it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from plugins.cli.tests.chat_terminal import CTRL_C, CTRL_D, ESC, Terminal
from tests.stubs import OpenAIStub, Script

CHAT = ("chat", "--model", "openai-chat:stub")


@pytest.mark.slow
@pytest.mark.parametrize("key", [CTRL_C, ESC])
def test_a_key_stops_the_command_and_the_message_behind_it_is_sent(deep: Any, key: str) -> None:
    with OpenAIStub(Script("I am here.")) as stub, Terminal(deep, *CHAT, env=stub.env) as terminal:
        terminal.say("!echo begun; sleep 600; echo over")
        terminal.see("$ echo begun")
        terminal.type("are you there\r")
        terminal.see("  next: are you there")
        terminal.type(key)
        assert re.search(r"begun\s+✗ stopped$", terminal.expect("stopped"))
        terminal.expect("I am here.")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
    assert stub.requests[-1]["messages"][-1]["content"] == "are you there"


@pytest.mark.slow
def test_what_ignores_ctrl_c_is_killed_with_what_it_started(deep: Any) -> None:
    with OpenAIStub(Script("x")) as stub, Terminal(deep, *CHAT, env=stub.env) as terminal:
        terminal.say("!trap '' INT; sleep 600 & sleep 600")
        terminal.see("$ trap")
        terminal.type(CTRL_C)
        terminal.expect("stopped")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0


@pytest.mark.slow
def test_the_last_lines_are_shown_and_nothing_that_is_typed_goes_to_the_command(deep: Any) -> None:
    with OpenAIStub(Script("x")) as stub, Terminal(deep, *CHAT, env=stub.env) as terminal:
        terminal.say("!seq 5000; exit 3")
        shown = terminal.expect("exit code 3")
        assert "4960 lines before" in shown
        assert "\n4960" not in shown.replace("\r", "")
        assert "5000" in shown
        terminal.say("!cat")
        terminal.say("![[ a == a* ]] && echo $((40 + 2)) &> n.txt; cat n.txt")  # bash
        terminal.expect("42")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("begin", ["!", "!!"])
def test_the_shell_of_the_environment_is_the_one_that_runs(deep: Any, begin: str) -> None:
    env = {"SHELL": "/usr/bin/nosuch"}
    with OpenAIStub(Script("x")) as stub, Terminal(deep, *CHAT, env={**stub.env, **env}) as terminal:
        terminal.say(f'{begin}test "$SHELL" = "$BASH" && $SHELL -c "echo $((40 + 2))"')
        terminal.expect("42")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0
