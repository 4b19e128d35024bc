"""What tests need that a machine may lack: `@pytest.mark.needs("ripgrep")`, and what to type to get it."""

from __future__ import annotations

import importlib.util
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

from tests import postgresql

__all__ = ["INSTALL", "found", "one_skip_for_all"]


def _chromium() -> bool:
    return bool((shutil.which("chromium") or shutil.which("google-chrome")) and shutil.which("chromedriver"))


def _docker() -> bool:
    if any(importlib.util.find_spec(name) is None for name in ("docker", "httpx", "pydantic_ai_backends")):
        return False
    command = shutil.which("docker")
    return command is not None and subprocess.run([command, "info"], capture_output=True, check=False).returncode == 0


def _ripgrep() -> bool:
    return shutil.which("rg") is not None


def _bubblewrap() -> bool:
    command = shutil.which("bwrap")
    everything = [command or "", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    return command is not None and subprocess.run(everything, capture_output=True, check=False).returncode == 0


def _git() -> bool:
    return shutil.which("git") is not None


def _npm() -> bool:
    return shutil.which("npm") is not None


def _postgresql() -> bool:
    return postgresql.programs() is not None and importlib.util.find_spec("psycopg") is not None


def _sqlite() -> bool:
    """Whether DBOS works on SQLite: on Python 3.12 or newer it asks for what SQLite 3.42 brought."""
    return sys.version_info < (3, 12) or sqlite3.sqlite_version_info >= (3, 42)


def _tmux() -> bool:
    return shutil.which("tmux") is not None


def _pyright() -> bool:
    """Whether it runs: where there is no Node.js, it downloads one the first time."""
    command = [sys.executable, "-m", "pyright", "--version"]
    return bool(shutil.which("node")) or subprocess.run(command, capture_output=True, check=False).returncode == 0


FOUND: dict[str, Callable[[], bool]] = {
    "bubblewrap": _bubblewrap,
    "Chromium": _chromium,
    "Docker": _docker,
    "git": _git,
    "npm": _npm,
    "PostgreSQL": _postgresql,
    "pyright": _pyright,
    "ripgrep": _ripgrep,
    "SQLite 3.42": _sqlite,
    "tmux": _tmux,
}
INSTALL = {
    "bubblewrap": "apt-get install bubblewrap, on a system that lets it make namespaces",
    "Chromium": "apt-get install chromium chromium-driver",
    "Docker": "start a Docker engine, and pip install 'deep-backends[docker]'",
    "git": "apt-get install git",
    "npm": "apt-get install npm",
    "PostgreSQL": "apt-get install postgresql, and pip install 'deep-sessions[postgresql]'",
    "pyright": "install Node.js, or let pyright download one",
    "ripgrep": "apt-get install ripgrep",
    "SQLite 3.42": "use Python 3.11, or a Python with a newer SQLite",
    "tmux": "apt-get install tmux",
}


@cache
def found(name: str) -> bool:
    """Whether this machine has it."""
    return FOUND[name]()


def one_skip_for_all(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests in one file that need what is missing, keep the first, which skips and says how many there are."""
    missing: dict[pytest.Item, tuple[str, str]] = {}
    for item in items:
        for mark in item.iter_markers("needs"):
            if not found(mark.args[0]):
                missing[item] = (item.nodeid.partition("::")[0], mark.args[0])
    number, first = Counter(missing.values()), set[tuple[str, str]]()
    kept, dropped = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        key = missing.get(item)
        if key is None:
            kept.append(item)
        elif key in first:
            dropped.append(item)
        else:
            first.add(key)
            reason = f"{number[key]} of this file need {key[1]}: {INSTALL[key[1]]}"
            item.add_marker(pytest.mark.skip(reason=reason))
            kept.append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept
