"""Read one document or picture: the part that runs in its own process, limited in memory and time.

Imports nothing of this package: it is started by path, reads a request and the file's bytes from standard input, and
answers on standard output. What it reads may be hostile; the parsers it uses are written for honest files.
"""

from __future__ import annotations

import io
import json
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

__all__ = ["answer", "serve"]

UNPACKED = 256 * 1024 * 1024
"""Maximum bytes that the parts of a docx, xlsx or pptx may unpack to."""
SENT_EDGE = 2000
"""Pixels of the longer side of a picture that is sent: providers scale larger ones down, or refuse them."""
SENT_BYTES = 3_750_000
"""Bytes of a picture that is sent: 5 MB in base64, the least limit of the usual providers."""
SENT_FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
"""Formats that every provider with pictures takes; others are converted."""
MOST_TABS = 20
"""Empty cells in a row that are shown as such."""
READ_FORMATS = [*SENT_FORMATS, "BMP", "TIFF"]


class Unreadable(Exception):
    """The file cannot be read; the message continues `report.pdf: `."""


class _Text:
    """The text of a range of units (pages, slides, sheets), cut where the room ends.

    Args:
        request: `offset` units to skip, then at most `limit`; `start` characters of the first to skip; `chars` to
            return; after `seconds` no unit is begun.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        self.offset, self.limit, self.start = request["offset"], request["limit"], request["start"]
        self.room = request["chars"]
        self._until = time.monotonic() + request["seconds"]

    def read(self, what: str, unit: str, count: int, text_of: Callable[[int], Iterable[str]]) -> dict[str, Any]:
        """Return the answer: the text, and where it continues."""
        if self.offset >= count:
            raise Unreadable(
                f"has only {count:,} {unit}{'s' if count > 1 else ''}: offset={self.offset} is past its end"
            )
        out: list[str] = []
        note = ""
        for at in range(self.offset, min(count, self.offset + self.limit)):
            if out and time.monotonic() > self._until:
                break
            skip = 0 if out else self.start
            text = _first(text_of(at), skip + self.room)
            if skip and skip >= len(text):
                raise Unreadable(f"has only {len(text):,} characters there: byte={skip} is past its end")
            shown = text[skip : skip + self.room]
            rest = len(text) > skip + self.room
            if rest and out:
                break
            title = "" if unit == "document" else f"--- {unit} {at + 1:,} of {count:,} ---\n"
            out.append(title + shown.strip("\n"))
            self.room -= len(title) + len(shown) + 1
            if rest:
                note = f"{unit} {at + 1:,} continues: offset={at} byte={skip + len(shown)}"
        following = self.offset + len(out)
        if not note and following < count:
            note = f"next offset={following}"
        return {"what": what, "text": "\n".join(out), "note": note}


def _first(pieces: Iterable[str], chars: int) -> str:
    """Join pieces until they have more than so many characters."""
    out: list[str] = []
    for piece in pieces:
        out.append(piece)
        chars -= len(piece)
        if chars < 0:
            break
    return "".join(out)


# -- documents ---------------------------------------------------------------------------------------------------------


def _pdf(data: bytes, text: _Text) -> dict[str, Any]:
    import pypdf
    from pypdf.errors import DependencyError

    reader = pypdf.PdfReader(io.BytesIO(data))
    # Many are encrypted with an empty password: they open everywhere, and only ask not to be changed.
    if reader.is_encrypted:
        with suppress(DependencyError, NotImplementedError):
            if reader.decrypt(""):
                return _pages(reader, text)
        raise Unreadable(
            "is encrypted with a password. Ask for a copy without one, or decrypt it with a command "
            "(qpdf --password=… --decrypt)"
        )
    return _pages(reader, text)


def _pages(reader: Any, text: _Text) -> dict[str, Any]:
    count = len(reader.pages)
    if not count:
        raise Unreadable("is broken: it has no pages")

    def page(index: int) -> list[str]:
        found = reader.pages[index].extract_text().strip()
        return [found or "(no text: the page is empty, or a picture of text)"]

    return text.read(f"PDF document, {count:,} pages" if count > 1 else "PDF document, 1 page", "page", count, page)


def _docx(data: bytes, text: _Text) -> dict[str, Any]:
    import docx
    from docx.table import Table

    document = docx.Document(io.BytesIO(data))

    def lines(_: int) -> Iterator[str]:
        for block in document.iter_inner_content():
            if isinstance(block, Table):
                yield from (f"| {' | '.join(_cells(row.cells))} |\n" for row in block.rows)
                yield "\n"
            elif block.text.strip():
                yield f"{_prefix(block.style)}{block.text}\n"

    return text.read("Word document", "document", 1, lines)


def _prefix(style: Any) -> str:
    name = (style.name if style is not None else None) or ""
    if name.startswith("Heading ") and name[8:].isdigit():
        return "#" * min(int(name[8:]), 6) + " "
    return "# " if name == "Title" else "- " if name.startswith("List") else ""


def _cells(cells: Iterable[Any]) -> Iterator[str]:
    more = 0
    for cell in cells:
        if not more:
            yield " ".join(cell.text.split())
        more = (more or cell.grid_span) - 1  # a merged cell is there once a column


def _xlsx(data: bytes, text: _Text) -> dict[str, Any]:
    import openpyxl

    # Twice: a file that no spreadsheet program has calculated has formulas without values.
    values, formulas = (
        openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=only, keep_links=False)
        for only in (True, False)
    )
    sheets = list(zip(values.worksheets, formulas.worksheets, strict=True))
    if not sheets:
        raise Unreadable("has no sheets with cells")

    def rows(index: int) -> Iterator[str]:
        value_sheet, formula_sheet = sheets[index]
        hidden = "" if value_sheet.sheet_state == "visible" else " (hidden)"
        yield f"{value_sheet.title}{hidden}; row number, then its cells from column A, by tabs:\n"
        for sheet in (value_sheet, formula_sheet):
            sheet.reset_dimensions()  # what the file says of its size makes every row as wide
        found = zip(value_sheet.iter_rows(values_only=True), formula_sheet.iter_rows(values_only=True), strict=False)
        for number, (shown, written) in enumerate(found, 1):
            if line := _row(
                value if value is not None else formula for value, formula in zip(shown, written, strict=False)
            ):
                yield f"{number}\t{line}\n"

    names = ", ".join(sheet.title for sheet, _ in sheets[:20]) + (", …" if len(sheets) > 20 else "")
    return text.read(f"Excel workbook, sheets: {names}", "sheet", len(sheets), rows)


def _row(values: Iterable[object]) -> str:
    """Join cells by tabs; instead of many empty ones, name the column of the next."""
    from openpyxl.utils import get_column_letter

    out: list[str] = []
    after = 0
    for column, value in enumerate(values, 1):
        if value is None:
            continue
        gap = column - after - 1
        text = " ".join(str(value).split())
        out += [""] * gap if gap <= MOST_TABS else []
        out.append(text if gap <= MOST_TABS else f"[{get_column_letter(column)}] {text}")
        after = column
    return "\t".join(out)


def _pptx(data: bytes, text: _Text) -> dict[str, Any]:
    import pptx

    slides = list(pptx.Presentation(io.BytesIO(data)).slides)
    if not slides:
        raise Unreadable("has no slides")

    def lines(index: int) -> Iterator[str]:
        slide = slides[index]
        yield from _shapes(slide.shapes)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            notes = slide.notes_slide.notes_text_frame.text.strip()
            if notes:
                yield f"Notes: {notes}\n"

    return text.read(f"PowerPoint presentation, {len(slides):,} slides", "slide", len(slides), lines)


def _shapes(shapes: Iterable[Any]) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        elif getattr(shape, "has_table", False):
            yield from (
                f"| {' | '.join(' '.join(cell.text.split()) for cell in row.cells)} |\n" for row in shape.table.rows
            )
        elif shape.has_text_frame and shape.text_frame.text.strip():
            yield f"{shape.text_frame.text.strip()}\n"


# -- pictures ----------------------------------------------------------------------------------------------------------


def _picture(data: bytes, pixels: int) -> tuple[dict[str, Any], bytes]:
    """Decode a picture in full, so that no provider gets a broken one, and make it small enough to send."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # ours is below, with a message of its own
    try:
        return _decoded(data, pixels)
    except Unreadable:
        raise
    except Exception:
        # Viewers skip a damaged colour profile or comment; Pillow refuses the picture for it.
        bare = _bare_png(data)
        if bare is None:
            raise
        return _decoded(bare, pixels)


