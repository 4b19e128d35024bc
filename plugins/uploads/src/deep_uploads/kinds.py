"""Detect a file's format from its first bytes, and compare it with its name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from mimetypes import MimeTypes

from .names import suffix_of

__all__ = ["Kind", "Verdict", "judge", "recognize"]

UNKNOWN = "application/octet-stream"
_GENERIC = frozenset({"", ".bin", ".dat", ".data", ".tmp", ".part", ".download", ".blob", ".file"})
"""Suffixes without a fixed format."""


@dataclass(frozen=True)
class Kind:
    """A format identified by its first bytes.

    Attributes:
        label: its name for the model, with the article.
        mime_type: its type, unless the name says more.
        suffixes: its suffixes, and those of formats built on it.
    """

    label: str
    mime_type: str
    suffixes: frozenset[str]


def _kind(label: str, mime_type: str, suffixes: str) -> Kind:
    return Kind(label, mime_type, frozenset(f".{suffix}" for suffix in suffixes.split()))


_PNG = _kind("a PNG image", "image/png", "png apng")
_JPEG = _kind("a JPEG image", "image/jpeg", "jpg jpeg jpe jfif")
_GIF = _kind("a GIF image", "image/gif", "gif")
_TIFF = _kind("a TIFF image", "image/tiff", "tif tiff dng nef cr2 arw orf pef srw")
_PDF = _kind("a PDF document", "application/pdf", "pdf ai")
_POSTSCRIPT = _kind("a PostScript document", "application/postscript", "ps eps ai")
_RTF = _kind("an RTF document", "application/rtf", "rtf doc")
_ZIP = _kind(
    "a ZIP archive",
    "application/zip",
    "zip docx docm dotx dotm xlsx xlsm xltx xlsb xlam pptx pptm ppsx ppsm potx "
    "odt ods odp odg epub jar war apk aar whl egg xpi vsix kmz 3mf "
    "cbz ipa npz keras pages numbers key nupkg usdz sb3",
)
_OLE = _kind(
    "an OLE document (old Office)", "application/x-ole-storage", "doc xls ppt dot xlt pps msg msi vsd pub mpp db"
)
_GZIP = _kind("a gzip archive", "application/gzip", "gz tgz svgz tar.gz rds rdata warc")
_BZIP2 = _kind("a bzip2 archive", "application/x-bzip2", "bz2 tbz tbz2 tar.bz2")
_XZ = _kind("an xz archive", "application/x-xz", "xz txz tar.xz")
_ZSTD = _kind("a Zstandard archive", "application/zstd", "zst tzst tar.zst")
_SEVEN = _kind("a 7-Zip archive", "application/x-7z-compressed", "7z cb7")
_RAR = _kind("a RAR archive", "application/vnd.rar", "rar cbr")
_TAR = _kind("a tar archive", "application/x-tar", "tar ova gem cbt")
_MP4 = _kind("an MP4 or QuickTime container", "video/mp4", "mp4 m4v m4a m4b m4p mov qt 3gp 3g2 f4v cr3")
_MPEG_TS = _kind("an MPEG transport stream", "video/mp2t", "ts mts m2ts")
_HEIF = _kind("an HEIF or AVIF image", "image/heif", "heic heif heics avif hif")
_MATROSKA = _kind("a Matroska container", "video/x-matroska", "mkv webm mka weba mks")
_OGG = _kind("an Ogg container", "application/ogg", "ogg oga ogv opus ogx spx")
_WAV = _kind("a WAV recording", "audio/wav", "wav wave")
_AVI = _kind("an AVI video", "video/x-msvideo", "avi")
_WEBP = _kind("a WebP image", "image/webp", "webp")
_MP3 = _kind("an MP3 recording", "audio/mpeg", "mp3 mp2 mpga")
_TAGGED = _kind("a recording with ID3 tags", "audio/mpeg", "mp3 mp2 mpga aac flac aif aiff wav tta ape")
_FLAC = _kind("a FLAC recording", "audio/flac", "flac")
_MIDI = _kind("a MIDI file", "audio/midi", "mid midi rmi kar")
_BMP = _kind("a BMP image", "image/bmp", "bmp dib")
_ICO = _kind("an icon", "image/x-icon", "ico")
_PSD = _kind("a Photoshop image", "image/vnd.adobe.photoshop", "psd psb")
_SQLITE = _kind("an SQLite database", "application/vnd.sqlite3", "sqlite sqlite3 db db3 s3db gpkg mbtiles")
_PARQUET = _kind("a Parquet table", "application/vnd.apache.parquet", "parquet pq")
_ARROW = _kind("an Arrow table", "application/vnd.apache.arrow.file", "arrow feather ipc")
_AVRO = _kind("an Avro file", "application/vnd.apache.avro", "avro")
_HDF5 = _kind("an HDF5 file", "application/x-hdf5", "h5 hdf5 hdf he5 nc mat keras")
_WASM = _kind("a WebAssembly module", "application/wasm", "wasm")
_FONT = _kind("a font", "font/sfnt", "ttf otf ttc woff woff2")
_ELF = _kind("a Linux program", "application/x-executable", "so elf o ko axf out run appimage")
_WINDOWS = _kind(
    "a Windows program", "application/vnd.microsoft.portable-executable", "exe dll sys scr ocx cpl efi com"
)
_MACOS = _kind("a macOS program", "application/x-mach-binary", "dylib bundle o")
_JAVA = _kind("a Java class or a macOS program", "application/java-vm", "class dylib bundle o")
_HTML = _kind("an HTML page", "text/html", "html htm xhtml xht shtml mhtml")
_SVG = _kind("an SVG image", "image/svg+xml", "svg")

_MAGIC: tuple[tuple[int, bytes, Kind], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", _PNG),
    (0, b"\xff\xd8\xff", _JPEG),
    (0, b"GIF87a", _GIF),
    (0, b"GIF89a", _GIF),
    (0, b"II*\0", _TIFF),
    (0, b"MM\0*", _TIFF),
    (0, b"II+\0", _TIFF),
    (0, b"MM\0+", _TIFF),
    (0, b"PK\x03\x04", _ZIP),
    (0, b"PK\x05\x06", _ZIP),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLE),
    (0, b"\x1f\x8b\x08", _GZIP),
    (0, b"BZh", _BZIP2),
    (0, b"\xfd7zXZ\0", _XZ),
    (0, b"\x28\xb5\x2f\xfd", _ZSTD),
    (0, b"7z\xbc\xaf\x27\x1c", _SEVEN),
    (0, b"Rar!\x1a\x07", _RAR),
    (257, b"ustar", _TAR),
    (0, b"\x1aE\xdf\xa3", _MATROSKA),
    (0, b"OggS", _OGG),
    (0, b"ID3", _TAGGED),
    (0, b"\xff\xfb", _MP3),
    (0, b"\xff\xf3", _MP3),
    (0, b"fLaC", _FLAC),
    (0, b"MThd", _MIDI),
    (0, b"8BPS", _PSD),
    (0, b"SQLite format 3\0", _SQLITE),
    (0, b"PAR1", _PARQUET),
    (0, b"ARROW1", _ARROW),
    (0, b"Obj\x01", _AVRO),
    (0, b"\x89HDF\r\n\x1a\n", _HDF5),
    (0, b"\0asm", _WASM),
    (0, b"wOFF", _FONT),
    (0, b"wOF2", _FONT),
    (0, b"OTTO\0", _FONT),
    (0, b"\0\x01\0\0\0", _FONT),
    (0, b"true\0", _FONT),
    (0, b"ttcf\0", _FONT),
    (0, b"\x7fELF", _ELF),
    (0, b"\xca\xfe\xba\xbe", _JAVA),
    (0, b"\xcf\xfa\xed\xfe", _MACOS),
    (0, b"\xce\xfa\xed\xfe", _MACOS),
    (0, b"\0\0\x01\0", _ICO),
    (0, b"MZ", _WINDOWS),
    (0, b"BM", _BMP),
)
"""Offset, bytes, kind. Only binary files are compared, so that a short signature does not match a sentence."""
_TEXTUAL: tuple[tuple[bytes, Kind], ...] = ((b"%PDF-", _PDF), (b"%!PS", _POSTSCRIPT), (b"{\\rtf", _RTF))
"""Formats that can be plain text."""
_HEIF_BRANDS = frozenset({b"heic", b"heix", b"heis", b"hevc", b"hevx", b"mif1", b"msf1", b"avif", b"avis"})
_RIFF = {b"WAVE": _WAV, b"AVI ": _AVI, b"WEBP": _WEBP}
_MARKUP = re.compile(
    # Possessive: a row of comments can be divided in more ways than there is time to try.
    rb"\s*+(?:<\?xml[^>]*+>\s*+)?+(?:<!--.*?-->\s*+)*+(?:(<!doctype\s+html|<html|<script|<body|<head)|(<svg|<!doctype\s+svg))",
    re.IGNORECASE | re.DOTALL,
)
_HEAD = 4096

_ALL = frozenset(
    [kind for _, _, kind in _MAGIC] + [kind for _, kind in _TEXTUAL] + [*_RIFF.values(), _MP4, _HEIF, _MPEG_TS, _SVG]
)
_PROMISED: dict[str, Kind] = {suffix: kind for kind in sorted(_ALL, key=lambda k: k.label) for suffix in kind.suffixes}
"""Suffixes of formats that would be recognized."""
# Formats that also exist without a signature, or as plain text.
_LOOSE = frozenset(
    {".doc", ".xls", ".db", ".dat", ".com", ".run", ".out", ".o", ".pub", ".key", ".numbers", ".pages", ".mat", ".ai"}
    | {
        ".nc",
        ".hdf",
        ".tar",
        ".mp3",
        ".mp2",
        ".mpga",
        ".rds",
        ".bundle",
        ".class",
        ".orf",
        ".qt",
        ".mov",
        ".egg",
        ".ts",
        ".warc",
    }
)
_MORE_TYPES = {
    ".md": "text/markdown", ".markdown": "text/markdown", ".csv": "text/csv", ".tsv": "text/tab-separated-values",
    ".log": "text/plain", ".ini": "text/plain", ".cfg": "text/plain", ".toml": "application/toml",
    ".yaml": "application/yaml", ".yml": "application/yaml", ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson", ".ipynb": "application/x-ipynb+json", ".sql": "application/sql",
    ".ts": "text/x-typescript", ".tsx": "text/x-typescript", ".jsx": "text/javascript", ".rs": "text/x-rust",
    ".go": "text/x-go", ".java": "text/x-java", ".rb": "text/x-ruby", ".js": "text/javascript",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text", ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".epub": "application/epub+zip", ".heic": "image/heic", ".avif": "image/avif", ".webm": "video/webm",
    ".rtf": "application/rtf", ".bmp": "image/bmp", ".ico": "image/x-icon", ".sh": "text/x-shellscript",
    ".svgz": "image/svg+xml", ".tgz": "application/gzip", ".opus": "audio/ogg", ".m4a": "audio/mp4",
    ".flac": "audio/flac",
}  # fmt: skip
"""Types that Python's table lacks, or has differently in versions 3.11 to 3.13."""
_TEXT_TYPES = re.compile(r"text/|.*[+/](?:json|xml|yaml|toml|sql|javascript|x-ndjson|x-sh|x-tex|x-python)$")


