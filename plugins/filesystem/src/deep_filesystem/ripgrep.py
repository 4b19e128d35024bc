"""grep with ripgrep, if the workspace runs commands and has it.

What git ignores is found by our walk: ripgrep's own reading of the ignore files differs from git's in details, and it
does not say what it left out. The two run beside each other. ripgrep learns what the walk has found when it starts, of
which the folders that git ignores at the root matter most. What it finds in others is left out of its answer.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import posixpath
import re
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import IO, cast
from weakref import WeakSet

from anyio import fail_after
from pydantic_ai.workspaces import (
    SupportsCommands,
    Workspace,
    WorkspaceBackend,
    WorkspaceError,
    WorkspaceTimeoutError,
)

from deep_core import SupportsRoute
from deep_core.plugin_api import find_program

from .access import is_of_this_machine
from .gitignore import exists
from .host import Folder, Limit, SupportsOpenDirectory, TimeUp, directory_opener, in_thread, scan
from .linematch import LONG_LINE, shown_line
from .matching import Matching
from .search import PIECE, FileMatches, Matches, SearchRequest, is_binary, match_file, search_folders
from .walk import SKIPPED, Found, Sieve, TooMany, is_printable, walk

__all__ = ["can_try", "search_by_ripgrep"]

# Search every file of the walk in `search`, whatever ignore files, configuration and terminal say. Without
# --no-mmap, ripgrep finds a NUL byte in the first buffer only.
_COMMON = (
    "--no-config", "--no-ignore", "--hidden", "--no-mmap", "--color=never", "--no-heading", "--with-filename", "--null",
)  # fmt: skip
_COUNT = re.compile(r"([^\0]*)\0(\d+)\n")
_COUNTED = re.compile(rb"([^\0]*)\0(\d+)\n")
_LINE = re.compile(r"([^\0]*)\0(\d+):([^\n]*)(?:\n|\Z)")
_OMITTED = re.compile(r"\[Omitted long (?:matching )?line.*\]")
_FAILED = re.compile(r"(?:rg: )?(.*): [^:]* \(os error \d+\)")
_SAFE_NAME = re.compile(r"[A-Za-z0-9_.*-]+")
"""A glob of a name that ripgrep reads as we do."""
NOT_FOUND = 127
"""The exit code of a backend for a program that does not exist."""
PRUNED = 1_000
"""Maximum ignored paths that ripgrep leaves out; what it finds in others is left out afterwards."""
ASKED = 1_000
"""Maximum folders to ask for rules in a workspace that is not of this machine."""
FEW_FILES, FEW_FOLDERS = 1_000, 150
"""A tree up to this size is searched without ripgrep, of which the start alone takes as long."""
FEW_OF = 6
"""Of so many entries one is wanted: to search it here takes less than ripgrep's own walk."""
SNIFFED = 4_000
"""Maximum files of which the first bytes are read to find out whether they are binary: at most 50 milliseconds."""
DRAINED = 16
"""Folders of the walk between two looks at what ripgrep printed, which waits once its pipe is full."""
PATIENCE = 1.0
"""Minimum seconds to wait for a ripgrep that does not know all that git ignores, before it is started again."""
TEXT = frozenset({
    "bat", "c", "cc", "cfg", "clj", "cmake", "conf", "cpp", "cs", "css", "csv", "dart", "diff", "ex", "exs", "go",
    "gradle", "graphql", "h", "hpp", "hs", "htm", "html", "ini", "ipynb", "java", "js", "json", "jsx", "kt", "less",
    "lock", "lua", "m", "md", "mdx", "mjs", "mk", "ml", "mm", "php", "pl", "po", "proto", "ps1", "py", "pyi", "r", "rb",
    "rs", "rst", "sass", "scala", "scss", "sh", "sql", "svelte", "swift", "tex", "toml", "ts", "tsx", "vb", "vue",
    "xml", "yaml", "yml", "zig",
})  # fmt: skip
"""Extensions of text: such a file is rarely binary."""
BLOCK = 1024 * 1024
"""Bytes of ripgrep's answer to look at together."""

# Backends without ripgrep, so that each is asked once.
_without: WeakSet[WorkspaceBackend] = WeakSet()


class _Failed(Exception):
    """ripgrep did not search: then Python does."""