def _bare_png(data: bytes) -> bytes | None:
    """Return a PNG with nothing but its pixels and what they need; None if it has nothing else, or is none."""
    start, at = data[:8], 8
    kept = [start]
    while start == b"\x89PNG\r\n\x1a\n" and at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        kind = data[at + 4 : at + 8]
        # An uppercase first letter marks what no reader may skip; tRNS says which colours are transparent.
        if kind[:1].isupper() or kind == b"tRNS":
            kept.append(data[at:end])
        at = end
    bare = b"".join(kept)
    return None if len(bare) in (8, len(data)) else bare


def _decoded(data: bytes, pixels: int) -> tuple[dict[str, Any], bytes]:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        picture = Image.open(io.BytesIO(data), formats=READ_FORMATS)
    except UnidentifiedImageError as error:  # its message has the address of an object
        if _bare_png(data) is not None:
            raise
        raise Unreadable("is broken: it only begins like one") from error
    width, height = picture.size
    if width * height > pixels:
        raise Unreadable(f"is too large: {width:,} x {height:,} pixels, the limit is {pixels:,} in all")
    made = picture.format or ""
    picture.load()
    turned = _orientation(picture) != 1
    what = f"{made} picture, {width} x {height} pixels"
    if made in SENT_FORMATS and not turned and max(width, height) <= SENT_EDGE and len(data) <= SENT_BYTES:
        return {"what": what, "media_type": SENT_FORMATS[made]}, data
    shown = ImageOps.exif_transpose(picture) if turned else picture
    shown.thumbnail((SENT_EDGE, SENT_EDGE))
    sent, media_type = _encode(shown, lossless=made != "JPEG")
    return {"what": f"{what}, shown at {shown.width} x {shown.height}", "media_type": media_type}, sent


