"""The files of a workspace, and what those with a grammar define and use. What was parsed once is remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from anyio import create_task_group, current_time
from deep_filesystem import ListedFile, list_files
from pydantic_ai.workspaces import Workspace, WorkspaceError, WorkspaceUnavailableError

from .languages import language_of
from .parsing import NOTHING, Parsed, Parsing
from .slot import Memory

__all__ = ["Limits", "Sources", "read_sources"]

MOST_LISTED = 20_000
"""Files and directories to list."""
AT_ONCE = 16
"""Files to read at a time: a remote backend answers each in milliseconds."""
LINE = 300
"""Mean bytes of a line above which code was made by a program."""
_BINARY = Parsed(note="binary or minified")


@dataclass(frozen=True)
class Limits:
    """What one call may take.

    Attributes:
        files: to parse.
        bytes: of a file to parse.
        seconds: of time.
    """

    files: int = 2_000
    bytes: int = 256_000
    seconds: float = 20


@dataclass
class Sources:
    """The files below a path.

    Attributes:
        files: path -> what was parsed of it, directory by directory.
        left: why files were not parsed -> how many.
        more: whether there are files beyond those.
    """

    files: dict[str, Parsed] = field(default_factory=dict[str, Parsed])
    left: Counter[str] = field(default_factory=Counter[str])
    more: bool = False


async def read_sources(workspace: Workspace, path: str, memory: Memory, limits: Limits) -> Sources:
    """Read the files below `path`, relative to the workspace's directory; "" for all.

    Raises:
        OSError, WorkspaceError: the workspace's directory cannot be listed.
    """
    deadline = current_time() + limits.seconds
    listed = await list_files(workspace, most=MOST_LISTED)
    below = [file for file in listed.files if not path or file.path == path or file.path.startswith(f"{path}/")]
    sources = Sources({file.path: NOTHING for file in below}, more=listed.more)
    code = [file for file in below if language_of(file.path)]
    _leave(sources, "too many", code[limits.files :])
    async with Parsing() as parsing:
        for start in range(0, min(len(code), limits.files), AT_ONCE):
            if current_time() > deadline:
                _leave(sources, "for want of time", code[start : limits.files])
                break
            for file, data in await _read(workspace, code[start : start + AT_ONCE], limits.bytes):
                parsed = data if isinstance(data, Parsed) else await _parse(memory, parsing, file.path, data)
                sources.files[file.path] = parsed
                if parsed.note:
                    sources.left[parsed.note] += 1
    memory.trim(2 * limits.files)
    return sources


def _leave(sources: Sources, why: str, files: Sequence[ListedFile]) -> None:
    if files:
        sources.left[why] += len(files)


async def _read(
    workspace: Workspace, files: Sequence[ListedFile], most: int
) -> list[tuple[ListedFile, bytes | Parsed]]:
    """Return each file with its content, or with why it has none."""
    found: dict[str, bytes | Parsed] = {}

    async def read(file: ListedFile) -> None:
        try:
            size = file.size if file.size is not None else (await workspace.stat(file.path)).size
            data = await workspace.read_bytes(file.path) if size is not None and size <= most else None
        except WorkspaceUnavailableError:
            raise
        except (OSError, ValueError, WorkspaceError):  # unreadable, removed, or a link that leads outside
            found[file.path] = Parsed(note="unreadable")
            return
        found[file.path] = data if data is not None and len(data) <= most else Parsed(note="too large")

    async with create_task_group() as group:
        for file in files:
            group.start_soon(read, file)
    return [(file, found[file.path]) for file in files]


async def _parse(memory: Memory, parsing: Parsing, path: str, data: bytes) -> Parsed:
    language = language_of(path)
    assert language is not None  # noqa: S101
    key = blake2b(data, digest_size=16, person=language.encode()).digest()
    parsed = memory.get(key)
    if parsed is None:
        source = _text(data)
        parsed = _BINARY if source is None else await parsing.parse(language, source)
        if parsed is None:  # the next call may have more luck
            return Parsed(note="that followed too many broken ones")
        memory.put(key, parsed)
    return parsed


def _text(data: bytes) -> bytes | None:
    """Return the file in UTF-8; None for one that no person wrote."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", "replace")
    elif b"\0" in data:
        return None
    else:
        text = data.decode("utf-8-sig", "replace")  # names are ASCII in nearly all code, whatever its encoding
    if len(data) > 10_000 and text.count("\n") * LINE < len(data):
        return None
    return text.encode("utf-8", "replace")
