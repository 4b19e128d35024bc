"""Safe YAML: turn a real parser's events into text, lists and mappings, bounded, with line numbers.

Every scalar stays the author's text: `on`, `2024-01-01`, `1.10` and `012` stay as written, so
none of YAML's implicit types can change a name. Tags are ignored: no object is ever constructed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from .problem import BadSkill, one_line

__all__ = ["NOT_YAML", "Fields", "Note", "Value", "parse_fields", "parse_leniently"]

Value: TypeAlias = "str | None | list[Value] | dict[str, Value]"
"""None is a plain `~`, `null` or empty."""

NOT_YAML = "the frontmatter is not YAML"
"""How the reason of a `BadSkill` begins whose text no parser takes. Others are about what it holds."""
MOST_NODES = 2_000
"""Maximum values in one frontmatter, counting repetitions by aliases: no billion laughs."""
MOST_DEPTH = 20
NULLS = ("", "~", "null", "Null", "NULL")
"""Plain scalars without a value. In strict mode they are text, as for the reference validator."""
_BREAKS = {0x85: " ", 0x2028: " ", 0x2029: " "}
"""Line ends in YAML 1.1, which PyYAML reads, but blanks in YAML 1.2, which the standard uses."""

NoteKind = Literal["flow", "anchor", "alias", "tag", "duplicate", "merge"]
_WORDS: dict[NoteKind, str] = {
    "flow": "uses flow style, [a, b] or {a: b}; write one value per line",
    "anchor": "uses an anchor (&)",
    "alias": "uses an alias (*)",
    "tag": "uses a tag (!)",
    "duplicate": "is given twice; the last one counts",
    "merge": "uses a merge key (<<)",
}


@dataclass(frozen=True)
class Note:
    """A construct in the YAML that strict mode rejects, and a lenient reader may report."""

    kind: NoteKind
    line: int
    key: str = ""

    def __str__(self) -> str:
        return f"{f'{self.key} ' if self.key else 'the frontmatter '}{_WORDS[self.kind]}"


@dataclass
class Fields:
    """The fields of a frontmatter.

    Attributes:
        values: by key, in the author's order.
        lines: the line of each key, counted from 1 in the file.
        notes: see `Note`.
    """

    values: dict[str, Value]
    lines: dict[str, int] = field(default_factory=dict[str, int])
    notes: list[Note] = field(default_factory=list[Note])


@dataclass
class _Open:
    """An unfinished list or mapping."""

    value: list[Value] | dict[str, Value]
    anchor: str | None
    key: str | None = None
    key_line: int = 0
    size: int = 1


def parse_fields(text: str, first_line: int, *, strict: bool = False) -> Fields:
    """Parse the YAML of a frontmatter.

    Args:
        text: the text between the two `---`.
        first_line: the number of its first line in the file.
        strict: use PyYAML's Python parser, which like the reference validator's rejects a tab as separator;
            else the C parser if available (ten times faster).

    Raises:
        BadSkill: not YAML, not a mapping, or beyond the limits.
    """
    import yaml

    loader = yaml.BaseLoader if strict else getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        events: Iterator[Any] = cast("Any", yaml).parse(text.translate(_BREAKS), Loader=loader)
        return _Reader(first_line, () if strict else NULLS).read(events)
    except yaml.YAMLError as error:
        line, reason = _explain(error, text)
        raise BadSkill(first_line + line, f"{NOT_YAML}: {reason}") from error
    except (UnicodeError, RecursionError) as error:
        raise BadSkill(first_line, f"{NOT_YAML}: {type(error).__name__}") from error


def _explain(error: Any, text: str) -> tuple[int, str]:
    """Return (lines after the first, the problem), without the file's text."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or "not readable"
        # The end of an unclosed quote is unknown: report its beginning.
        context_mark = getattr(error, "context_mark", None)
        if context_mark is not None and "quoted scalar" in str(getattr(error, "context", "")):
            mark = context_mark
        return mark.line, one_line(str(problem))
    position = getattr(error, "position", 0)  # a ReaderError
    return text.count("\n", 0, position), "a control character in it"


