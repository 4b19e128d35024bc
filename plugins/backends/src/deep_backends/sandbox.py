"""The sandbox backend: a directory of this machine whose commands are confined to it by bubblewrap."""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncIterable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar
from weakref import WeakSet

from anyio import to_thread
from pydantic_ai.workspaces import CommandResult, WorkspaceCommand, WorkspaceRef, WorkspaceUnavailableError

from deep_core.plugin_api import absolute_path, find_program

from .background import Staying
from .local import SUPERVISE, LocalBackend
from .run_later import LINK, Found, reason_of, survey

__all__ = ["SandboxBackend"]

PRIVATE = ("/tmp", "/var/tmp", "/run", "/dev/shm", "/mnt", "/media")  # noqa: S108 - these are hidden
"""Folders that are empty in the sandbox. `/run` has the sockets of services, which a read-only folder does not stop."""
GUARDED = (
    ".hg/hgrc", ".husky", ".pre-commit-config.yaml", "lefthook.yml", ".envrc", ".direnv",
    "mise.toml", ".mise.toml", ".vscode", ".idea", ".devcontainer", ".npmrc", ".yarnrc.yml", "sitecustomize.py",
    "usercustomize.py",
)  # fmt: skip
"""What stays read-only at the top of the workspace, if it exists, beside its repository's configuration and hooks."""
MOST_MODULES = 100
ASIDE = ".sandboxed"
"""What is appended to the name of a file that a command made, and that is protected or runs later."""

