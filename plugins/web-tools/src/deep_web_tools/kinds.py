"""Which content is text that the model can read."""

from __future__ import annotations

from email.message import Message

__all__ = ["content_type", "is_html", "is_text", "looks_binary"]

_TEXT = frozenset(
    f"application/{name}"
    for name in (
        *("json", "xml", "javascript", "ecmascript", "yaml", "x-yaml", "toml", "sql", "graphql", "x-sh", "x-ndjson"),
        *("xhtml+xml", "rtf", "x-tex", "x-httpd-php", "x-www-form-urlencoded", "jsonlines", "x-subrip"),
    )
)
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_SNIFFED = 2_048


def content_type(header: str) -> tuple[str, str | None]:
    """Split `Content-Type` into the media type, in lower case and empty if there is none, and the charset."""
    message = Message()
    message["content-type"] = header[:200].replace("\n", " ").replace("\r", " ") or "x"
    charset = message.get_param("charset")
    kind = header.partition(";")[0].strip().lower()
    return kind, charset if isinstance(charset, str) else None


def is_text(kind: str) -> bool:
    """Whether a media type is text, or says nothing."""
    return not kind or kind.startswith("text/") or kind in _TEXT or kind.endswith(("+json", "+xml", "+yaml"))


def is_html(kind: str, data: bytes) -> bool:
    """Whether a body is HTML: by its media type, or by its beginning if it has none."""
    if kind:
        return kind in _HTML
    return data[:_SNIFFED].lstrip().lower().startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def looks_binary(data: bytes) -> bool:
    """Whether a body that says it is text is not: it has NUL bytes, and is not UTF-16."""
    head = data[:_SNIFFED]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" not in head:
        return False
    # UTF-16 without a mark: ASCII in it has a NUL in every other byte.
    return not (head[1::2].count(0) > len(head) * 0.3 or head[::2].count(0) > len(head) * 0.3)