def _orientation(picture: Any) -> int:
    try:
        return int(picture.getexif().get(0x0112, 1))
    except Exception:  # noqa: BLE001 - what a camera wrote of itself; the pixels do not need it
        return 1


def _encode(picture: Any, *, lossless: bool) -> tuple[bytes, str]:
    if lossless:
        out = io.BytesIO()
        kept = picture if picture.mode in {"1", "L", "LA", "P", "RGB", "RGBA"} else picture.convert("RGB")
        kept.save(out, "PNG")
        if out.tell() <= SENT_BYTES:
            return out.getvalue(), "image/png"
    out = io.BytesIO()
    picture.convert("RGB").save(out, "JPEG", quality=85)
    return out.getvalue(), "image/jpeg"


# -- the process -------------------------------------------------------------------------------------------------------

_READERS = {"pdf": _pdf, "docx": _docx, "xlsx": _xlsx, "pptx": _pptx}


def _check_parts(data: bytes) -> None:
    """Refuse an archive that would unpack to too much, before anything is unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    size = sum(entry.file_size for entry in entries)
    if size > UNPACKED:
        raise Unreadable(f"is too large: its parts unpack to {size:,} bytes, the limit is {UNPACKED:,}")
    if any(entry.flag_bits & 1 for entry in entries):
        raise Unreadable("is encrypted: ask for a copy without a password")


def _limit(memory: int, seconds: float) -> None:
    """Limit this process. Windows has no such limits, and macOS does not enforce the one on memory."""
    try:
        import resource
    except ImportError:
        return
    limits = {"RLIMIT_AS": memory, "RLIMIT_CPU": int(seconds) + 1, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0}
    for name, value in limits.items():
        with suppress(ValueError, OSError):  # the parent's own limit is lower, or the system has none
            resource.setrlimit(getattr(resource, name), (value, value))


def answer(request: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
    """Read a file: an answer, and the bytes of a picture."""
    kind = request["kind"]
    try:
        if kind == "picture":
            return _picture(data, request["pixels"])
        if kind != "pdf":
            _check_parts(data)
        return _READERS[kind](data, _Text(request)), b""
    except Unreadable as error:
        return {"error": str(error)}, b""
    except MemoryError:
        return {"error": f"needs more than {request['memory'] // 1024**2:,} MB of memory to read"}, b""
    except ImportError as error:
        return {"missing": str(error)}, b""
    except RecursionError:
        return {"error": "is broken: its parts are nested too deeply"}, b""
    except Exception as error:  # noqa: BLE001 - the parsers raise errors of every kind at broken files
        why = " ".join(str(error).split())[:200] or "no reason given"
        return {"error": f"is broken, or made to exhaust who reads it ({type(error).__name__}: {why})"}, b""


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer one request with a line of JSON and, for a picture, its bytes."""
    request = json.loads(requests.readline())
    sys.path[:] = request["path"]
    _limit(request["memory"], request["cpu_seconds"])
    try:
        data = requests.read()
        head, body = answer(request, data)
    except MemoryError:
        head, body = {"error": f"needs more than {request['memory'] // 1024**2:,} MB of memory to read"}, b""
    answers.write(json.dumps({**head, "size": len(body)}).encode() + b"\n" + body)
    answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