def can_try(workspace: Workspace, request: SearchRequest) -> bool:
    """Whether ripgrep can be used: it is there or can be run, and the pattern is in the subset."""
    backend = workspace.backend
    return request.dialect.ripgrep is not None and (
        _runs_here(workspace)
        or (
            isinstance(backend, SupportsCommands)
            and not isinstance(backend, SupportsRoute)  # its commands see only some of its files
            and not workspace.read_only
            and not _known_without(backend)
        )
    )


def _runs_here(workspace: Workspace) -> bool:
    """Whether this process may run ripgrep itself: the backend's commands are not confined further than its files.

    The backend would start a supervisor first, which takes longer than ripgrep in a small tree.
    """
    kind = type(workspace.backend)
    if directory_opener(workspace) is None or not hasattr(kind, "run"):
        return False
    return len({next(each for each in kind.__mro__ if name in vars(each)) for name in ("open_directory", "run")}) == 1


async def search_by_ripgrep(workspace: Workspace, request: SearchRequest, seconds: float) -> Matches | None:
    """Search with ripgrep: one run to count. The lines of the first files are found by Python, or by a second run.

    Returns:
        None if ripgrep is missing or fails.

    Raises:
        TooMany: there are too many files.
    """
    program = await _program(workspace)
    opener = directory_opener(workspace)
    if program is None:
        return None
    top = await workspace.realpath(await workspace.working_dir())
    with contextlib.suppress(_Failed, TimeUp):
        if opener is None:
            found = await _search_elsewhere(workspace, program, request, top, seconds)
        elif request.is_file and ((await workspace.stat(request.root)).size or 0) < PIECE:
            return None  # one small file takes less than a process
        else:
            found = await _search_here(workspace, opener, program, request, top, seconds)
        return found if not request.lines else await _with_lines(workspace, program, request, found, top, seconds)
    return None


# Directories of this machine


@dataclass
class _Gone:
    """What git ignores and ripgrep does not know of, in bytes, as ripgrep prints a path.

    Attributes:
        files: paths of files.
        folders: paths of folders.
    """

    files: frozenset[bytes] = frozenset()
    folders: frozenset[bytes] = frozenset()
    _known: dict[bytes, bool] = field(default_factory=dict[bytes, bool])

    def has(self, path: bytes) -> bool:
        """Whether a path is one of the files, or below one of the folders."""
        if path in self.files:
            return True
        if not self.folders:
            return False
        folder = path.rpartition(b"/")[0]
        found = self._known.get(folder)
        if found is None:
            found = self._known[folder] = folder in self.folders or (b"/" in folder and self.has(folder))
        return found


@dataclass
class _Told:
    """What ripgrep learns before it starts.

    Attributes:
        arguments: what to leave out, and where to begin.
        narrow: whether it searches no other files than those that are wanted.
        folders: how many of the ignored folders it knows, the first.
        files: whether it knows the ignored files.
    """

    arguments: list[str]
    narrow: bool = True
    folders: int = 0
    files: bool = False


@dataclass
class _Survey:
    """What the walk found.

    Attributes:
        keep: whether a path that ripgrep prints is of the wanted files; None if all are but those that are gone.
        gone: what ripgrep may have searched in vain.
        binary: files that count as binary, in bytes, as ripgrep prints a path.
    """

    keep: Callable[[str], bool] | None = None
    gone: _Gone = field(default_factory=_Gone)
    binary: frozenset[bytes] = frozenset()