MOST_FROZEN = 200
"""Files that a command which stays cannot change because they run later; more are looked after as new ones are."""
WRAPPED = 2
"""Processes of bubblewrap around a command."""
LOOK, SHARE = 2.0, 20.0
"""Seconds between two looks at what runs later: at least, and how often a look's own time."""
RESTORE = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Starts a command with the signals of a terminal, which bubblewrap ignores around it."""
_PUTTING = threading.Lock()

logger = logging.getLogger("deep.backends")


class SandboxBackend(LocalBackend):
    """Files and commands in one directory of this machine, both confined to it. Linux, with bubblewrap.

    File operations are those of `LocalBackend`. A command runs in namespaces of its own:

    - It writes below `root` only, except for `protected` paths, `GUARDED` ones (such as `.envrc`), and the
      configuration and hooks of its git repository. The rest is read-only.
    - What cannot be mounted is compared after the command, by the table of `run_later`: anything that runs later, also
      in other repositories, does not stay. It is moved aside, and what was there before is put back. A protected path
      that a command creates is moved aside as well.
    - It does not see your home directory, apart from the interpreter and the folders of the `PATH`, nor `/tmp` and
      `/run`. It has empty ones of its own, which are gone after it.
    - It has no network, unless `network` is true.
    - It sees no process of the host, and no environment but that of `LocalBackend`'s commands.
    - All of its processes end with it.

    It may use all memory, processors and disk space, and a fault in the Linux kernel opens it.

    Args:
        root: as for `LocalBackend`.
        network: whether commands reach the network, the host's own services included.
        readable: files and folders below the home directory that commands may read.
        options: as for `LocalBackend`.

    Raises:
        WorkspaceUnavailableError: bubblewrap is not installed.
        ValueError: the root is `/`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        network: bool = False,
        readable: Iterable[str | os.PathLike[str]] = (),
        **options: Any,
    ) -> None:
        super().__init__(root, **options)
        if os.path.realpath(self._ref.id) == "/":
            raise ValueError("the sandbox backend needs a directory below /, or nothing would be read-only")
        bwrap = find_program("bwrap", outside=self._ref.id)
        if bwrap is None:
            raise WorkspaceUnavailableError(
                "the backend `sandbox` needs bubblewrap, which is not installed: apt-get install bubblewrap (or dnf, "
                "pacman), or choose the backend `docker`"
                if sys.platform == "linux"
                else "the backend `sandbox` needs Linux; choose the backend `docker`"
            )
        self._bwrap = bwrap
        self._network = network
        self._readable = [os.path.abspath(os.path.expanduser(path)) for path in readable]
        # Not the provider of LocalBackend: a conversation must not continue without its sandbox.
        self._ref = WorkspaceRef(provider="deep-sandbox", id=self._ref.id)

    def _confine(
        self, argv: Sequence[str], environment: dict[str, str], *, frozen: Iterable[str] | None = None
    ) -> list[str]:
        """Return the words that run `argv` in the sandbox.

        Args:
            argv: the program and its arguments.
            environment: what it sees.
            frozen: of a command that stays and has a terminal: what else is read-only, below the root.
        """
        bounds = self._confined
        root = bounds.root
        home = os.path.realpath(os.path.expanduser("~"))
        options = ["--unshare-user", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
        stays = frozen is not None
        if not stays:  # one that stays has a terminal that is nobody's
            options.append("--new-session")
        if self._network:
            options.append("--share-net")
        options += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        for folder in (*PRIVATE, home):
            if os.path.isdir(folder) and not os.path.islink(folder) and folder != "/":
                options += ["--tmpfs", folder]
        programs = absolute_path(environment.get("PATH", "")).split(os.pathsep)
        for path in (sys.prefix, sys.base_prefix, *programs, *self._readable):
            if any(path.startswith(f"{hidden}/") for hidden in (*PRIVATE, home)) and os.path.exists(path):
                options += ["--ro-bind", path, path]
        if self._network and os.path.exists("/etc/resolv.conf"):  # often a link into /run
            name = os.path.realpath("/etc/resolv.conf")
            options += ["--ro-bind", name, name]
        real = map(os.path.realpath, (*bounds.inside, *_guarded(root), *(frozen or ())))  # a mount follows links
        guarded = {path for path in real if path.startswith(f"{root}/") and os.path.exists(path)}
        # Each folder above one as well: what is mounted cannot be renamed, and a new folder put in its place.
        folders = {folder for path in guarded for folder in _between(root, path)}
        for path in (root, *sorted(folders)):
            options += ["--bind", path, path]
        for path in sorted(guarded):
            options += ["--ro-bind", path, path]
        # A supervisor in there as well: bubblewrap kills what is left once its first process ends.
        inner = [sys.executable, "-I", "-S", "-c", RESTORE if stays else _supervisor()]
        # The supervisor waits for the namespace: bubblewrap ends before the processes that it left in there are dead.
        return [self._bwrap, *options, "--chdir", root, "--", *inner, *argv]

    async def _staying(self, command: str) -> Staying:
        plain, bounds = await super()._staying(command), self._confined
        states = {path: _state(path) for path in bounds.inside}
        before = await to_thread.run_sync(_survey, bounds.root)
        later = Later(bounds.root, states, before)
        words = self._confine(plain.words, plain.env, frozen=[f"{bounds.root}/{path}" for path in later.frozen])
        return Staying(words, plain.env, WRAPPED, later.look)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """See `LocalBackend`."""
        with self._own_write(path):
            await super().write_bytes(path, data)

    async def write_stream(self, path: str, chunks: AsyncIterable[bytes]) -> int:
        """See `LocalBackend`."""
        with self._own_write(path):
            return await super().write_stream(path, chunks)

    async def write_if(self, path: str, data: bytes, *, expected: str | None) -> bool:
        """See `LocalBackend`."""
        with self._own_write(path):
            return await super().write_if(path, data, expected=expected)

    @contextmanager
    def _own_write(self, path: str) -> Generator[None]:
        """Tell those who look after commands that stay that this is no command's work."""
        root = self._confined.root
        watching = [each for each in Later.all if each.root == root] if reason_of(path) else []
        for each in watching:
            each.writing += 1
        try:
            yield
        finally:
            for each in watching:
                each.take_over(os.path.relpath(os.path.realpath(path), root))

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's parameter
    ) -> CommandResult:
        """Run a command as `LocalBackend.run` does, confined to the root.

        Standard error tells what the command created that is protected, or that runs later.
        """
        bounds = self._confined
        before = {path: _state(path) for path in bounds.inside}
        later = await to_thread.run_sync(_survey, bounds.root)
        result, notes = None, list[str]()
        try:
            result = await super().run(command, shell=shell, env=env, timeout=timeout)
        finally:
            # Its processes are dead now. What is above a file first: a link may lead out of the root.
            for path in sorted(before):
                if _state(path) not in (None, before[path]):
                    notes.append(_put_aside(bounds.root, path))
            with _PUTTING:
                notes += _put_back(bounds.root, later)
            for note in notes:
                logger.warning("%s", note)
        return replace(result, stderr=f"{result.stderr}{''.join(f'[{note}]{chr(10)}' for note in notes)}")


class Later:
    """Looks after what runs later while a command stays: new files of that kind are moved aside within seconds.

    Those that were there are read-only for the command, as far as they can be mounted: who changes them is the user, or
    the file tools. What the file tools make is taken over. What others make is moved aside too, and said.

    Args:
        root: the workspace.
        states: the protected paths, and what each is.
        before: what runs later, or why it is not known.
    """

    all: ClassVar[WeakSet[Later]] = WeakSet()

    def __init__(self, root: str, states: dict[str, str | None], before: dict[str, Found] | str) -> None:
        self.root = root
        self.writing = 0
        self._states = states
        self._before = before
        known = {} if isinstance(before, str) else before
        files = [path for path, found in known.items() if found.part and found.content is not None]
        self.frozen = files[:MOST_FROZEN]
        self.all.add(self)

    def take_over(self, path: str) -> None:
        """Take what a file has now for no command's work: the file tools have written it."""
        now = _survey(self.root)
        if not isinstance(now, str) and not isinstance(self._before, str) and path in now:
            self._before = {**self._before, path: now[path]}
        self.writing -= 1

    def look(self) -> tuple[float, list[str]]:
        """Move aside what is new; return the seconds until the next look, and what was done."""
        began, notes = time.monotonic(), list[str]()
        with _PUTTING:
            for path in sorted(self._states):
                if _state(path) not in (None, self._states[path]):
                    notes.append(_put_aside(self.root, path))
            if not self.writing and not isinstance(self._before, str):
                notes += _put_back(self.root, self._before, spared={*self.frozen})
        for note in notes:
            logger.warning("%s", note)
        return max(LOOK, SHARE * (time.monotonic() - began)), notes


