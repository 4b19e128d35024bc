"""Read documents and pictures: recognize them, and have a process of its own read each."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from anyio import BrokenResourceError, CapacityLimiter, ClosedResourceError, create_task_group, fail_after, open_process
from anyio.abc import Process
from anyio.lowlevel import RunVar

__all__ = ["Document", "DocumentError", "DocumentLimits", "begins_like_document", "document_kind", "read_document"]

EXTRA = "pip install 'deep-filesystem[documents]'"
MOST_AT_ONCE = 4
"""Processes that read at the same time, in one event loop."""
MOST_ANSWER = 64 * 1024 * 1024
"""Bytes that a process may answer: a picture is a few MB, a text as long as was asked for."""

_MODULES = {"pdf": "pypdf", "docx": "docx", "xlsx": "openpyxl", "pptx": "pptx", "picture": "PIL"}
_NAMES = {
    "pdf": "a PDF document",
    "docx": "a Word document",
    "xlsx": "an Excel workbook",
    "pptx": "a PowerPoint presentation",
    "picture": "a picture",
    "ole": "an encrypted or old Office document",
}
_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
_ARCHIVE, _OLD = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_FIRST = (*_PICTURES, b"RIFF", b"BM", b"%PDF-", _ARCHIVE, _OLD)
_PARTS = {b"word/document": "docx", b"xl/workbook": "xlsx", b"ppt/presentation": "pptx"}
_LIMITER: RunVar[CapacityLimiter] = RunVar("deep_filesystem.documents")


class DocumentError(ValueError):
    """A document cannot be read; the message continues a sentence that begins with its name, and says what to do.

    Attributes:
        missing: its reader is not installed; the file may be good.
    """

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


@dataclass(frozen=True)
class DocumentLimits:
    """What reading one document may take.

    Attributes:
        seconds: of time.
        memory: bytes of the process that reads.
        pixels: of a picture, width times height.
        chars: of text returned at once.
    """

    seconds: float = 20
    memory: int = 1024**3
    pixels: int = 50_000_000
    chars: int = 40_000


@dataclass(frozen=True)
class Document:
    """A document that was read, or a part of it.

    Attributes:
        what: what it is, for the model: `PDF document, 12 pages`.
        text: the text with its marks of pages; of a picture nothing.
        note: where the text continues: `next offset=8`; empty at the end.
        picture: the picture to send, maybe scaled down.
        media_type: of `picture`.
    """

    what: str
    text: str = ""
    note: str = ""
    picture: bytes | None = None
    media_type: str = ""


def begins_like_document(head: bytes) -> bool:
    """Whether the first bytes may be a document's; `document_kind` knows, from all of it."""
    return head.startswith(_FIRST) and (head[:4] == _ARCHIVE or document_kind(head) is not None)


def document_kind(data: bytes) -> str | None:
    """Recognize a document or picture by its content.

    Returns:
        `pdf`, `docx`, `xlsx`, `pptx`, `picture`; `ole` for an Office document that is encrypted or older than 2007;
        None for others.
    """
    if not data.startswith(_FIRST):
        return None
    if data.startswith(_PICTURES) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP"):
        return "picture"
    if data[:2] == b"BM":  # so begin texts, too
        return "picture" if b"\0" in data[5:14] else None
    if data[:5] == b"%PDF-":
        return "pdf" if data[5:6].isdigit() else None
    if data[:4] == _ARCHIVE:
        # The names of its parts stand uncompressed at its end. The last one is its own: it may contain other documents.
        at, kind = max((data.rfind(name), kind) for name, kind in _PARTS.items())
        return kind if at >= 0 and b"[Content_Types].xml" in data else None
    return "ole" if data.startswith(_OLD) else None


