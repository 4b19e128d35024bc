"""`write_file` and `edit_file`: change a file only if it is still the one that the agent saw."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NoReturn, TypeVar

from anyio import to_thread
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.workspaces import Workspace

from .access import Place, read_whole, write_over
from .codec import SAMPLE, Codec, detect, named
from .documents import document_kind
from .edit import Edited, edit_bytes
from .overwrite import overwrite_bytes
from .seen import Seen, digest

__all__ = ["check_seen", "edit_in_place", "write_in_place"]

T = TypeVar("T")

INLINE = 256 * 1024
"""Maximum bytes to process in the event loop: some milliseconds."""
NOW = "read it again, then repeat your change."


async def check_seen(
    workspace: Workspace, place: Place, files: dict[str, Seen], *, whole: bool, max_bytes: int
) -> None:
    """Fail as a change of a file would: before a person is asked about it. The caller holds the lock of `place`.

    Only for what the agent did not see. That a text is absent says nothing: an earlier call may wait that writes it.

    Args:
        workspace: where the file is.
        place: the file.
        files: what the agent saw.
        whole: whether the change replaces the file.
        max_bytes: of a file that the tools change.

    Raises:
        ToolFailed: it was not read, only partly read, or has changed; the message says what to do.
        NotText, TooLarge, OSError: about the file.
    """
    data, seen = await read_whole(workspace, place.absolute, max_bytes), files.get(place.real)

    def work(check: Callable[[], None]) -> None:
        if data or not whole:
            _check(place, seen, data)
        if data and whole:
            _check_all_seen(place, seen, data)

    await _off_loop(len(data), work)


async def write_in_place(
    workspace: Workspace, place: Place, files: dict[str, Seen], content: str, *, max_bytes: int
) -> str:
    """Create a file, or replace one that the agent saw in full. The caller holds the lock of `place`.

    Raises:
        ToolFailed: it was not read, only partly read, or has changed; the message says what to do.
        NotText, Unencodable, TooLarge, OSError: about the file or the content.
    """
    try:
        old = await read_whole(workspace, place.absolute, max_bytes)
    except FileNotFoundError:
        return await _create(workspace, place, files, content)
    seen = files.get(place.real)

    def work(check: Callable[[], None]) -> tuple[bytes, str, Seen]:
        # An empty file has nothing to lose.
        if old:
            _check(place, seen, old)
            _check_all_seen(place, seen, old)
        check()
        codec = codec_of(seen, old)
        data = overwrite_bytes(old, codec, content)
        check()
        return data, digest(old), Seen.whole(data, "" if codec.name == "utf-8" else codec.name)

    data, expected, after = await _off_loop(len(old) + len(content), work)
    if data == old:
        files[place.real] = after
        return f"{place.shown} has this content already; not written."
    await _commit(workspace, place, data, expected=expected)
    files[place.real] = after
    return f"Replaced {place.shown}: {_lines(content)}."


async def edit_in_place(
    workspace: Workspace,
    place: Place,
    files: dict[str, Seen],
    old_string: str,
    new_string: str,
    *,
    replace_all: bool,
    max_bytes: int,
) -> str:
    """Replace a text in a file that the agent has read. The caller holds the lock of `place`.

    Raises:
        ToolFailed: it was not read, or has changed; the message says what to do.
        Refused: the text is empty, absent or not unique.
        NotText, Unencodable, TooLarge, OSError: about the file or the text.
    """
    old = await read_whole(workspace, place.absolute, max_bytes)
    seen = files.get(place.real)
    if seen is None:
        _unread(place, old)

    def work(check: Callable[[], None]) -> tuple[Edited, str, Seen]:
        _check(place, seen, old)
        edited = edit_bytes(
            old, codec_of(seen, old), old_string, new_string, replace_all=replace_all, limit=max_bytes, check=check
        )
        check()
        return edited, digest(old), seen.edited(edited.data, edited.spans)

    edited, expected, after = await _off_loop(len(old) + len(old_string) + len(new_string), work)
    await _commit(workspace, place, edited.data, expected=expected)
    files[place.real] = after
    count = len(edited.spans)
    lines = ", ".join(map(str, edited.lines)) + (", ..." if count > len(edited.lines) else "")
    return f"Edited {place.shown}: {count} replacement{'s, lines' if count > 1 else ', line'} {lines}."


async def _create(workspace: Workspace, place: Place, files: dict[str, Seen], content: str) -> str:
    try:
        data = content.encode()
    except UnicodeEncodeError as error:
        raise ToolFailed(f"content has {content[error.start]!r}, half of a surrogate pair: not a character.") from error
    await _commit(workspace, place, data, expected=None)
    gone = files.get(place.real) is not None
    files[place.real] = Seen.whole(data)
    return f"Created {place.shown}: {_lines(content)}.{' It was removed since you saw it.' if gone else ''}"


async def _commit(workspace: Workspace, place: Place, data: bytes, *, expected: str | None) -> None:
    if not await write_over(workspace, place, data, expected=expected):
        happened = "was created" if expected is None else "was changed"
        raise ToolFailed(f"{place.shown} {happened} by someone else just now. Nothing was written: {NOW}")


def codec_of(seen: Seen | None, data: bytes) -> Codec:
    """Return the encoding in which the agent saw a file: what it writes is written in the same."""
    return named(seen.encoding, data) if seen is not None and seen.encoding else detect(data)


def _check(place: Place, seen: Seen | None, data: bytes) -> None:
    if seen is None:
        _unread(place, data)
    elif seen.differs(data):
        raise ToolFailed(
            f"{place.shown} was changed by someone else, or by a command, since you saw it. Nothing was written: {NOW}"
        )


def _unread(place: Place, data: bytes) -> NoReturn:
    if document_kind(data):
        raise ToolFailed(
            f"{place.shown} is a document or picture, and this tool changes text. Use a command, or another file."
        )
    detect(data[:SAMPLE], complete=False)  # reading a binary file would fail too
    raise ToolFailed(f"{place.shown} exists and you have not read it. Nothing was written: read it first.")


def _check_all_seen(place: Place, seen: Seen | None, data: bytes) -> None:
    gap = seen.gap if seen is not None else 0
    if gap is None:
        return
    if seen is not None and seen.pages:
        raise ToolFailed(
            f"{place.shown} is large and you saw only {len(seen.pages)} of its pages: it cannot be replaced whole. "
            "Use edit_file."
        )
    newline = codec_of(seen, data).newline
    line = data.count(newline, 0, gap)
    starts = gap == 0 or data[:gap].endswith(newline)
    where = f"offset={line}" if starts else f"byte={gap}"
    raise ToolFailed(
        f"You have seen only part of {place.shown}. Nothing was written: read on from {where}, or use edit_file."
    )


class _Stopped(Exception):
    """The caller of `_off_loop` was cancelled. No one waits for the thread."""


async def _off_loop(size: int, work: Callable[[Callable[[], None]], T]) -> T:
    """Run `work` in a thread if the texts are large. It gets a function that raises once the caller is cancelled."""
    if size <= INLINE:
        return work(lambda: None)
    stopped = threading.Event()

    def check() -> None:
        if stopped.is_set():
            raise _Stopped

    try:
        return await to_thread.run_sync(work, check, abandon_on_cancel=True)
    finally:
        stopped.set()


def _lines(content: str) -> str:
    count = content.count("\n") + (bool(content) and not content.endswith("\n"))
    return f"{count} line{'' if count == 1 else 's'}"