class _Reader:
    def __init__(self, first_line: int, nulls: tuple[str, ...]) -> None:
        self.first_line = first_line
        self.nulls = nulls
        self.open: list[_Open] = []
        self.anchors: dict[str, tuple[Value, int]] = {}
        self.fields: Fields | None = None
        self.lines: dict[str, int] = {}
        self.notes: list[Note] = []
        self.nodes = 0
        self.documents = 0

    def read(self, events: Iterator[Any]) -> Fields:
        import yaml

        for event in events:
            line = self.first_line + event.start_mark.line
            if isinstance(event, yaml.ScalarEvent):
                self._note(event, line)
                value: Value = None if event.implicit[0] and event.value in self.nulls else event.value
                self._place(value, 1, event.anchor, line, text=event.value)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event, line)
            elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
                self._note(event, line)
                if len(self.open) >= MOST_DEPTH:
                    raise BadSkill(line, f"the frontmatter is nested more than {MOST_DEPTH} deep")
                container: list[Value] | dict[str, Value] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
                self.open.append(_Open(container, event.anchor))
            elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                finished = self.open.pop()
                self._place(finished.value, finished.size, finished.anchor, line)
            elif isinstance(event, yaml.DocumentStartEvent):
                self.documents += 1
                if self.documents > 1:
                    raise BadSkill(line, "the frontmatter has more than one YAML document")
        if self.fields is None:
            raise BadSkill(self.first_line, "the frontmatter is empty: give name and description")
        return self.fields

    def _note(self, event: Any, line: int) -> None:
        key = self.open[0].key if self.open else None
        if event.anchor:
            self.notes.append(Note("anchor", line, key or ""))
        if event.tag:
            self.notes.append(Note("tag", line, key or ""))
        if getattr(event, "flow_style", False):
            self.notes.append(Note("flow", line, key or ""))

    def _alias(self, event: Any, line: int) -> None:
        if event.anchor not in self.anchors:
            raise BadSkill(line, f"the alias *{one_line(event.anchor, 40)} is undefined, or refers to itself")
        self.notes.append(Note("alias", line))
        value, size = self.anchors[event.anchor]
        self._place(value, size, None, line, text=value if isinstance(value, str) else None)

    def _place(self, value: Value, size: int, anchor: str | None, line: int, *, text: str | None = None) -> None:
        self.nodes += 1
        if anchor:
            self.anchors[anchor] = (value, size)
        if not self.open:
            self._finish(value, line)
            return
        parent = self.open[-1]
        parent.size += size
        if parent.size > MOST_NODES or self.nodes > MOST_NODES:
            raise BadSkill(line, f"the frontmatter has more than {MOST_NODES} values")
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:
            if text is None:
                raise BadSkill(line, "a key of the frontmatter is a list or a mapping, not text")
            parent.key, parent.key_line = text, line
        else:
            self._pair(parent, value)

    def _pair(self, parent: _Open, value: Value) -> None:
        key = cast("str", parent.key)
        mapping = cast("dict[str, Value]", parent.value)
        if key in mapping:
            self.notes.append(Note("duplicate", parent.key_line, one_line(key, 40)))
        if key == "<<":
            self.notes.append(Note("merge", parent.key_line))
        mapping[key] = value
        if len(self.open) == 1:
            self.lines[key] = parent.key_line
        parent.key = None

    def _finish(self, value: Value, line: int) -> None:
        if not isinstance(value, dict):
            what = "a list" if isinstance(value, list) else "text"
            raise BadSkill(line if value else self.first_line, f"the frontmatter is {what}, not fields like name: x")
        self.fields = Fields(value, self.lines, self.notes)


def parse_leniently(text: str, first_line: int) -> tuple[Fields, int]:
    """Parse the fields; if that fails, parse again with quotes added where only they are missing.

    `description: Use it when: always` is the most common mistake in skills; it has only one meaning.

    Returns:
        The fields, and the line of such a mistake (0 for none).

    Raises:
        BadSkill: see `parse_fields`; the error of the original text.
    """
    try:
        return parse_fields(text, first_line), 0
    except BadSkill as error:
        fixed = _PLAIN.sub(_quote, text)
        if fixed == text:
            raise
        try:
            return parse_fields(fixed, first_line), error.line
        except BadSkill:
            raise error from None


# Possessive, and trailing blanks are removed later, so that no part of a line is matched twice.
_PLAIN = re.compile(r"^([A-Za-z][\w-]*+):[ \t]++([^\s\"'\[\]{}|>&*!#%@`?-].*+)$", re.M)


def _quote(match: re.Match[str]) -> str:
    """Quote a top-level one-line value if it has a `: `."""
    key, value = match[1], match[2].removesuffix("\r").rstrip(" \t")
    if ": " not in value and not value.endswith(":"):
        return match[0]
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{key}: "{escaped}"'