async def _search_here(
    workspace: Workspace,
    opener: SupportsOpenDirectory,
    program: str,
    request: SearchRequest,
    top: str,
    seconds: float,
) -> Matches:
    limit = Limit(seconds)
    found = Matches(request)
    above = top.rstrip("/") + "/"

    def command(told: _Told) -> list[str]:
        return _command(program, request, ["--count" if request.counts else "--files-with-matches", *told.arguments])

    if request.is_file:
        folder, name = posixpath.split(request.root)
        # ripgrep searches a file of the command line even if it is binary, but not one found in a directory.
        told = _Told(["--max-depth=1", f"--glob={_escape(name)}", "--", _relative(folder, above)])
        answer = _Answer(request, above, _Survey(), found)
        if _runs_here(workspace):
            found.partial = await in_thread(lambda: _run_here(command(told), top, answer, limit), limit)
        else:
            await _run_there(workspace, command(told), answer, found, limit)
        return found

    def search_beside() -> None:
        """Walk while ripgrep runs: the walk takes a quarter of its time, which a second processor has."""
        sieve = request.sieve()
        with _Beside(lambda told: _Started(command(told), top)) as beside, _Few(request, sieve, found, limit) as few:
            few.on_stop = lambda: beside.start(_told(SKIPPED, request, above, with_files=False))
            began = time.monotonic()
            few.look(scan(opener, request.root, top, sieve, limit), beside.drain)
            if few.finish():
                return
            if beside.told.folders < len(request.left.folders) and beside.runs(min(limit.left, _patience(began))):
                # It may be lost in a large folder that git ignores.
                beside.start(_told(SKIPPED, request, above, with_files=True))
            answer = _Answer(request, above, few.survey(beside.told, above), found)
            found.partial = beside.read(answer, limit)

    if _runs_here(workspace):
        await in_thread(search_beside, limit)
        return found

    def survey() -> _Told | None:
        sieve = request.sieve()
        with _Few(request, sieve, found, limit) as few:
            few.look(scan(opener, request.root, top, sieve, limit))
            if few.finish():
                return None
            told = _told(sieve.skipped, request, above, with_files=True)
            surveys.append(few.survey(told, above))
        return told

    surveys: list[_Survey] = []
    if (told := await in_thread(survey, limit)) is not None:
        answer = _Answer(request, above, surveys[0], found)
        await _run_there(workspace, command(told), answer, found, limit)
    return found


def _patience(began: float) -> float:
    """Seconds to wait for ripgrep after a walk that began then, before it learns what the walk found."""
    return max(PATIENCE, 4 * (time.monotonic() - began))


async def _run_there(workspace: Workspace, command: list[str], answer: _Answer, found: Matches, limit: Limit) -> None:
    """Run ripgrep by the workspace, whose commands see less than this process."""
    try:
        result = await workspace.run(command, timeout=limit.left)
    except WorkspaceTimeoutError as error:
        answer.take(error.stdout.encode("utf-8", "surrogateescape"))
        found.partial = True
    except (WorkspaceError, OSError) as error:
        raise _Failed from error  # denied, or too much output
    else:
        _check_exit(workspace.backend, result.exit_code)
        answer.take(result.stdout.encode("utf-8", "surrogateescape"))
        answer.end(result.stderr)


