"""The walk beside ripgrep: it searches a small tree itself, and finds out what ripgrep does not say.

ripgrep's own reading of the ignore files differs from git's in details, and it does not say what it left out: what git
ignores, and which files are binary.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable

from ..host import Folder, Limit
from ..matching import Matching
from ..search import Matches, SearchRequest, is_binary_file, search_folders
from ..walk import Sieve, is_printable
from .answer import Gone, Survey
from .command import Told

__all__ = ["WalkBeside"]

FEW_FILES, FEW_FOLDERS = 1_000, 150
"""A tree up to this size is searched without ripgrep, of which the start alone takes as long."""
FEW_OF = 6
"""Of so many entries one is wanted: to search it here takes less than ripgrep's own walk."""
SNIFFED = 4_000
"""Maximum files of which the first bytes are read to find out whether they are binary: at most 50 milliseconds."""
TEXT = frozenset({
    "adoc", "bash", "bat", "c", "cc", "cfg", "cjs", "clj", "cmake", "conf", "cpp", "cs", "css", "csv", "cts", "dart",
    "diff", "erb", "erl", "ex", "exs", "go", "gradle", "graphql", "h", "haml", "hpp", "hs", "htm", "html", "ini",
    "ipynb", "java", "jl", "js", "json", "jsx", "kt", "kts", "less", "lock", "lua", "m", "md", "mdx", "mjs", "mk", "ml",
    "mm", "mts", "php", "pl", "pm", "po", "properties", "proto", "ps1", "py", "pyi", "r", "rake", "rb", "rs", "rst",
    "sass", "scala", "scss", "sh", "sql", "svelte", "swift", "tcl", "tex", "tf", "toml", "ts", "tsx", "vb", "vue",
    "xml", "yaml", "yml", "zig",
})  # fmt: skip
"""Extensions of text: such a file is rarely binary."""


class WalkBeside:
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

    def __enter__(self) -> WalkBeside:
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

    def survey(self, told: Told, above: str) -> Survey:
        """Return what has to be left out of the answer of a ripgrep that was told this."""
        request = self._request
        left, wanted = request.left, request.wanted

        def printed(paths: Iterable[str]) -> frozenset[bytes]:
            return frozenset(b"./" + os.fsencode(path.removeprefix(above)) for path in paths)

        gone = Gone(printed([] if told.files else left.files), printed(left.folders[told.folders :]))
        start = len(request.root.rstrip("/")) + 1

        def keep(path: str) -> bool:
            return is_printable(path) and (wanted is None or wanted.matches(request.prefix + path[start:]))

        return Survey(None if told.narrow and not left.unnamed else keep, gone, printed(self._binary))

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
                if is_binary_file(folder.descriptor, name):
                    left.binary += 1
                    self._binary.append(folder.absolute + name)
