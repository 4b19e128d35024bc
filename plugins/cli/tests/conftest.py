"""The command `deep` in an environment of its own, with a home of its own, talking to a stub of a provider."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.environments import REPOSITORY, Distribution, Environment, Finished


def ours(name: str) -> Distribution:
    """One of our distributions, as installing it would leave it."""
    return Distribution.of_project(REPOSITORY / "plugins" / name)


@dataclass(frozen=True)
class Deep:
    """The command, as typed in the environment's working directory."""

    environment: Environment

    @property
    def work(self) -> Path:
        """The current folder of the command."""
        return self.environment.work

    def command(self, *arguments: str | Path) -> list[str]:
        """What is started. -P: as the console script, it has no current directory on its path."""
        return [str(self.environment.python), "-P", "-m", "deep_cli", *map(str, arguments)]

    def __call__(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Finished:
        return self.environment.run(*self.command(*arguments), env=env)

    def config(self, text: str) -> None:
        """Write the user's own configuration file."""
        file = self.environment.home / ".config" / "deep" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def start(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start it without waiting."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.work,
            env=self.environment.variables(**(env or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def typed(self, *arguments: str | Path, answers: list[tuple[str, str]], env: Mapping[str, str]) -> Finished:
        """Run it on a terminal: each answer is typed when its text has appeared on the screen."""
        return on_terminal(
            self.command(*arguments), self.work, self.environment.variables(**env, TERM="xterm"), answers
        )


def on_terminal(command: list[str], cwd: Path, env: Mapping[str, str], answers: list[tuple[str, str]]) -> Finished:
    """Run a command on a pseudo-terminal of its own and type the answers; its screen is `out`."""
    here, there = pty.openpty()
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=there,
        stdout=there,
        stderr=there,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C typed there is a signal
    )
    os.close(there)
    screen, seen = "", 0
    waiting = list(answers)
    try:
        while True:
            ready, _, _ = select.select([here], [], [], 90)
            if not ready:
                raise AssertionError(f"nothing more came; waiting for {waiting[:1]}\n{screen}")
            try:
                data = os.read(here, 65536)
            except OSError:  # the other side is closed (Linux)
                break
            if not data:
                break
            screen += data.decode("utf-8", "replace")
            if waiting and waiting[0][0] in screen[seen:]:
                seen = len(screen)
                os.write(here, waiting.pop(0)[1].encode())
        code = process.wait(30)
    finally:
        os.close(here)
        if process.poll() is None:
            process.kill()
            process.wait()
    if waiting:
        raise AssertionError(f"never asked: {waiting}\n{screen}")
    return Finished(code, screen, "")


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without configuration, cache, data or keys, and a current folder of their own."""
    home = tmp_path_factory.mktemp("home")
    for key in os.environ:
        if key.startswith(("DEEP_", "XDG_")) or key.endswith("_API_KEY"):
            monkeypatch.delenv(key)
    for key in ("HOME", "USERPROFILE", "LOCALAPPDATA"):
        monkeypatch.setenv(key, str(home))
    # What runs in this process sees these plugins only, whatever else the environment of the tests has.
    monkeypatch.setenv("DEEP_PLUGINS_ALLOW", "backends,cli,demo,filesystem")
    monkeypatch.chdir(tmp_path_factory.mktemp("folder"))
    return home


@pytest.fixture
def make_deep(tmp_path: Path) -> Callable[..., Deep]:
    """Makes the command with these of our distributions (besides deep-cli) and these others."""

    def make(*names: str, others: tuple[Distribution, ...] = ()) -> Deep:
        environment = Environment.create(tmp_path)
        environment.install(ours("cli"), *(ours(name) for name in names), *others)
        return Deep(environment)

    return make


@pytest.fixture
def deep(make_deep: Callable[..., Deep]) -> Deep:
    """The command with file tools and backends, and a file `a.txt` in the current folder."""
    found = make_deep("backends", "filesystem")
    (found.work / "a.txt").write_text("hello\n", encoding="utf-8")
    return found