class _Few:
    """Search while walking, where this takes less than a process: a small tree, or a few wanted files of a large one.

    The folders stay open meanwhile. In other trees it counts binary files, which ripgrep passes over in silence: among
    those of which the name does not say that they are text.

    Attributes:
        on_stop: called once the search is left to ripgrep.
    """

    def __init__(self, request: SearchRequest, sieve: Sieve, found: Matches, limit: Limit) -> None:
        self.on_stop: Callable[[], None] | None = None
        self._request, self._sieve, self._found, self._limit = request, sieve, found, limit
        self._matching = Matching(request.dialect)
        self._open: list[Folder] = []
        self._searching = True
        self._files = self._sniffed = 0
        self._binary: list[str] = []
        self._unreadable: list[str] = []

    def __enter__(self) -> _Few:
        return self

    def __exit__(self, *args: object) -> None:
        self._close()

    def _close(self) -> None:
        folders, self._open = self._open, []
        for folder in folders:
            os.close(folder.descriptor)

    def look(self, folders: Iterable[Folder], meanwhile: Callable[[], None] | None = None) -> None:
        """Walk. Call `meanwhile` all the time once the search is left to ripgrep."""
        for folder in folders:
            if not folder.names:
                continue
            self._files += len(folder.names)
            if not self._searching:
                self._sniff(folder)
                if meanwhile is not None:
                    meanwhile()
                continue
            self._open.append(folder._replace(descriptor=os.dup(folder.descriptor)))
            few = self._files <= FEW_FILES
            if few and len(self._open) < FEW_FOLDERS:
                continue
            if few or (self._request.wanted is not None and self._files * FEW_OF < self._sieve.entries):
                self._search()
            else:
                self._stop()

    def finish(self) -> bool:
        """Search what is left. Return whether all is searched; else nothing is kept of it."""
        if self._searching:
            self._search()
        return self._searching

    def survey(self, told: _Told, above: str) -> _Survey:
        """Return what has to be left out of the answer of a ripgrep that was told this."""
        request = self._request
        left, wanted = request.left, request.wanted

        def printed(paths: Iterable[str]) -> frozenset[bytes]:
            return frozenset(b"./" + os.fsencode(path.removeprefix(above)) for path in paths)

        gone = _Gone(printed([] if told.files else left.files), printed(left.folders[told.folders :]))
        start = len(request.root.rstrip("/")) + 1

        def keep(path: str) -> bool:
            return is_printable(path) and (wanted is None or wanted.matches(request.prefix + path[start:]))

        return _Survey(None if told.narrow and not left.unnamed else keep, gone, printed(self._binary))

    def _search(self) -> None:
        left = self._request.left
        before, binary = len(left.unreadable), left.binary
        later = search_folders(self._open, self._request, self._matching, self._found, self._limit, lines=0)
        self._unreadable += left.unreadable[before:]
        if later:
            left.binary = binary  # of folders that are still open, and looked at again
            self._stop()
        else:
            self._close()

    def _stop(self) -> None:
        """Leave the search to ripgrep: a file is large, the pattern takes long, or the files are many."""
        if self.on_stop is not None:
            self.on_stop()
        left = self._request.left
        again = {*self._unreadable}
        left.unreadable[:] = [path for path in left.unreadable if path not in again]
        left.large = 0
        self._found.clear()
        self._searching = False
        for folder in self._open:
            self._sniff(folder)
        self._close()

    def _sniff(self, folder: Folder) -> None:
        names = folder.names
        if self._files > FEW_FILES:
            names = [name for name in names if name.rpartition(".")[2].lower() not in TEXT]
        left = self._request.left
        if len(names) > SNIFFED - self._sniffed:
            left.more_binary = True
            names = names[: SNIFFED - self._sniffed]
        for name in names:
            self._sniffed += 1
            with contextlib.suppress(OSError):  # ripgrep says so
                if is_binary(folder.descriptor, name):
                    left.binary += 1
                    self._binary.append(folder.absolute + name)


def _told(skipped: Collection[str], request: SearchRequest, above: str, *, with_files: bool) -> _Told:
    """Say how ripgrep leaves out what the walk leaves out, as far as the walk has come."""
    left = request.left
    folders = left.folders[:PRUNED]
    arguments = [f"--glob=!**/{name}/" for name in sorted(skipped)]
    arguments += [f"--glob=!/{_escape(path.removeprefix(above))}/" for path in folders]
    with_files = with_files and len(left.folders) + len(left.files) <= PRUNED
    if with_files:
        arguments += [f"--glob=!/{_escape(path.removeprefix(above))}" for path in left.files]
    wanted = request.wanted
    narrow = wanted is None
    if wanted is not None and wanted.names is not None and all(map(_SAFE_NAME.fullmatch, wanted.names)):
        # A type and not a glob: one glob that includes would override all that exclude.
        arguments += [*(f"--type-add=wanted:{name}" for name in wanted.names), "--type=wanted"]
        narrow = request.prefix == wanted.prefix
        if narrow and wanted.depth is not None:
            arguments.append(f"--max-depth={wanted.depth + 1}")
    return _Told([*arguments, "--", _relative(request.root, above)], narrow, len(folders), with_files)


