"""Encode new content for an existing file with its encoding, mark and line endings."""

from __future__ import annotations

from .codec import Codec
from .newlines import Newline, dominant, restyle, styles

__all__ = ["overwrite_bytes"]


def overwrite_bytes(old: bytes, codec: Codec, content: str) -> bytes:
    """Encode `content` to replace `old`.

    A file with one kind of line ending keeps it. In a mixed file, unchanged lines at the beginning and end keep
    theirs, and those between get the more frequent one. The final newline is as given.

    Raises:
        NotText: `old` is not valid in `codec`.
        Unencodable: `content` has a character that the encoding lacks.
    """
    text = codec.decode(old)
    kept = styles(text)
    wanted = content.replace("\r\n", "\n")
    if not kept:
        return codec.encode(content)
    main = dominant(text)
    if len(set(kept)) == 1:
        return codec.encode(restyle(wanted, [], main))
    return codec.encode(restyle(wanted, _mixed(text, wanted, kept, main), main))


def _mixed(text: str, wanted: str, kept: list[Newline], main: Newline) -> list[Newline]:
    before, after = text.replace("\r\n", "\n").split("\n"), wanted.split("\n")
    limit = min(len(before), len(after))
    head = 0
    while head < limit and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < limit - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    # A line ending belongs to the line before it: the last line has none.
    first = kept[: min(head, len(after) - 1)]
    last = kept[len(before) - tail :] if tail > 1 else []
    middle: list[Newline] = [main] * (len(after) - 1 - len(first) - len(last))
    return [*first, *middle, *last]
