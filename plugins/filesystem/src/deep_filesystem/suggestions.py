"""Suggest the path that a model means by one that does not exist.

Suggested and not taken: rules on paths have seen the path as it was written.
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from heapq import nsmallest

from pydantic_ai.workspaces import Workspace

from .forms import FAILURES, exists
from .globs import BadGlob, Glob
from .quoting import escape, quoted, unescape
from .survey import Listing, list_below
from .walk import LeftOut, Sieve, TooMany, begin_ignoring

__all__ = ["SECONDS", "other_case", "other_spelling", "suggestion"]

LONGEST = 100
"""Maximum characters of a name that is compared with others."""
STEPS = 1_000_000
"""Maximum pairs of characters to compare for one message, about a tenth of a second."""
SECONDS = 2.0
"""Maximum seconds to look for a file that is meant."""
MOST = 3
"""Maximum paths to suggest."""
_QUOTES = " \t\"'`"


async def other_spelling(workspace: Workspace, path: str) -> str | None:
    """Return what a new path means that is written as editors and Windows do: `@src/App.tsx`, `src\\App.tsx`.

    None unless it, or the folder above it, exists, and the folder of the path as written does not.
    """
    plain = unescape(path)
    found = path.removeprefix("@").replace("\\", "/") if plain == path else plain.removeprefix("@")
    if found == path or not found.strip("/") or await exists(workspace, plain):
        return None
    above, folder = posixpath.dirname(found), posixpath.dirname(plain)
    if await exists(workspace, found):
        return found
    written = bool(folder) and await exists(workspace, folder)
    return found if above and not written and await exists(workspace, above) else None


async def suggestion(workspace: Workspace, path: str) -> str:
    """Say what a missing path could mean, as the end of a message; "" for nothing."""
    if (spelled := await other_spelling(workspace, path)) is not None and await exists(workspace, spelled):
        return _mean([escape(spelled)])
    parent, name = posixpath.split(unescape(path).strip(_QUOTES).removeprefix("@").replace("\\", "/").rstrip("/"))
    missing = ""
    names: list[str] = []
    try:
        names = [entry.name for entry in await workspace.list_dir(parent or ".")]
    except FileNotFoundError:
        missing = f" Its directory {quoted(parent)} does not exist either." if parent else ""
    except NotADirectoryError:
        return f" {quoted(parent)} is a file, not a directory."
    except FAILURES:
        return ""  # the directory cannot be listed; the message already says that the file is missing
    if name in names:
        meant = posixpath.join(parent, name)
        return _mean([escape(meant)]) if await exists(workspace, meant) else " It is a broken link."
    folded = _folded(name)
    same = [each for each in names if _folded(each) == folded]
    close = same or get_close_matches(name, list(_comparable(name, names)), n=MOST)
    if close:
        return _mean(escape(posixpath.join(parent, each)) for each in close[:MOST])
    return missing + _mean(map(escape, await _elsewhere(workspace, name)))


def other_case(left: LeftOut, shown: Callable[[str], str]) -> str:
    """Say what a pattern that matches nothing could mean, if only its letters' case differs; "" for nothing.

    Args:
        left: of the walk.
        shown: shows an absolute path.
    """
    return _mean(map(shown, nsmallest(MOST, left.alike)))


def _mean(paths: Iterable[str]) -> str:
    shown = ", ".join(paths)
    return f" Did you mean {shown}?" if shown else ""


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


async def _elsewhere(workspace: Workspace, name: str) -> list[str]:
    """Find files of this name anywhere in the working directory."""
    try:
        wanted = Glob("**/" + "".join(f"\\{char}" if char in "*?[]{},\\" else char for char in name))
        root = await workspace.realpath(await workspace.working_dir())
        found = Listing(MOST, root, lambda path: False)
        sieve = Sieve(LeftOut(await begin_ignoring(workspace, root)), wanted)
        await list_below(workspace, root, sieve, found, SECONDS)
    except (BadGlob, TooMany, *FAILURES):
        return []
    return found.first()


def _comparable(name: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the names that a comparison with `name` has time for: it takes the product of their lengths."""
    steps = 0
    for other in names:
        if len(other) > LONGEST or len(name) > LONGEST:
            continue
        steps += len(name) * len(other)
        if steps > STEPS:
            return
        yield other