class _Answer:
    """Read what ripgrep prints, piece by piece."""

    def __init__(self, request: SearchRequest, above: str, known: _Survey, found: Matches) -> None:
        self._request, self._above, self._known, self._found = request, above, known, found
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Take a piece, cut anywhere."""
        data = self._rest + data
        if self._request.counts:
            cut = _behind_last_count(data)
            printed, self._rest = _COUNTED.findall(data, 0, cut), data[cut:]
        else:
            *names, self._rest = data.split(b"\0")
            printed = [(name, b"1") for name in names]
        gone, binary = self._known.gone, self._known.binary
        if gone.files or gone.folders:
            printed = [each for each in printed if not gone.has(each[0])]
        if binary:  # one that matches before its first NUL byte was searched
            self._request.left.binary -= sum(name in binary for name, _ in printed)
        if self._known.keep is not None or b"/.deep/" in data:
            self._found.add(self._files(printed))
        else:
            lines = sum(int(count) for _, count in printed)
            self._found.count(len(printed), lines, self._files(heapq.nsmallest(self._request.files, printed)))

    def _files(self, printed: Iterable[tuple[bytes, bytes]]) -> Iterator[FileMatches]:
        for name, count in printed:
            path = self._above + os.fsdecode(name.removeprefix(b"./"))
            if self._known.keep is None or self._known.keep(path):
                yield FileMatches(path, int(count))

    def end(self, errors: str) -> None:
        """Take what ripgrep says about files that it could not read.

        Raises:
            _Failed: it says something else.
        """
        unreadable: set[str] = set()
        for line in errors.splitlines():
            failed = _FAILED.fullmatch(line)
            if failed is None:
                raise _Failed(line)
            name = failed[1].removeprefix("./")
            if not self._known.gone.has(b"./" + name.encode("utf-8", "surrogateescape")):
                unreadable.add(self._above + name)
        left = self._request.left
        left.unreadable += sorted(unreadable - {*left.unreadable})
        left.large += self._found.drop(lambda path: _size(path) > self._request.max_bytes)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0  # it is gone since


def _behind_last_count(data: bytes) -> int:
    """Return where the last whole `path NUL count LF` ends."""
    at = len(data)
    while (at := data.rfind(b"\0", 0, at)) >= 0:
        if end := data.find(b"\n", at) + 1:
            return end
    return 0


def _run_here(command: Sequence[str], folder: str, answer: _Answer, limit: Limit) -> bool:
    """Run ripgrep in a thread, and read its answer while it comes. Return whether the time ran out.

    Raises:
        _Failed: it did not search.
    """
    with _Started(command, folder) as started:
        return started.read(answer, limit)


class _Started:
    """A ripgrep that this process started. Leaving the context kills it.

    Raises:
        _Failed: it cannot be started.
    """

    def __init__(self, command: Sequence[str], folder: str) -> None:
        self._held = bytearray()  # ripgrep writes some hundred bytes at a time
        self._ended = False
        with contextlib.ExitStack() as opened:
            self._errors = opened.enter_context(tempfile.TemporaryFile())
            try:
                self._process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env={"PATH": os.defpath},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=self._errors,
                    bufsize=0,
                )
            except OSError as error:
                raise _Failed from error
            self._opened = opened.pop_all()
        self._output = cast("IO[bytes]", self._process.stdout)
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)

    def __enter__(self) -> _Started:
        return self

    def __exit__(self, *args: object) -> None:
        self._process.kill()
        self._output.close()
        self._process.wait()
        self._opened.close()

    def drain(self, seconds: float = 0) -> bool:
        """Wait so long for a piece of the answer, and hold it. Return whether one came."""
        if self._ended or not self._poll.poll(seconds * 1000):
            return False
        block = self._output.read(BLOCK)
        self._held += block
        self._ended = not block
        return not self._ended

    def runs(self, seconds: float) -> bool:
        """Whether it still runs after so many seconds."""
        end = time.monotonic() + seconds
        while not self._ended and (left := end - time.monotonic()) > 0:
            self.drain(left)
        return not self._ended

    def read(self, answer: _Answer, limit: Limit) -> bool:
        """Read the rest of the answer. Return whether the time ran out.

        Raises:
            _Failed: it did not search.
        """
        while limit.left and not self._ended:
            self.drain(min(limit.left, 0.1))
            if len(self._held) >= BLOCK or self._ended:
                answer.take(bytes(self._held))
                self._held.clear()
        if not self._ended:
            answer.take(bytes(self._held))
            return True
        if self._held:
            answer.take(bytes(self._held))
        _check_exit(None, self._process.wait())
        self._errors.seek(0)
        answer.end(self._errors.read().decode("utf-8", "surrogateescape"))
        return False


class _Beside:
    """A ripgrep that runs beside a walk, once it is started. Leaving the context kills it."""

    def __init__(self, run: Callable[[_Told], _Started]) -> None:
        self.told = _Told([])
        self._run = run
        self._started: _Started | None = None
        self._asked = 0

    def __enter__(self) -> _Beside:
        return self

    def __exit__(self, *args: object) -> None:
        if self._started is not None:
            self._started.__exit__()

    def start(self, told: _Told) -> None:
        """Start it, or start it again."""
        self.__exit__()
        self.told, self._started = told, None
        self._started = self._run(told)

    def drain(self) -> None:
        """Take what it printed, so that it goes on; not at every call, because to look takes time too."""
        self._asked += 1
        if self._started is not None and self._asked % DRAINED == 0:
            while self._started.drain():
                pass

    def runs(self, seconds: float) -> bool:
        """Whether it still runs after so many seconds."""
        return self._started is not None and self._started.runs(seconds)

    def read(self, answer: _Answer, limit: Limit) -> bool:
        """Read the rest of the answer. Return whether the time ran out.

        Raises:
            _Failed: it did not search, or was never started.
        """
        if self._started is None:
            raise _Failed
        return self._started.read(answer, limit)


def _check_exit(backend: WorkspaceBackend | None, code: int) -> None:
    if code == NOT_FOUND and backend is not None:
        _remember_without(backend)
    if code not in (0, 1, 2):  # 2: unreadable files, or wrong arguments; its messages tell which
        raise _Failed


def _relative(path: str, above: str) -> str:
    return f"./{path.removeprefix(above)}" if path.startswith(above) else "./"


# Other workspaces


async def _search_elsewhere(
    workspace: Workspace, program: str, request: SearchRequest, top: str, seconds: float
) -> Matches:
    """Search where a folder costs a command: list them only where there are rules of git."""
    left = request.left
    root, arguments = request.root, ["--count", "--no-messages", *([] if request.counts else ["--max-count=1"])]
    if request.is_file:
        root, name = posixpath.split(request.root)
        arguments += ["--max-depth=1", f"--glob={_escape(name)}"]
    arguments += [f"--glob=!**/{name}/" for name in sorted(SKIPPED)]
    unsure = False
    if left.above is not None and not request.is_file:
        if left.above.size or await exists(workspace, posixpath.join(request.root, ".gitignore")):
            arguments += await _leave_out(workspace, request, top, seconds / 2)
        else:
            unsure = True
    arguments.append(f"--max-filesize={request.max_bytes}")
    found = Matches(request)
    try:
        printed = await _run(workspace, program, request, [*arguments, "--", root or "/"], seconds)
    except WorkspaceTimeoutError as error:
        printed = error.stdout
        found.partial = True
    counts = {path: int(count) for path, count in _COUNT.findall(printed) if "\ufffd" not in path}
    # Without rules at the top, what git ignores was searched. It has no match, unless there are rules above one.
    if unsure and await _has_rules_above(workspace, program, request.root, counts, seconds):
        await _leave_out(workspace, request, top, seconds / 2)
    if request.is_file:
        counts = {path: count for path, count in counts.items() if path == request.root}
    ignored, folders = {*left.files}, tuple(f"{folder}/" for folder in left.folders)
    start = len(request.root.rstrip("/")) + 1
    wanted = request.wanted
    found.add(
        FileMatches(path, count)
        for path, count in counts.items()
        if path not in ignored
        and not path.startswith(folders)
        and (wanted is None or wanted.matches(request.prefix + path[start:]))
    )
    return found


async def _has_rules_above(workspace: Workspace, program: str, root: str, paths: Iterable[str], seconds: float) -> bool:
    """Whether a folder between the root and one of the paths may have rules of git."""
    folders: set[str] = set()
    for path in paths:
        while (path := posixpath.dirname(path)) not in folders and path.startswith(root):
            folders.add(path)
            if len(folders) > ASKED:
                return True
    rules = [posixpath.join(folder, name) for folder in sorted(folders) for name in (".gitignore", ".git/info/exclude")]
    try:
        # It prints those that exist.
        command = [program, "--files", "--no-messages", *_COMMON, "--", *rules]
        return bool(rules) and bool(await _execute(workspace, command, seconds / 2))
    except TimeoutError:
        return True


async def _leave_out(workspace: Workspace, request: SearchRequest, top: str, seconds: float) -> list[str]:
    """Find what git ignores, as the search without ripgrep does; return the arguments that leave out its folders."""
    with contextlib.suppress(TimeoutError, TooMany):  # then what was found until now is left out
        with fail_after(seconds):
            async for _ in walk(workspace, request.root, request.sieve()):
                pass
    start = top.rstrip("/") + "/"  # where the command runs, and so where its globs begin
    inside = [path.removeprefix(start) for path in request.left.folders[:PRUNED] if path.startswith(start)]
    return [f"--glob=!/{_escape(path)}/" for path in inside]


# Both


async def _program(workspace: Workspace) -> str | None:
    """Return what starts ripgrep: on this machine its path, because a workspace may have an `rg` of its own."""
    if not is_of_this_machine(workspace):
        return "rg"  # the container's
    return _on_this_machine(os.environ.get("PATH", os.defpath), await workspace.working_dir())


@cache
def _on_this_machine(path: str, root: str) -> str | None:
    return find_program("rg", outside=root)


async def _with_lines(
    workspace: Workspace, program: str, request: SearchRequest, found: Matches, top: str, seconds: float
) -> Matches:
    """Add the lines of the first files."""
    first: list[FileMatches] = []
    lines = 0
    for matches in found.first():
        if lines >= request.lines:
            break
        first.append(matches)
        lines += matches.count
    if not first:
        return found
    dialect = request.dialect
    if directory_opener(workspace) is not None and (dialect.linear or dialect.simple):
        shown: dict[str, list[tuple[int, str | None]]] = {}
        lines = 0
        async with Matching(dialect) as matching:
            for each in first:
                with contextlib.suppress(OSError, ValueError):  # it is gone since
                    size = (await workspace.stat(each.path)).size or 0
                    rest = replace(request, lines=request.lines - lines)
                    matches = await match_file(workspace, rest, matching, Found("", each.path, size))
                    shown[each.path] = matches.shown if matches else []
                    lines += len(shown[each.path])
    else:
        shown = await _lines_by_ripgrep(workspace, program, request, [each.path for each in first], seconds)
    found.show(shown)
    return found


async def _lines_by_ripgrep(
    workspace: Workspace, program: str, request: SearchRequest, paths: list[str], seconds: float
) -> dict[str, list[tuple[int, str | None]]]:
    # One more, because ripgrep counts the line feed; `shown_line` decides.
    arguments = ["--line-number", f"--max-count={request.lines}", f"--max-columns={LONG_LINE + 1}", "--no-messages"]
    try:
        printed = await _run(workspace, program, request, [*arguments, "--", *paths], seconds)
    except WorkspaceTimeoutError as error:
        printed = error.stdout
    shown: dict[str, list[tuple[int, str | None]]] = {}
    for path, number, text in _LINE.findall(printed):
        line = None if _OMITTED.fullmatch(text) else shown_line(text)
        shown.setdefault(path, []).append((int(number), line))
    return shown


def _command(program: str, request: SearchRequest, arguments: Sequence[str]) -> list[str]:
    # The pattern and the paths come from the model: no shell, and no text of theirs can be an option.
    return [program, *_COMMON, f"--regexp={request.dialect.ripgrep}", *arguments]


async def _run(
    workspace: Workspace, program: str, request: SearchRequest, arguments: Sequence[str], seconds: float
) -> str:
    return await _execute(workspace, _command(program, request, arguments), seconds)


async def _execute(workspace: Workspace, command: list[str], seconds: float) -> str:
    try:
        result = await workspace.run(command, timeout=seconds)
    except (WorkspaceError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise _Failed from error  # denied, or too much output: fall back to the walk
    _check_exit(workspace.backend, result.exit_code)
    if result.exit_code == 2 and result.stderr:  # without a message: unreadable files were skipped
        raise _Failed
    return result.stdout


def _known_without(backend: WorkspaceBackend) -> bool:
    try:
        return backend in _without
    except TypeError:  # a backend that is unhashable or has no weak references is asked each time
        return False


def _remember_without(backend: WorkspaceBackend) -> None:
    with contextlib.suppress(TypeError):
        _without.add(backend)


def _escape(name: str) -> str:
    # White space in a class, because ripgrep trims a pattern's end.
    return re.sub(r"(\s)", r"[\1]", re.sub(r"([*?\[\]{}!\\#])", r"\\\1", name))
