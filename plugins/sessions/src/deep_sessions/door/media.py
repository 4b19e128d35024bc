"""Files in a conversation, by their bytes: what no provider takes becomes words.

A provider refuses a whole request for one file that is not what it says, and the file is in every later request, too.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from pydantic_ai.messages import BinaryContent, FileUrl

from .pictures import PICTURES, Broken
from .text import clean

__all__ = ["MOST_BYTES", "clean_file", "clean_url", "is_text", "recognized"]

MOST_BYTES = 20_000_000
"""Of one file: what one request may have at the usual providers."""
MOST_SOURCE = 20_000
"""Characters of a vector picture that are shown as its text."""
_SCHEMES = frozenset({"http", "https", "gs", "s3"})


class Kind(NamedTuple):
    """What bytes are.

    Attributes:
        label: for words, with the article.
        media_type: "" where no provider takes it.
    """

    label: str
    media_type: str = ""


_MP3, _AAC = Kind("an MP3 recording", "audio/mpeg"), Kind("an AAC recording", "audio/aac")
_STARTS: tuple[tuple[int, bytes, Kind], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", Kind("a PNG picture", "image/png")),
    (0, b"\xff\xd8\xff", Kind("a JPEG picture", "image/jpeg")),
    (0, b"GIF87a", Kind("a GIF picture", "image/gif")),
    (0, b"GIF89a", Kind("a GIF picture", "image/gif")),
    (8, b"WEBP", Kind("a WebP picture", "image/webp")),
    (8, b"WAVE", Kind("a WAV recording", "audio/wav")),
    (8, b"AVI ", Kind("an AVI video", "video/x-msvideo")),
    (8, b"AIFF", Kind("an AIFF recording", "audio/aiff")),
    (8, b"AIFC", Kind("an AIFF recording", "audio/aiff")),
    (0, b"ID3", _MP3),
    (0, b"fLaC", Kind("a FLAC recording", "audio/flac")),
    (0, b"OggS", Kind("an Ogg recording", "audio/ogg")),
    (0, b"\x1aE\xdf\xa3", Kind("a Matroska or WebM video", "video/webm")),
    (0, b"FLV\x01", Kind("an FLV video", "video/x-flv")),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", Kind("a WMV video", "video/x-ms-wmv")),
    (0, b"\0\0\x01\xba", Kind("an MPEG video", "video/mpeg")),
    (0, b"\0\0\x01\xb3", Kind("an MPEG video", "video/mpeg")),
    (0, b"PK\x03\x04", Kind("a ZIP archive")),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Kind("an old Office document")),
    (0, b"BM", Kind("a BMP picture")),
    (0, b"II*\0", Kind("a TIFF picture")),
    (0, b"MM\0*", Kind("a TIFF picture")),
    (0, b"\0\0\x01\0", Kind("an icon")),
    (0, b"8BPS", Kind("a Photoshop picture")),
    (0, b"\xff\x0a", Kind("a JPEG XL picture")),
    (0, b"\x1f\x8b", Kind("a gzip archive")),
)
_PDF = Kind("a PDF document", "application/pdf")
_HEIF = Kind("an HEIF or AVIF picture")
_MP4 = Kind("an MP4 or QuickTime file", "video/mp4")
_HEIF_BRANDS = frozenset({b"heic", b"heix", b"heis", b"hevc", b"hevx", b"mif1", b"msf1", b"avif", b"avis"})
_MARKUP = re.compile(
    # Possessive: a row of comments can be divided in more ways than there is time to try.
    rb"\s*+(?:<\?xml[^>]*+>\s*+)?+(?:<!--.*?-->\s*+)*+(?:(<!doctype\s+html|<html|<script|<body|<head)|(<svg|<!doctype\s+svg))",
    re.IGNORECASE | re.DOTALL,
)
_HTML, _SVG = Kind("an HTML page"), Kind("an SVG picture")
_TEXTS = re.compile(r"text/|application/(?:.*\+)?(?:json|xml|yaml|x-yaml|toml|javascript|sql|x-ndjson|x-sh)$")
_OFFICE = re.compile(r"application/(?:msword|vnd\.(?:ms-|openxmlformats-|oasis\.))")


def is_text(media_type: str) -> bool:
    """Whether files of a type are text."""
    return _TEXTS.match(media_type.partition(";")[0].strip().lower()) is not None


def recognized(data: bytes) -> Kind | None:
    """Return what bytes are, by how they begin; None for what begins like nothing here."""
    for offset, start, kind in _STARTS:
        if data.startswith(start, offset) and (not offset or data.startswith((b"RIFF", b"FORM"))):
            return kind
    if data[4:8] == b"ftyp":
        return _HEIF if data[8:12] in _HEIF_BRANDS else _MP4
    if b"%PDF-" in data[:1024]:
        return _PDF
    if len(data) > 1 and data[0] == 0xFF and data[1] & 0xF6 in (0xF0, 0xF2, 0xE2):  # frames without a head
        return _AAC if data[1] & 0x06 == 0 else _MP3
    if markup := _MARKUP.match(data[:4096].removeprefix(b"\xef\xbb\xbf")):
        return _HTML if markup[1] else _SVG
    return None


def clean_file(content: BinaryContent) -> BinaryContent | str:
    """Return a file as a provider takes it: the same object, one of its real type, or words for the model."""
    data, said = content.data, clean(str(content.media_type)).partition(";")[0].strip().lower()
    if not data:
        return _words(said, data, "it is empty")
    if len(data) > MOST_BYTES:
        return _words(said, data, f"it has more than {MOST_BYTES:,} bytes")
    kind = recognized(data)
    if kind is not None and kind.media_type in PICTURES:
        return _picture(content, said, kind)
    if is_text(said) and (kind is None or kind in (_HTML, _SVG)):
        return _text(content)
    family = said.partition("/")[0]
    if kind is not None and kind.media_type:
        # One container holds recordings and videos: what it said is more exact.
        exact = kind.media_type.startswith(("audio/", "video/")) and family in ("audio", "video")
        if kind is _PDF and b"%%EOF" not in data:
            return _words(said, data, "it is a PDF document that is cut off")
        return content if exact or said == kind.media_type else _relabelled(content, data, kind.media_type)
    if _OFFICE.match(said) and data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        return content
    if kind is _SVG:
        source = clean(data[:MOST_SOURCE].decode("utf-8", "replace"))
        return f"{_words(said, data, 'it is an SVG picture')} Its source:\n{source}"
    if kind is None and family not in ("image", "audio", "video") and said != _PDF.media_type and _is_text(data):
        return clean(data.decode())
    return _words(said, data, f"it is {kind.label}" if kind is not None else "it is of no known kind")


def _picture(content: BinaryContent, said: str, kind: Kind) -> BinaryContent | str:
    try:
        data = PICTURES[kind.media_type](content.data)
    except Broken as broken:
        return _words(said, content.data, f"it begins like {kind.label}, but {broken}")
    if data is content.data and content.media_type == kind.media_type:
        return content
    return _relabelled(content, data, kind.media_type)


def _text(content: BinaryContent) -> BinaryContent | str:
    """Adapters decode text files as UTF-8, and fail on any other."""
    data = content.data
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return clean(data.decode("utf-16", "replace"))
        return content if "\0" not in data.decode() else clean(data.decode())
    except UnicodeDecodeError:
        return clean(data.decode("utf-8", "replace"))


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _relabelled(content: BinaryContent, data: bytes, media_type: str) -> BinaryContent:
    more: dict[str, Any] = {"vendor_metadata": content.vendor_metadata}
    return BinaryContent.narrow_type(BinaryContent(data, media_type=media_type, **more))


def _words(said: str, data: bytes, why: str) -> str:
    return f"[left out: {said or 'a file'} of {len(data):,} bytes: {why}, which a model cannot be sent]"


def clean_url(item: FileUrl) -> FileUrl | BinaryContent | str:
    """Return a file at an address as a provider takes it. One that is in the address itself is looked at."""
    url = clean(item.url)
    try:
        parts = urlsplit(url)
        scheme, has_host = parts.scheme.lower(), bool(parts.netloc) and parts.port != 0
        has_host = has_host and not (scheme.startswith("http") and any(map(str.isspace, url)))
    except ValueError:
        scheme, has_host = "", False
    if scheme == "data":
        try:
            head, _, body = url.removeprefix("data:").partition(",")
            media_type = head.partition(";")[0] or "text/plain"
            raw = unquote_to_bytes(body)
            data = _base64(raw) if head.endswith(";base64") else raw
        except ValueError:
            return "[left out: a file in an address: it is not base64, which a model cannot be sent]"
        return clean_file(BinaryContent(data, media_type=media_type))
    if scheme in _SCHEMES and has_host:
        return item if url is item.url else type(item)(url=url)
    return f"[left out: a file at {url[:200]!r}, an address that no provider can read]"


def _base64(text: bytes) -> bytes:
    from base64 import b64decode

    return b64decode(text, validate=True)
