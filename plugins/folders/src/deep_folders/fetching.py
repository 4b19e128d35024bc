"""Get a folder from a path or a git repository, into a place where nothing else writes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from deep_core.plugin_api import find_program, visible

from .snapshot import BadFolder
from .store import without_login

__all__ = ["Fetched", "fetch", "is_url", "plugins_listed"]

SECONDS = 300
LISTED = 20
"""Most folders of a marketplace that a message names; it counts the others."""
URL = re.compile(r"(?:https?|ssh|git|file)://|[\w.-]+@[\w.-]+:")
SAFE = (
    *("-c", "core.hooksPath=/dev/null", "-c", "protocol.allow=never", "-c", "protocol.https.allow=always"),
    *("-c", "protocol.http.allow=always", "-c", "protocol.ssh.allow=always", "-c", "protocol.git.allow=always"),
    *("-c", "protocol.file.allow=always"),
)
"""No helper program of a repository's choice."""


@dataclass(frozen=True)
class Fetched:
    """A folder that was fetched.

    Attributes:
        root: where it is for now.
        commit: of the repository; "" for a path.
    """

    root: Path
    commit: str = ""


def is_url(origin: str) -> bool:
    """Whether an origin is a git repository's address."""
    return URL.match(origin) is not None


@contextmanager
def fetch(origin: str, path: str, ref: str) -> Generator[Fetched]:
    """Get a folder.

    Args:
        origin: a path, or the URL of a git repository.
        path: the folder inside it; "" for all of it.
        ref: a branch or tag; "" for the default.

    Raises:
        BadFolder: there is no such folder, or git failed; the message says what.
    """
    if not is_url(origin):
        if ref:
            raise BadFolder(f"--ref is for a git repository, and {origin} is a path")
        yield Fetched(_below(Path(origin).expanduser(), path))
        return
    with TemporaryDirectory(prefix="deep-folders-") as temporary:
        target = Path(temporary, "folder")
        commit = _clone(origin, ref, target)
        yield Fetched(_below(target, path), commit)


def _below(root: Path, path: str) -> Path:
    try:
        top = root.resolve(strict=True)
        found = (top / path).resolve(strict=True)
    except (OSError, RuntimeError):
        raise BadFolder(f"{root / path} does not exist{_hint(root)}") from None
    if not found.is_relative_to(top) or not found.is_dir():
        raise BadFolder(f"{path or root} is not a folder of it")
    return found


def _clone(url: str, ref: str, target: Path) -> str:
    git = find_program("git", outside=os.getcwd())
    if git is None:
        raise BadFolder("git is not installed; install it, or add a folder by its path")
    branch = ["--branch", ref] if ref else []
    command = [git, *SAFE, "clone", "--quiet", "--depth", "1", *branch, "--", url, str(target)]
    _git(command, url)
    return _git([git, "-C", str(target), "rev-parse", "HEAD"], url)


def _git(command: list[str], url: str) -> str:
    environ = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environ, check=False)
    except subprocess.TimeoutExpired:
        raise BadFolder(f"git took more than {SECONDS} seconds for {without_login(url)}") from None
    if done.returncode:
        raise BadFolder(f"git: {visible(without_login(done.stderr.strip()))[-500:]}")
    return done.stdout.strip()


def plugins_listed(root: Path) -> str:
    """Return which folders a marketplace's file lists, for people; "" for none. A repository may hold many plugins."""
    try:
        data: Any = json.loads((root / ".claude-plugin" / "marketplace.json").read_text(encoding="utf-8"))
        plugins = cast("list[Any]", data["plugins"])
        sources = [str(plugin["source"]) for plugin in plugins if isinstance(plugin["source"], str)]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    listed = [source.removeprefix("./") for source in sources if source.strip("./")]
    more = f" and {len(listed) - LISTED} more" if len(listed) > LISTED else ""
    return f"--path is one of {', '.join(listed[:LISTED])}{more}" if listed else ""


def _hint(root: Path) -> str:
    listed = plugins_listed(root)
    return f"; {listed}" if listed else ""
