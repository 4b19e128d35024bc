"""`read_file`: show a page of a file, and record in the session what was shown."""

from __future__ import annotations

from collections.abc import Callable

from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import BinaryContent
from pydantic_ai.workspaces import Workspace

from .access import Place, TooLarge, open_source, read_whole
from .codec import Codec, detect, named
from .documents import DocumentLimits, begins_like_document, document_kind, read_document
from .options import FilesystemOptions
from .paging import BytesSource, Page, PastEnd, Source, Stretch, read_lines, read_stretch
from .seen import Seen, digest

__all__ = ["read_page"]


async def read_page(
    workspace: Workspace,
    place: Place,
    files: dict[str, Seen],
    options: FilesystemOptions,
    *,
    offset: int,
    limit: int,
    byte: int,
    encoding: str,
    takes_pictures: Callable[[], bool],
) -> str | list[str | BinaryContent]:
    """Read a page of lines, or of characters from `byte` on. The caller holds the lock of `place`.

    Of a document the lines are its pages, slides or sheets; a picture is returned whole.

    Args:
        encoding: the name of its encoding; "" to detect it.
        takes_pictures: whether the model takes pictures; called for a picture only.

    Raises:
        ToolFailed: no such line or byte; `offset`, `limit` or `byte` is out of range.
        NotText, UnknownEncoding, DocumentError, TooLarge, OSError: about the file.
    """
    if offset < 0 or byte < 0 or limit < 1:
        raise ToolFailed("offset and byte count from 0, limit from 1.")
    source, head, size = await open_source(workspace, place.absolute, options.max_bytes)
    whole = isinstance(source, BytesSource)
    if begins_like_document(head):
        if size > options.max_bytes:
            raise TooLarge(size, options.max_bytes)
        data = source.data if whole else await read_whole(workspace, place.absolute, options.max_bytes)
        if document_kind(data):
            return await _document(place, data, options, offset, limit, byte, takes_pictures)
    codec = _codec(files.get(place.real), source, head, encoding)
    try:
        if byte:
            return await _stretch(source, codec, place, files, options, byte, size)
        page = await read_lines(
            source,
            codec,
            offset,
            limit=min(limit, options.read_lines),
            max_chars=options.read_chars,
            line_chars=options.line_chars,
        )
    except PastEnd as error:
        unit = "bytes" if byte else "lines"
        raise ToolFailed(
            f"{place.shown} has only {error.lines:,} {unit}: {byte or offset:,} is past its end."
        ) from error
    await _record(source, codec, place, files, page.ranges, size)
    return _render(page, source, codec, offset, size, guessed=not encoding)


def _codec(seen: Seen | None, source: Source, head: bytes, encoding: str) -> Codec:
    """Return the encoding that the caller names, else the one in which the agent saw this content, else a guess.

    After an edit, what is left may look like another encoding.
    """
    if not encoding and seen is not None and seen.encoding and isinstance(source, BytesSource):
        encoding = seen.encoding if seen.sha256 == digest(source.data) else ""
    if encoding:
        return named(encoding, head)
    return detect(head, complete=isinstance(source, BytesSource))


async def _document(
    place: Place,
    data: bytes,
    options: FilesystemOptions,
    offset: int,
    limit: int,
    start: int,
    takes_pictures: Callable[[], bool],
) -> str | list[str | BinaryContent]:
    limits = DocumentLimits(
        options.document_seconds, options.document_memory, options.document_pixels, options.read_chars
    )
    document = await read_document(data, limits, offset=offset, limit=limit, start=start)
    title = f"[{place.shown}: {document.what}]"
    if document.picture is None:
        return "\n".join([title, document.text, *([f"[{document.note}]"] if document.note else [])])
    if not takes_pictures():
        return f"{title}\nThis model takes no pictures. Use a command that describes it, or ask the user what it shows."
    return [title, BinaryContent(document.picture, media_type=document.media_type)]


async def _stretch(
    source: Source,
    codec: Codec,
    place: Place,
    files: dict[str, Seen],
    options: FilesystemOptions,
    byte: int,
    size: int,
) -> str:
    if byte >= size:
        raise PastEnd(size)
    stretch: Stretch = await read_stretch(source, codec, byte, max_chars=options.read_chars)
    await _record(source, codec, place, files, ((stretch.start, stretch.end),), size)
    tail = f"[bytes {stretch.start}-{stretch.end} of {size}"
    tail += f"; next byte={stretch.end}]" if stretch.end < size else "; end of file]"
    return f"{stretch.text}\n{tail}"


async def _record(
    source: Source, codec: Codec, place: Place, files: dict[str, Seen], ranges: tuple[tuple[int, int], ...], size: int
) -> None:
    known = files.get(place.real, Seen())
    encoding = "" if codec.name == "utf-8" else codec.name
    if isinstance(source, BytesSource):
        files[place.real] = known.show(digest(source.data), size, ranges, encoding)
        return
    if known.sha256:
        known = Seen()  # it was smaller, or edited: now its pages count
    for start, end in ranges:
        known = known.show_page(start, await source.read(start, end - start), size, encoding)
    files[place.real] = known


def _render(page: Page, source: Source, codec: Codec, offset: int, size: int, *, guessed: bool) -> str:
    out: list[str] = []
    for line in page.lines:
        cut = f" [line continues: byte={line.cut}]" if line.cut is not None else ""
        out.append(f"{line.number}\t{line.text}{cut}")
    notes: list[str] = []
    if not page.lines:
        notes.append("empty file")
    elif not page.complete:
        following = offset + len(page.lines)
        if isinstance(source, BytesSource):
            total = _count_lines(source.data, codec)
            notes.append(f"{total - following} more lines; next offset={following}")
        else:
            notes.append(f"next offset={following}; the file has {size:,} bytes, this page ends at byte {page.end:,}")
    elif not page.final_newline:
        notes.append("no newline at the end of the file")
    if codec.label != "utf-8" and not offset:
        notes.append(codec.label)
        if guessed and not codec.mark and codec.unit == 1:
            notes[-1] += " by its letters; if it looks wrong, read with encoding="
    if notes:
        out.append(f"[{'; '.join(notes)}]")
    return "\n".join(out)


def _count_lines(data: bytes, codec: Codec) -> int:
    if codec.unit == 1:
        return data.count(b"\n") + (not data.endswith(b"\n"))
    text = codec.show(data[len(codec.mark) :])
    return text.count("\n") + (not text.endswith("\n"))