async def read_document(
    data: bytes, limits: DocumentLimits, *, offset: int = 0, limit: int = 2000, start: int = 0
) -> Document:
    """Read a document or a picture, in a process that is limited in time and memory.

    Args:
        data: the whole file, of a kind that `document_kind` knows.
        limits: what it may take.
        offset: pages (PDF), slides or sheets to skip. A Word document is one unit.
        limit: most of them to read.
        start: characters to skip in the first of them.

    Raises:
        DocumentError: it is broken, encrypted or beyond a limit; or its reader is not installed.
    """
    kind = document_kind(data)
    if kind is None:
        raise DocumentError("is neither a document nor a picture")
    name = _NAMES[kind]
    if kind == "ole":
        raise DocumentError(
            f"is {name}, which cannot be read. Ask for a copy without a password, as docx, xlsx, pptx or PDF"
        )
    if not importlib.util.find_spec(_MODULES[kind]):
        raise DocumentError(
            f"is {name} of {len(data):,} bytes. To read such files, install the extra: {EXTRA}", missing=True
        )
    request = {
        "kind": kind,
        # Absolute, so that the process finds what this one would, and nothing in its working directory.
        "path": [path for path in sys.path if os.path.isabs(path)],
        "memory": limits.memory,
        "cpu_seconds": limits.seconds,
        "seconds": limits.seconds / 2,
        "pixels": limits.pixels,
        "chars": limits.chars,
        "offset": offset,
        "limit": limit,
        "start": start,
    }
    head, body = await _ask(request, data, limits, name)
    if "error" in head:
        raise DocumentError(f"is {name} that cannot be read: it {head['error']}.")
    if "missing" in head:
        raise DocumentError(
            f"is {name}, and a package is missing ({head['missing']}). Install the extra: {EXTRA}", missing=True
        )
    if kind == "picture":
        return Document(head["what"], picture=body, media_type=head["media_type"])
    return Document(head["what"], head["text"], head["note"])


async def _ask(
    request: Mapping[str, object], data: bytes, limits: DocumentLimits, name: str
) -> tuple[dict[str, Any], bytes]:
    try:
        limiter = _LIMITER.get()
    except LookupError:
        limiter = CapacityLimiter(MOST_AT_ONCE)
        _LIMITER.set(limiter)
    async with limiter:
        process = await _start()
        try:
            with fail_after(limits.seconds):
                answer = await _exchange(process, json.dumps(request).encode() + b"\n", data)
        except TimeoutError as error:
            raise DocumentError(
                f"is {name} that takes longer than {limits.seconds:g} s to read. Use a command on part of it."
            ) from error
        finally:
            if process.returncode is None:
                process.kill()
            await process.aclose()
    line, _, body = answer.partition(b"\n")
    try:
        head = cast("dict[str, Any]", json.loads(line))
    except ValueError:
        head = {}
    if head.get("size") != len(body):
        raise DocumentError(
            f"is {name} that cannot be read: its reader ended before it was done, beyond "
            f"{limits.memory // 1024**2:,} MB of memory or {limits.seconds:g} s."
        )
    return head, body


async def _start() -> Process:
    script = str(Path(__file__).with_name("document_worker.py"))
    # No variables of this process, which may be secrets: a parser that a file takes over finds none.
    variables = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}
    return await open_process(
        [sys.executable, "-I", "-X", "utf8", script],
        stderr=subprocess.DEVNULL,
        env=variables,
        cwd=Path(sys.executable).anchor,
    )


async def _exchange(process: Process, request: bytes, data: bytes) -> bytes:
    stdin, stdout = process.stdin, process.stdout
    if stdin is None or stdout is None:
        raise OSError("the process that reads documents was started without pipes")

    async def send() -> None:
        try:
            await stdin.send(request)
            await stdin.send(data)
            await stdin.aclose()
        except (BrokenResourceError, ClosedResourceError, BrokenPipeError, ConnectionError):
            return  # it ended early; its answer, or that there is none, says why

    answer = bytearray()
    async with create_task_group() as group:
        group.start_soon(send)
        async for piece in stdout:
            answer += piece
            if len(answer) > MOST_ANSWER:
                return b""
        group.cancel_scope.cancel()
    # To kill a process at its end would take its exit status from the event loop, which waits for it.
    await process.wait()
    return bytes(answer)
