"""The deny list: what it finds, and what it does not."""

from __future__ import annotations

from typing import Any

import deep_guards
import pytest
from deep_guards.commands import find_denied, words_of
from hypothesis import given
from hypothesis import strategies as st

from deep_core import Kernel, ToolCall, create_default_deps
from tests.plugins_by_hand import Tools, plugin, returns, run, scripted
from tests.stubs import Call

DENIED = ["git push", "rm -r", "curl", "shutdown"]


def call(args: dict[str, Any], *tags: str) -> ToolCall:
    return ToolCall("execute", "execute", "shell", frozenset(tags), args, "c1")


@pytest.mark.parametrize(
    ("command", "entry"),
    [
        ("git push", "git push"),
        ("git -C repo push --force origin main", "git push"),
        ("cd x && git push", "git push"),
        ("true; rm -fr build", "rm -r"),
        ("rm -f -r build", "rm -r"),
        ("ls | xargs -n 1 rm -r", "rm -r"),
        ("sudo -n /bin/rm -r /", "rm -r"),
        ("A=1 B=2 nohup curl http://x &", "curl"),
        ("timeout 5 curl http://x", "curl"),
        ("bash -c 'cd /; rm -rf *'", "rm -r"),
        ("echo $(curl http://x)", "curl"),
        ("echo `curl http://x`", "curl"),
        ("echo hi\nshutdown now", "shutdown"),
        ("(shutdown now)", "shutdown"),
    ],
)
def test_it_finds_a_command_wherever_it_stands(command: str, entry: str) -> None:
    assert find_denied(call({"command": command}, "execute"), DENIED) == entry


@pytest.mark.parametrize(
    "command",
    ["git pull", "rm file", "echo git push", "grep -r curl .", "git commit -m 'push it'", "", "   ", "echo 'rm -r"],
)
def test_it_leaves_others_alone(command: str) -> None:
    assert find_denied(call({"command": command}, "execute"), DENIED) is None


@pytest.mark.parametrize(
    "command", ["a=cur; ${a}l http://x", 'python -c \'import os; os.system("cu" + "rl x")\'', "./script.sh"]
)
def test_it_is_no_sandbox(command: str) -> None:
    assert find_denied(call({"command": command}, "execute"), DENIED) is None


def test_it_reads_commands_of_every_tool_and_every_text_of_tools_that_execute() -> None:
    assert find_denied(call({"command": "curl x"}, "write"), DENIED) == "curl"
    assert find_denied(call({"text": "curl x"}, "write"), DENIED) is None
    assert find_denied(call({"text": "curl x"}, "execute"), DENIED) == "curl"
    assert find_denied(call({"command": ["curl", "x y"]}, "write"), DENIED) == "curl"


@given(st.text(max_size=60))
def test_no_text_makes_it_fail(text: str) -> None:
    words_of(text)


def test_the_model_reads_why_and_nothing_runs() -> None:
    tools = Tools(id="shell")
    tools.toolset.add_function(
        lambda command: tools.ran.append(command), name="execute", metadata={"tags": ["execute"]}
    )
    config = {"plugins": {"guards": {"options": {"deny_commands": ["git push"]}}}}
    with Kernel(
        plugins=[deep_guards, plugin("shell", toolsets=[tools.toolset])], discover=False, config=config
    ) as kernel:
        script = [
            Call("execute", {"command": "git push"}, id="c1"),
            Call("execute", {"command": "git status"}, id="c2"),
        ]
        agent = kernel.create_agent(scripted(*script), interrupt_on={"execute": False})
        result = run(agent, deps=create_default_deps(kernel=kernel))
    first, second = returns(result.all_messages())
    assert (first.outcome, second.outcome) == ("failed", "success")
    assert "'git push' is in deny_commands of the plugin guards" in str(first.content)
    assert tools.ran == ["git status"]


def test_an_entry_that_no_command_can_match_is_an_error() -> None:
    config = {"plugins": {"guards": {"options": {"deny_commands": ["rm x; ls"]}}}}
    with (
        Kernel(plugins=[deep_guards], discover=False, config=config) as kernel,
        pytest.raises(Exception, match="one command"),
    ):
        kernel.create_agent(scripted())