@cache
def _supervisor() -> str:
    """Return the supervisor's text: its file may be in a folder that is hidden."""
    with open(SUPERVISE, encoding="utf-8") as file:
        return file.read()


def _survey(root: str) -> dict[str, Found] | str:
    """Return what runs later, or why it is not known."""
    try:
        return survey(root)
    except OSError as error:
        return str(error)


def _put_back(root: str, before: dict[str, Found] | str, spared: Collection[str] = ()) -> list[str]:
    """Move aside what a command made that runs later, put back what was there, and say so. Leave what is spared."""
    after = _survey(root)
    if isinstance(before, str) or isinstance(after, str):
        return [f"what runs later was not compared: {before if isinstance(before, str) else after}"]
    notes: list[str] = []
    for path, new in sorted(after.items()):
        old = before.get(path)
        if not new.part or path in spared or (old is not None and old.part == new.part):
            continue
        place = f"{root}/{path}"
        if not os.path.lexists(place):  # below a link that is aside now
            continue
        aside = _rename_aside(place)
        if old is not None and old.content is not None:
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, old.mode)
            with open(descriptor, "wb") as file:
                file.write(old.content)
        elif old is not None and old.part.startswith(LINK):
            target = old.part.removeprefix(LINK).partition(b"\0")[0]
            if not new.part.startswith(LINK + target + b"\0"):  # else the link is the same, and what it leads to is not
                os.symlink(os.fsdecode(target), place)
        name = os.path.relpath(aside, root)
        notes.append(
            f"{path} runs later ({new.reason}): what this command made of it is in {name}. To keep it, write {path} "
            "with the tool for files, which asks the user"
        )
    return notes


def _guarded(root: str) -> list[str]:
    """List what stays read-only if it exists."""
    found = [f"{root}/{name}" for name in GUARDED]
    git = f"{root}/.git"
    if os.path.isfile(git):
        found.append(git)
    folders = [os.path.realpath(_git_dir(git))]
    for folder, names, _ in os.walk(f"{folders[0]}/modules"):
        if "objects" in names:
            folders.append(folder)
            names[:] = [name for name in names if name == "modules"]
        if len(folders) > MOST_MODULES:
            break
    found += [f"{folder}/hooks" for folder in folders]
    # Those of submodules are compared: `git submodule update` writes them.
    found += [f"{folders[0]}/{name}" for name in ("config", "config.worktree")]
    return found


def _git_dir(path: str) -> str:
    """Return the folder of a repository: what `.git` is, leads to, or names."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            named = file.read(4_096).partition("gitdir: ")[2].strip()
    except OSError:
        return path
    return os.path.join(os.path.dirname(path), named) if named and "\0" not in named else path


def _state(path: str) -> str | None:
    """What a path is, as far as a mount does not protect it: missing (None), a link with its target, or there."""
    try:
        return f"link to {os.readlink(path)}"
    except OSError:
        return "there" if os.path.lexists(path) else None


def _put_aside(root: str, path: str) -> str:
    """Rename a protected path that a command created, or the link on the way to it, and say so."""
    parts = path.removeprefix(f"{root}/").split("/")
    steps = [f"{root}/{'/'.join(parts[:end])}" for end in range(1, len(parts) + 1)]
    found = next((step for step in steps if os.path.islink(step)), path)
    aside = _rename_aside(found)
    return f"{os.path.relpath(path, root)} is protected: what this command created is in {os.path.relpath(aside, root)}"


def _rename_aside(path: str) -> str:
    number = next(n for n in itertools.count() if not os.path.lexists(f"{path}{ASIDE}{n or ''}"))
    aside = f"{path}{ASIDE}{number or ''}"
    os.rename(path, aside)
    return aside


def _between(root: str, path: str) -> list[str]:
    """List the folders below `root` and above `path`."""
    names = path.removeprefix(f"{root}/").split("/")
    return [f"{root}/{'/'.join(names[:end])}" for end in range(1, len(names))]