@dataclass(frozen=True)
class Verdict:
    """The type of a file.

    Attributes:
        mime_type: its media type.
        mismatch: the real format if the name contradicts it, such as `named .png, content is a PDF document`.
    """

    mime_type: str
    mismatch: str | None


def recognize(head: bytes, *, text: bool) -> Kind | None:
    """Return the format identified by the first bytes; None for none."""
    start = head[3:] if head.startswith(b"\xef\xbb\xbf") else head
    for mark, kind in _TEXTUAL:
        if start.startswith(mark):
            return kind
    if text:
        markup = _MARKUP.match(start[:_HEAD])
        return None if markup is None else _HTML if markup[1] else _SVG
    for offset, mark, kind in _MAGIC:
        if head.startswith(mark, offset):
            return kind
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _HEIF if head[8:12] in _HEIF_BRANDS else _MP4
    if head[0:1] == head[188:189] == head[376:377] == b"G":
        return _MPEG_TS
    # Readers accept garbage before the header; last, because an archive may begin with a PDF.
    return _PDF if b"%PDF-" in head[:1024] else None


def judge(name: str, head: bytes, *, text: bool, size: int) -> Verdict:
    """Determine the media type from content and name, and whether the two agree.

    Content that identifies itself wins. A name can specify it (a `.docx` is a ZIP archive), but not contradict it.
    For text, names of text formats are accepted: a `.txt` may hold an HTML page.

    Args:
        name: the file's name.
        head: its first bytes, at least 300 if it has them.
        text: whether all of it is text.
        size: in bytes.
    """
    suffix = suffix_of(name)
    mime_type = _type_by_suffix(suffix)
    if not size:
        return Verdict(mime_type or UNKNOWN, None)
    kind = recognize(head, text=text)
    if kind is not None:
        if suffix in kind.suffixes:
            # One suffix can mean two formats: .ts is TypeScript, or a video.
            if mime_type is None or (_is_text(mime_type) and not text):
                return Verdict(kind.mime_type, None)
            return Verdict(mime_type, None)
        if suffix in _GENERIC:
            return Verdict(kind.mime_type, None)
        allows_text = mime_type is None or _is_text(mime_type)
        if text and kind in (_HTML, _SVG) and suffix not in _PROMISED and allows_text:
            return Verdict(mime_type or kind.mime_type, None)
        has_format = suffix in _PROMISED or mime_type is not None
        return Verdict(kind.mime_type, f"named {suffix}, content is {kind.label}" if has_format else None)
    plain = "text/plain" if text else UNKNOWN
    promise = _PROMISED.get(suffix)
    if promise is not None and suffix not in _LOOSE and promise not in (_HTML, _SVG):
        return Verdict(plain, f"named {suffix}, content is {'text' if text else 'another format'}")
    if mime_type is None or suffix in _GENERIC:
        return Verdict(plain, None)
    if not text and (_is_text(mime_type) or promise in (_HTML, _SVG)):
        return Verdict(plain, f"named {suffix}, content is binary")
    if text and mime_type.partition("/")[0] in ("image", "audio", "video", "font") and not _is_text(mime_type):
        return Verdict(plain, f"named {suffix}, content is text")
    return Verdict(mime_type, None)


def _is_text(mime_type: str) -> bool:
    return _TEXT_TYPES.match(mime_type) is not None


@lru_cache(maxsize=1)
def _table() -> MimeTypes:
    # Without the host's files: an upload has the same type on every machine.
    return MimeTypes(())


def _type_by_suffix(suffix: str) -> str | None:
    if not suffix:
        return None
    last = suffix[suffix.rfind(".") :]
    return _MORE_TYPES.get(suffix) or _MORE_TYPES.get(last) or _table().types_map[True].get(last)
