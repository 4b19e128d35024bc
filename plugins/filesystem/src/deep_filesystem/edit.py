"""The edit engine: replace text in a file's bytes and change nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from .codec import Codec
from .nearest import describe_nearest
from .newlines import Folded, fold, restyle, styles

__all__ = ["Edited", "Refused", "Span", "edit_bytes"]

MAX_NAMED = 10
"""Maximum occurrences whose line numbers a message lists."""


class Refused(ValueError):
    """The edit is impossible; the message tells the model why and what to do. Nothing was changed."""


@dataclass(frozen=True)
class Span:
    """A replaced range: bytes `start` to `end` of the old content became `length` bytes."""

    start: int
    end: int
    length: int


@dataclass(frozen=True)
class Edited:
    """The result of an edit.

    Attributes:
        data: the new content.
        lines: the 1-based line of each replacement, in the old content.
        spans: the replaced ranges, ascending; all other bytes are unchanged.
    """

    data: bytes
    lines: tuple[int, ...]
    spans: tuple[Span, ...]


def edit_bytes(data: bytes, codec: Codec, old: str, new: str, *, replace_all: bool = False) -> Edited:
    """Replace `old` by `new` in a file's content.

    Both texts use LF. In a file with CRLF, the replacement takes the line endings of the lines it replaces, then the
    ending used there.

    Raises:
        Refused: `old` is empty, equal to `new`, absent, or not unique without `replace_all`.
        NotText: the content is not valid in `codec`.
        Unencodable: `new` has a character that the file's encoding lacks.
    """
    if not old:
        raise Refused("old_string is empty. Give the exact text to replace; use write_file for a new file.")
    old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if old == new:
        raise Refused("old_string and new_string are equal: nothing to change.")
    folded = fold(codec.decode(data))
    starts = _find(folded.text, old)
    if not starts:
        hint = describe_nearest(folded.text, old)
        raise Refused(f"old_string is not in the file. {hint or 'Read the file again and copy the text exactly.'}")
    if replace_all:
        starts = _apart(starts, len(old))
    elif len(starts) > 1:
        named = _line_numbers(folded.text, starts[:MAX_NAMED])
        more = f" and {len(starts) - MAX_NAMED} more" if len(starts) > MAX_NAMED else ""
        raise Refused(
            f"old_string occurs {len(starts)} times, in lines {', '.join(map(str, named))}{more}. "
            "Add the lines around the one you mean, or set replace_all."
        )
    return _replace(folded, codec, starts, len(old), new)


def _replace(folded: Folded, codec: Codec, starts: list[int], length: int, new: str) -> Edited:
    raw = folded.raw
    pieces: list[str] = []
    spans: list[Span] = []
    done = 0
    at = len(codec.mark)
    for start in starts:
        first, last = folded.to_raw(start), folded.to_raw(start + length)
        taken = styles(raw[first:last])
        tail = taken[-1] if taken else folded.style_at(start)
        text = restyle(new, taken, tail)
        # The text before a match gives its first byte; only these pieces are encoded again.
        before = raw[done:first]
        at += _size(codec, before)
        end = at + _size(codec, raw[first:last])
        spans.append(Span(at, end, _size(codec, text, new_text=True, before=raw[:first])))
        pieces += [before, text]
        at, done = end, last
    pieces.append(raw[done:])
    return Edited(codec.encode("".join(pieces)), tuple(_line_numbers(folded.text, starts)), tuple(spans))


def _size(codec: Codec, text: str, *, new_text: bool = False, before: str = "") -> int:
    if new_text:
        # Encode it with the text before, so that an error names the line of the result.
        try:
            return len(text.encode(codec.name, codec.errors))
        except UnicodeEncodeError:
            codec.encode(before + text)
            raise
    return len(text.encode(codec.name, codec.errors))


def _find(text: str, old: str) -> list[int]:
    """Find every match, overlapping ones too: "aa" in "aaa" is as ambiguous as two separate ones."""
    starts: list[int] = []
    at = text.find(old)
    while at >= 0:
        starts.append(at)
        at = text.find(old, at + 1)
    return starts


def _apart(starts: list[int], length: int) -> list[int]:
    kept: list[int] = []
    for start in starts:
        if not kept or start >= kept[-1] + length:
            kept.append(start)
    return kept


def _line_numbers(text: str, starts: list[int]) -> list[int]:
    numbers: list[int] = []
    line, done = 1, 0
    for start in starts:
        line += text.count("\n", done, start)
        done = start
        numbers.append(line)
    return numbers
