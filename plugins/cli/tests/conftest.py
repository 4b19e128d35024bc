"""The command `deep` in its own environment and home, with a stub of a provider."""

from __future__ import annotations

import fcntl
import itertools
import os
import pty
import select
import subprocess
import termios
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from tests import forked
from tests.environments import REPOSITORY, Distribution, Environment, Finished
from tests.forked import Forked

NUMBERS = itertools.count()


def ours(name: str) -> Distribution:
    """One of our distributions, as installed."""
    return Distribution.of_project(REPOSITORY / "plugins" / name)


@dataclass(frozen=True)
class Deep:
    """The command, run in the environment's working directory.

    Attributes:
        environment: where it is installed.
        forks: whether a command is a fork that has made the third-party imports, or is started.
    """

    environment: Environment
    forks: bool = True

    @property
    def work(self) -> Path:
        """The current folder of the command."""
        return self.environment.work

    def command(self, *arguments: str | Path) -> list[str]:
        """The command line. -P: like the console script, without the current directory on the path."""
        return [str(self.environment.python), "-P", "-m", "deep_cli", *map(str, arguments)]

    def __call__(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Finished:
        if not self.forks:
            return self.environment.run(*self.command(*arguments), env=env)
        return self.piped("", *arguments, env=env)

    def piped(
        self, text: str, *arguments: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Finished:
        """`printf TEXT | deep …`."""
        variables = self.environment.variables(**(env or {}))
        return Finished(
            *forked.run(self.environment.prefix, self.command(*arguments), cwd or self.work, variables, text)
        )

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

    def attach(self, terminal: int, *arguments: str | Path, env: Mapping[str, str]) -> subprocess.Popen[bytes] | Forked:
        """Start it on a pseudo-terminal, in its own session."""
        command, variables = self.command(*arguments), self.environment.variables(**env)
        if self.forks:
            streams = (terminal, terminal, terminal)
            return forked.start(self.environment.prefix, command, self.work, variables, streams)
        return subprocess.Popen(
            command,
            cwd=self.work,
            env=variables,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C typed there is a signal
        )

    def typed(self, *arguments: str | Path, answers: list[tuple[str, str]], env: Mapping[str, str]) -> Finished:
        """Run it on a terminal: each answer is typed when its text has appeared on the screen."""
        here, there = pty.openpty()
        process = self.attach(there, *arguments, env={**env, "TERM": "xterm"})
        os.close(there)
        return _answered(process, here, answers)


def _answered(process: subprocess.Popen[bytes] | Forked, here: int, answers: list[tuple[str, str]]) -> Finished:
    """Type the answers; the screen is `out`."""
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
    """A user without configuration, cache, data or keys, with a separate current folder."""
    number = next(NUMBERS)
    # To find the next number, pytest would look through the folders of all tests before: thousands.
    home = tmp_path_factory.mktemp(f"cli-home-{number}", numbered=False)
    for key in os.environ:
        if key.startswith(("DEEP_", "XDG_")) or key.endswith("_API_KEY"):
            monkeypatch.delenv(key)
    for key in ("HOME", "USERPROFILE", "LOCALAPPDATA"):
        monkeypatch.setenv(key, str(home))
    # What runs in this process sees these plugins only, whatever else the environment of the tests has.
    monkeypatch.setenv("DEEP_PLUGINS_ALLOW", "backends,cli,demo,filesystem,sessions")
    monkeypatch.chdir(tmp_path_factory.mktemp(f"cli-folder-{number}", numbered=False))
    return home


def offline(wheels: Path) -> dict[str, str]:
    """What makes pip install from a folder of wheels, and from nowhere else."""
    return {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONFIG_FILE": os.devnull,
        # Off: pip reads a variable of a `--no-` option like this. For the warning it parses what every distribution
        # here requires, which takes longer than all else that it does.
        "PIP_NO_WARN_CONFLICTS": "0",
    }


def made(root: Path, *names: str, others: tuple[Distribution, ...] = ()) -> Deep:
    """The command with these of our distributions (besides deep-cli and deep-sessions) and these others."""
    environment = Environment.create(root)
    environment.install(ours("cli"), ours("sessions"), *(ours(name) for name in names), *others)
    return Deep(environment)


def started(deep: Deep) -> Deep:
    """Start the command instead of a fork: only then does a broken installation fail."""
    return replace(deep, forks=False)


@pytest.fixture
def make_deep(tmp_path: Path) -> Callable[..., Deep]:
    """Return a function that creates the command: `make_deep("backends", others=(…,))`."""
    return partial(made, tmp_path)


@pytest.fixture
def deep(make_deep: Callable[..., Deep]) -> Deep:
    """The command with file tools and backends, and a file `a.txt` in the current folder."""
    found = make_deep("backends", "filesystem")
    (found.work / "a.txt").write_text("hello\n", encoding="utf-8")
    return found
