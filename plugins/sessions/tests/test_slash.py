"""Commands that plugins add to chats."""

from __future__ import annotations

from typing import Any

import deep_sessions
import pytest
from deep_sessions import ChatCommand, chat_commands

from deep_core import Kernel, PluginError, PluginWarning, hookimpl


class Adds:
    """A plugin with these commands."""

    def __init__(self, *commands: Any) -> None:
        self.commands = list(commands)

    @hookimpl(of="sessions")
    def deep_chat_commands(self, context: Any) -> Any:
        return self.commands


class AddsToo(Adds):
    """Another one."""


def echo(name: str) -> ChatCommand:
    return ChatCommand(name, "Say it.", "say {}".format)


def kernel_of(*plugins: Any) -> Kernel:
    return Kernel(plugins=[deep_sessions, *plugins], discover=False)


def test_commands_come_by_name_from_every_plugin_and_may_change() -> None:
    adds = Adds(echo("b"))
    with kernel_of(adds, AddsToo(echo("a:x"))) as kernel:
        assert list(chat_commands(kernel)) == ["a:x", "b"]
        assert chat_commands(kernel)["b"].render("hello") == "say hello"
        adds.commands.append(echo("c"))
        assert list(chat_commands(kernel)) == ["a:x", "b", "c"]


def test_two_plugins_with_one_name_are_an_error() -> None:
    with kernel_of(Adds(echo("a")), AddsToo(echo("a"))) as kernel, pytest.raises(PluginError, match="chat command"):
        chat_commands(kernel)


def test_what_is_no_command_is_the_error_of_the_plugin_that_adds_it() -> None:
    with kernel_of(Adds("say")) as kernel, pytest.raises(PluginError, match="ChatCommand"):
        chat_commands(kernel)


@pytest.mark.parametrize("name", ["", "/a", "A", "a b", "a\n", "-a", "a" * 81, "ä"])
def test_a_name_is_what_a_person_can_type_after_a_slash(name: str) -> None:
    with pytest.raises(ValueError, match="name of a chat command"):
        echo(name)


def test_without_plugins_there_are_none(recwarn: pytest.WarningsRecorder) -> None:
    with kernel_of() as kernel:
        assert chat_commands(kernel) == {}
    assert not [warning for warning in recwarn if issubclass(warning.category, PluginWarning)]
