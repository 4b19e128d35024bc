"""`!COMMAND` in a chat: it is shown to run, Esc and Ctrl-C stop it and only it, and messages wait for it."""

from __future__ import annotations

import os
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


def is_gone(process: int) -> bool:
    """Whether a process, or a group given as -GROUP, has ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


IGNORES = (
    "import os, signal, time; [signal.signal(n, signal.SIG_IGN) for n in ({0},)]; "
    "print(os.getpid(), flush=True); time.sleep(600)"
)


@pytest.mark.slow
@pytest.mark.parametrize("ignored", ["2", "2, 15"])
def test_a_second_ctrl_c_ends_what_ignores_the_first_and_only_that(deep: Any, ignored: str) -> None:
    pid = deep.work / "pid"
    with OpenAIStub(Script("I am here.")) as stub, Terminal(deep, *CHAT, env=stub.env) as terminal:
        terminal.say(f"!python3 -c '{IGNORES.format(ignored)}' | tee pid")
        terminal.until(lambda: pid.exists() and pid.read_text().endswith("\n"), "its process")
        terminal.type(CTRL_C + CTRL_C)
        terminal.expect("stopped")
        terminal.until(lambda: is_gone(int(pid.read_text())), "the end of the process")
        terminal.prompt()
        terminal.say("are you there")
        terminal.expect("I am here.")
        terminal.prompt()
        terminal.type(CTRL_D)
        assert terminal.end() == 0


@pytest.mark.slow
def test_what_a_command_leaves_runs_on_while_the_chat_is_free(deep: Any) -> None:
    line = "until [ -e go ]; do sleep 0.05; done; for n in $(seq 20000); do echo $n; done; touch done"
    with OpenAIStub(Script("I am here.")) as stub, Terminal(deep, *CHAT, env=stub.env) as terminal:
        terminal.say(f"!echo begun; ({line}; sleep 600) & echo left")
        shown = terminal.expect("To end it: !kill -- -")
        assert re.search(r"begun\s+left\s", shown)
        group = int(re.findall(r"-(\d+)", shown + terminal.expect("@!"))[-1])
        terminal.prompt()
        terminal.say("!touch go")
        terminal.until((deep.work / "done").exists, "its end")  # it goes on, though nobody sees what it writes
        terminal.say("are you there")
        terminal.expect("I am here.")
        terminal.prompt()
        terminal.say(f"!kill -- -{group}")
        terminal.until(lambda: is_gone(-group), "the end of the group")
        terminal.type(CTRL_D)
        assert terminal.end() == 0


@pytest.mark.slow
def test_a_stop_ends_the_jobs_of_the_command_too(deep: Any) -> None:
    with OpenAIStub(Script("x")) as stub, Terminal(deep, *CHAT, env=stub.env) as terminal:
        terminal.say("!(trap '' INT; echo $BASHPID > pid; exec sleep 600) & wait")
        pid = deep.work / "pid"
        terminal.until(lambda: pid.exists() and pid.read_text().endswith("\n"), "its process")
        terminal.type(CTRL_C)
        terminal.expect("stopped")
        terminal.until(lambda: is_gone(int(pid.read_text())), "the end of the process")
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
