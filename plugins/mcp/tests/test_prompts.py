"""Prompts of servers are commands of a chat."""

from __future__ import annotations

from typing import Any

import deep_sessions
import pytest
from deep_mcp.prompts import read_arguments
from deep_sessions import ChatCommand, chat_commands
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.anyio


async def text_of(command: ChatCommand, words: str) -> str:
    text = command.render(words)
    return text if isinstance(text, str) else await text


@pytest.mark.slow
async def test_a_person_sends_a_servers_prompt_by_its_name(make_kernel: Any, servers: Any, play: Any) -> None:
    (servers.state("harbor") / "prompts").touch()
    kernel = make_kernel({"harbor": servers("harbor")}, plugins=(deep_sessions,))
    assert chat_commands(kernel) == {}
    await play(kernel)
    commands = chat_commands(kernel)
    assert list(commands) == ["harbor:greet", "harbor:write_report"]
    report = commands["harbor:write_report"]
    assert (report.about, report.usage, report.source) == ("Report on a port.", "PORT [DAYS]", "MCP server harbor")
    assert await text_of(report, "Oslo 3") == "Say hello. {'days': '3', 'port': 'Oslo'}"
    assert await text_of(commands["harbor:greet"], "") == "user: Say hello. {}\n\nassistant: Hello."
    with pytest.raises(ValueError, match="port is missing: type PORT DAYS"):
        await text_of(report, "")
    with pytest.raises(ValueError, match="takes no arguments"):
        await text_of(commands["harbor:greet"], "you")


@pytest.mark.slow
async def test_a_server_that_is_gone_says_so_to_the_person(make_kernel: Any, servers: Any, play: Any) -> None:
    (servers.state("harbor") / "prompts").touch()
    kernel = make_kernel({"harbor": servers("harbor")}, plugins=(deep_sessions,))
    await play(kernel)
    command = chat_commands(kernel)["harbor:greet"]
    kernel.close()
    with pytest.raises(ValueError, match="MCP server harbor was closed"):
        await text_of(command, "")


@pytest.mark.slow
async def test_a_server_without_prompts_adds_no_command(make_kernel: Any, servers: Any, play: Any) -> None:
    kernel = make_kernel({"harbor": servers("harbor")}, plugins=(deep_sessions,))
    await play(kernel)
    assert chat_commands(kernel) == {}


NAMES = st.lists(st.sampled_from("abcd"), unique=True, max_size=4)


@given(NAMES, st.text(alphabet="xy \"'\\", max_size=12))
def test_words_go_to_arguments_in_order_and_none_is_lost(names: list[str], words: str) -> None:
    try:
        given_ = read_arguments([(name, False) for name in names], words)
    except ValueError:
        assert not names
        assert words.split()
        return
    assert list(given_) == names[: len(given_)]
    kept = "".join(given_.values())
    assert [c for c in kept if c in "xy"] == [c for c in words if c in "xy"]


def test_one_argument_takes_all_that_was_typed() -> None:
    assert read_arguments([("text", True)], 'a "b c" d') == {"text": 'a "b c" d'}
    assert read_arguments([("text", True)], '"b c"') == {"text": "b c"}
