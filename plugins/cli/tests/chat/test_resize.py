"""A terminal that breaks long lines anew at each size, as most do: tmux. The prompt is there once."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stubs import OpenAIStub, Script

DRAFT = "a draft that is longer than a narrow terminal is wide, and than a wide one too, after which comes more of it"
SIZES = (40, 120, 25, 100, 30, 80)
PATIENCE = 60


class Tmux:
    """A server of its own, with one window that runs a command."""

    def __init__(self, root: Path, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self._socket = root / "tmux"
        self._env = env
        self._do("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "30", "-c", str(cwd), *command)

    def _do(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self._socket), *arguments]
        return subprocess.run(command, env=self._env, capture_output=True, text=True, check=True).stdout

    def type(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    def resize(self, columns: int) -> None:
        self._do("resize-window", "-x", str(columns), "-y", "30")

    @property
    def screen(self) -> str:
        return self._do("capture-pane", "-p")

    def until(self, shows: Callable[[str], bool]) -> str:
        """Wait for a screen, and return it: the next one may be of the moment in which the chat redraws itself."""
        end = time.monotonic() + PATIENCE
        while not shows(screen := self.screen):
            assert time.monotonic() < end, screen
            time.sleep(0.05)
        return screen

    def close(self) -> None:
        subprocess.run(["tmux", "-S", str(self._socket), "kill-server"], capture_output=True, check=False)


@pytest.mark.slow
@pytest.mark.needs("tmux")
def test_no_size_leaves_a_copy_of_the_prompt(deep: Any, tmp_path: Path) -> None:
    with OpenAIStub(Script(then="Fine.")) as stub:
        env = deep.environment.variables(**stub.env, TERM="xterm-256color", LC_ALL="C.UTF-8")
        tmux = Tmux(tmp_path, deep.command("chat", "--model", "openai-chat:stub"), deep.work, env)
        try:
            tmux.until(lambda screen: "ready ·" in screen)
            tmux.type("hello", "Enter")
            tmux.until(lambda screen: "Fine." in screen and "ready ·" in screen)
            tmux.type(DRAFT)
            for number, columns in enumerate(SIZES):
                tmux.resize(columns)
                tmux.type(str(number))  # what shows it has drawn itself at this size
                typed = DRAFT + "".join(map(str, range(number + 1)))
                screen = tmux.until(
                    lambda screen, typed=typed: (
                        "ready ·" in screen and typed.replace(" ", "") in "".join(screen.split())
                    )
                )
                assert (screen.count("ready ·"), screen.count("> a draft")) == (1, 1), screen
        finally:
            tmux.close()
