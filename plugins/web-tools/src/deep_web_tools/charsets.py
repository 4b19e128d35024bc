"""Decode a page: the byte order mark, then what the server and the page say, then what fits. Nothing raises."""

from __future__ import annotations

import codecs
import re

__all__ = ["decode"]

# The encodings of the web. Python's other codecs are refused: some are quadratic, and some are no encodings of text.
_CODECS = frozenset(
    codecs.lookup(name).name
    for name in (
        *(
            "utf-8",
            "utf-16",
            "utf-16-le",
            "utf-16-be",
            "cp866",
            "koi8-r",
            "koi8-u",
            "mac-roman",
            "mac-cyrillic",
            "cp874",
        ),
        *(f"cp{number}" for number in range(1250, 1259)),
        *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
        *("gbk", "gb18030", "big5hkscs", "euc-jp", "iso2022-jp", "cp932", "cp949"),
    )
)
# Labels that browsers read as a larger encoding.
_LARGER = {
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"),
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "iso8859-11": "cp874",
    "gb2312": "gbk",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([\w:.+-]{1,40})", re.IGNORECASE)
_META_BYTES = 4_096
MOST_WRONG = 0.02
"""Above this share of bytes that a named encoding cannot read, the name is wrong."""


def decode(data: bytes, named: str | None, *, html: bool) -> tuple[str, str]:
    """Decode a page's bytes, which may end inside a character.

    Args:
        data: the bytes.
        named: the charset that the server named.
        html: the page may name a charset in its head.

    Returns:
        The text, and the encoding that was used. Bytes that do not fit become U+FFFD.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace"), encoding
    labels = [named]
    if html and (found := _META.search(data[:_META_BYTES])):
        label = found[1].decode("ascii", "replace")
        # A page whose head was read as ASCII is not UTF-16, whatever it says.
        labels.append("utf-8" if label.lower().startswith("utf-16") else label)
    for label in labels:
        encoding = _codec(label)
        if encoding is not None:
            text = data.decode(encoding, "replace")
            if text.count("\ufffd") <= max(len(text) * MOST_WRONG, 1):
                return text, encoding
    text = data.decode("utf-8", "replace")
    if text.count("\ufffd") <= 1 or text.count("\ufffd") <= len(text) * MOST_WRONG:
        return text, "utf-8"
    return data.decode("cp1252", "replace"), "cp1252"


def _codec(label: str | None) -> str | None:
    """Return Python's name of an encoding of the web; None for any other."""
    if not label or len(label) > 40:
        return None
    try:
        name = codecs.lookup(label.strip("\"' ")).name
    except (LookupError, ValueError):
        return None
    name = _LARGER.get(name, name)
    return name if name in _CODECS else None
