"""Check one SKILL.md by the open standard (agentskills.io).

The limits and the strict results are those of the standard's reference validator, skills-ref 0.1.1.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .fields import Fields, Value, parse_fields, parse_leniently
from .problem import BadSkill, one_line
from .split import split_either, split_strict

__all__ = ["FIELDS", "Record", "body_of", "read_record", "split_tools"]

OLD_FIELDS = ("version", "author", "tags")
"""Fields that files older than the standard have at the top; the standard has them below metadata."""
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
NAME_CHARS = 64
DESCRIPTION_CHARS = 1024
COMPATIBILITY_CHARS = 500
METADATA_VALUES = 50
METADATA_CHARS = 1_000
"""Maximum characters of a metadata value; the standard sets no limit."""
TOOLS = 100
"""Maximum entries of `allowed-tools`; the standard sets no limit."""

Remark = tuple[int, str, bool]
"""(line, message, whether the skill is skipped because of it)"""


@dataclass(frozen=True)
class Record:
    """The content of one file. `name` is empty if the skill is skipped."""

    name: str = ""
    description: str = ""
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    allowed_tools: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()


def read_record(head: bytes, folder: str, *, strict: bool) -> Record:
    """Check a frontmatter.

    Args:
        head: the beginning of the file, at least to the end of its frontmatter.
        folder: the name of the skill's folder.
        strict: skip the skill for anything that the reference validator rejects. Else skip it only
            without parseable YAML or without a description, and report everything else.
    """
    try:
        return _strict(head, folder) if strict else _lenient(head, folder)
    except BadSkill as error:
        return Record(remarks=((error.line, error.reason, True),))


def body_of(text: str, *, strict: bool) -> str:
    """Return the instructions: the text after the frontmatter, or the whole text without one.

    Raises:
        BadSkill: the frontmatter is not closed.
    """
    return (split_strict(text) if strict else split_either(text))[2].strip("\r\n")


def _decode(head: bytes) -> str:
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        raise BadSkill(head.count(b"\n", 0, error.start) + 1, "the file is not UTF-8; save it as UTF-8") from None


def _strict(head: bytes, folder: str) -> Record:
    text, first, _ = split_strict(_decode(head))
    fields = parse_fields(text, first, strict=True)
    remarks = [(note.line, str(note), True) for note in fields.notes]
    remarks += [(line, message, True) for line, message in _verdicts(fields, folder, first)]
    if remarks:
        return Record(remarks=tuple(remarks))
    return _build(fields, str(fields.values["name"]).strip(), str(fields.values["description"]).strip(), [])


def _verdicts(fields: Fields, folder: str, first: int) -> Iterator[tuple[int, str]]:
    lines = fields.lines
    for key in fields.values:
        if key not in FIELDS:
            yield lines.get(key, first), _unknown(key)
    for key in ("name", "description"):
        value = fields.values.get(key)
        if not isinstance(value, str) or not value.strip():
            yield lines.get(key, first), f"{key} is missing or not text"
        elif key == "name":
            for message in name_problems(value, folder):
                yield lines[key], message
        elif len(value) > DESCRIPTION_CHARS:
            yield lines[key], _too_long("description", len(value), DESCRIPTION_CHARS)
    if "compatibility" in fields.values:
        value = fields.values["compatibility"]
        if not isinstance(value, str):
            yield lines["compatibility"], "compatibility is not text"
        elif len(value) > COMPATIBILITY_CHARS:
            yield lines["compatibility"], _too_long("compatibility", len(value), COMPATIBILITY_CHARS)


def _unknown(key: str) -> str:
    return f"unknown field {one_line(key, 40)!r}; put custom fields below metadata"


def _too_long(key: str, chars: int, most: int) -> str:
    return f"{key} has {chars} characters, the standard allows {most}"


def name_problems(name: str, folder: str) -> Iterator[str]:
    """List what is wrong with a name by the standard. Letters of every script are letters."""
    name = unicodedata.normalize("NFKC", name.strip())
    label = one_line(name, 80)
    if len(name) > NAME_CHARS:
        yield _too_long("name", len(name), NAME_CHARS)
    if name != name.lower():
        yield f"name {label!r} is not lower-case"
    if name.startswith("-") or name.endswith("-"):
        yield f"name {label!r} begins or ends with a hyphen"
    if "--" in name:
        yield f"name {label!r} has two hyphens in a row"
    if not all(c.isalnum() or c == "-" for c in name):
        yield f"name {label!r} has characters other than letters, digits and hyphens"
    if unicodedata.normalize("NFKC", folder) != name:
        yield f"name {label!r} differs from the folder's, {one_line(folder, 80)!r}"


def _lenient(head: bytes, folder: str) -> Record:
    whole = _decode(head)
    text, first, _ = split_either(whole)
    remarks: list[Remark] = []
    if whole.startswith("\ufeff"):
        remarks.append((1, "the file begins with a byte order mark; save it without", False))
    if not whole.removeprefix("\ufeff").startswith("---"):
        remarks.append((1, "blank lines before the frontmatter", False))
    fields, slip = parse_leniently(text, first)
    if slip:
        remarks.append((slip, "a value with ': ' needs quotes; read as quoted", False))
    odd = ("duplicate", "merge", "tag")
    remarks += [(note.line, str(note), False) for note in fields.notes if note.kind in odd]
    remarks += [
        (fields.lines.get(key, first), _unknown(key), False)
        for key in fields.values
        if key not in (*FIELDS, *OLD_FIELDS, "<<")
    ]
    description = fields.values.get("description")
    line = fields.lines.get("description", first)
    if not isinstance(description, str) or not description.strip():
        what = "there is no description" if description in (None, "") else "the description is not text"
        raise BadSkill(line, f"{what}: say what the skill does and when to use it")
    if len(description) > DESCRIPTION_CHARS:
        remarks.append((line, _too_long("description", len(description), DESCRIPTION_CHARS) + "; truncated", False))
    return _build(
        fields, _lenient_name(fields, folder, first, remarks), one_line(description, DESCRIPTION_CHARS), remarks
    )


def _lenient_name(fields: Fields, folder: str, first: int, remarks: list[Remark]) -> str:
    name = fields.values.get("name")
    line = fields.lines.get("name", first)
    if not isinstance(name, str) or not one_line(name):
        what = "there is no name" if name in (None, "") else "the name is not text"
        remarks.append((line, f"{what}; the folder's is used", False))
        return one_line(folder, NAME_CHARS)
    remarks += [(line, message, False) for message in name_problems(name, folder)]
    return one_line(unicodedata.normalize("NFKC", name), NAME_CHARS)


def _build(fields: Fields, name: str, description: str, remarks: list[Remark]) -> Record:
    values, lines = fields.values, fields.lines
    texts: dict[str, str | None] = {}
    for key, most in (("license", METADATA_CHARS), ("compatibility", COMPATIBILITY_CHARS)):
        value = values.get(key)
        if isinstance(value, list | dict):
            remarks.append((lines[key], f"{key} is not text; ignored", False))
            value = None
        elif isinstance(value, str) and len(value) > most:
            remarks.append((lines[key], _too_long(key, len(value), most) + "; truncated", False))
        texts[key] = one_line(value, most) if isinstance(value, str) else None
    return Record(
        name=name,
        description=description,
        license=texts["license"],
        compatibility=texts["compatibility"],
        metadata=_old_fields(values) | _metadata(values.get("metadata"), lines.get("metadata", 0), remarks),
        allowed_tools=_allowed_tools(values.get("allowed-tools"), lines.get("allowed-tools", 0), remarks),
        remarks=tuple(remarks),
    )


def _old_fields(values: Mapping[str, Value]) -> dict[str, str]:
    out: dict[str, str] = {}
    for key in OLD_FIELDS:
        value = values.get(key)
        items = value if isinstance(value, list) else [value]
        text = ", ".join(item for item in items if isinstance(item, str))
        if text:
            out[key] = one_line(text, METADATA_CHARS)
    return out


def _metadata(value: Value, line: int, remarks: list[Remark]) -> dict[str, str]:
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        remarks.append((line, "metadata is not a mapping of names to text; ignored", False))
        return {}
    out: dict[str, str] = {}
    for key, item in list(value.items())[:METADATA_VALUES]:
        if key == "tags" and isinstance(item, list):
            item = ", ".join(tag for tag in item if isinstance(tag, str))
        text = item if isinstance(item, str) else "" if item is None else json.dumps(item, ensure_ascii=False)
        out[one_line(key, NAME_CHARS)] = text if len(text) <= METADATA_CHARS else text[: METADATA_CHARS - 1] + "…"
    if len(value) > METADATA_VALUES:
        remarks.append((line, f"metadata has {len(value)} entries; {METADATA_VALUES} are kept", False))
    return out


def _allowed_tools(value: Value, line: int, remarks: list[Remark]) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, dict):
        remarks.append((line, "allowed-tools is a mapping, not a list of tools; ignored", False))
        return ()
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) for item in items):
        remarks.append((line, "allowed-tools has entries that are not text; ignored", False))
    tools = tuple(dict.fromkeys(tool for item in items if isinstance(item, str) for tool in split_tools(item)))
    if any(tool.count("(") != tool.count(")") for tool in tools):
        remarks.append((line, "allowed-tools has an unclosed bracket", False))
    if len(tools) > TOOLS:
        remarks.append((line, f"allowed-tools has {len(tools)} entries; {TOOLS} are kept", False))
    return tuple(one_line(tool, 200) for tool in tools[:TOOLS])


_TOOL = re.compile(r"(?:[^\s,()]|\([^()]*\)?)+")


def split_tools(text: str) -> list[str]:
    """Split `allowed-tools` at blanks or commas, but not inside brackets.

    `Bash(git add:*, git commit:*) Read,Write` has three entries.
    """
    return _TOOL.findall(text)
