"""A corpus of SKILL.md files, valid, odd and hostile: the result of each, and the one line that reports a problem.

The strict verdicts are those of skills-ref, the standard's reference validator, which is asked about each file. On
files with control characters it crashes, and ours refuses them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from deep_skills import check_skills, discover_skills, load_skill_instructions, parse_skill_md
from deep_skills.record import Record, read_record
from hypothesis import given, settings
from hypothesis import strategies as st
from skills_ref import validator  # pyright: ignore[reportMissingTypeStubs]

from tests.drawn import examples, sample

HEAD = "name: sk\ndescription: What it does.\n"


@dataclass(frozen=True)
class Case:
    """One file in a folder `sk`.

    Attributes:
        id: of the test.
        content: of SKILL.md.
        strict: whether the reference validator takes it.
        lenient: whether we load it by default.
        said: `line: part of the message` of each problem in lenient mode, in order.
        name: the skill's name in lenient mode.
    """

    id: str
    content: bytes
    strict: bool
    lenient: bool
    said: tuple[str, ...] = ()
    name: str = "sk"


def case(id: str, content: str | bytes, verdicts: str, *said: str, name: str = "sk") -> Case:
    """`verdicts`: two letters, strict then lenient; `y` taken, `n` refused."""
    data = content if isinstance(content, bytes) else content.encode()
    return Case(id, data, verdicts[0] == "y", verdicts[1] == "y", said, name)


def front(fields: str, body: str = "Body.") -> str:
    return f"---\n{fields}---\n\n{body}\n"


def more(fields: str) -> str:
    return front(HEAD + fields)


def about(value: str) -> str:
    return front(f"name: sk\ndescription: {value}\n")


def called(value: str) -> str:
    return front(f"name: {value}\ndescription: What it does.\n")


LAUGHS = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 12))
NOT_YAML = "the frontmatter is not YAML"

CASES = [
    # valid
    case("plain", front(HEAD), "yy"),
    case("every-field", more("license: MIT\ncompatibility: any\nmetadata:\n  a: b\nallowed-tools: Read\n"), "yy"),
    case("crlf", front(HEAD).replace("\n", "\r\n"), "yy"),
    case("no-body", "---\n" + HEAD + "---", "yy"),
    case("comment", front("# a comment\n" + HEAD), "yy"),
    case("folded", about(">\n  one\n  two"), "yy"),
    case("literal", about("|\n  one\n  two"), "yy"),
    case("two-lines", about("one\n  two"), "yy"),
    case("quoted", about("'it''s: quoted'"), "yy"),
    case("emoji", about("\U0001f600 smile"), "yy"),
    case("indented", front("  name: sk\n  description: d\n"), "yy"),
    case("trailing-blanks", "--- \n" + HEAD + "---  \nx", "yy"),
    case("quoted-key", front('"name": sk\ndescription: d\n'), "yy"),
    case("next-line", about("a\x85b"), "yy"),
    case("exactly-1024", about("x" * 1024), "yy"),
    case("nested-metadata", more("metadata:\n  a:\n      b: c\n"), "yy"),
    case("dashes-inside", about("a --- b"), "yy"),
    case("large-body", front(HEAD, "x" * 300_000), "yy"),
    case("rule-in-body", front(HEAD, "a\n\n---\n\nb"), "yy"),
    case("tools-text", more("allowed-tools: Bash(git:*) Read, Write\n"), "yy"),
    case("tools-list", more("allowed-tools:\n- Read\n- Write\n"), "yy"),
    # YAML's traps: what looks like a boolean, a number or a date is what was written
    case("trap-on", about("on"), "yy"),
    case("trap-date", about("2024-01-01"), "yy"),
    case("trap-number", about("0012"), "yy"),
    case("trap-sexagesimal", about("12:30:45"), "yy"),
    case("trap-norway", more("license: no\n"), "yy"),
    case("trap-name-on", called("on"), "ny", "2: name 'on' differs from the folder's, 'sk'", name="on"),
    case("trap-name-number", called("123"), "ny", "2: differs from the folder's", name="123"),
    case(
        "trap-name-float", called("1.10"), "ny", "2: characters other than", "2: differs from the folder's", name="1.10"
    ),
    case("trap-null", about("~"), "yn", "3: there is no description"),
    case("trap-null-license", more("license: null\n"), "yy"),
    # odd: loaded, and said
    case("unknown-field", more("model: x\n"), "ny", "4: unknown field 'model'"),
    case("old-fields", more("version: 1.0\nauthor: a\ntags:\n- b\n- c\n"), "ny"),
    case("two-unknown", more("model: x\nhooks: y\n"), "ny", "4: unknown field 'model'", "5: unknown field 'hooks'"),
    case("other-name", called("other"), "ny", "2: name 'other' differs from the folder's, 'sk'", name="other"),
    case("upper-case", called("SK"), "ny", "2: name 'SK' is not lower-case", "2: differs from the folder's", name="SK"),
    case("underscore", called("s_k"), "ny", "2: characters other than letters", "2: differs", name="s_k"),
    case("hyphen-first", called("-sk"), "ny", "2: begins or ends with a hyphen", "2: differs", name="-sk"),
    case("two-hyphens", called("s--k"), "ny", "2: two hyphens in a row", "2: differs", name="s--k"),
    case("long-name", called("x" * 65), "ny", "2: 65 characters", "2: differs", name="x" * 63 + "…"),
    case("no-name", front("description: d\n"), "ny", "2: there is no name; the folder's is used"),
    case("list-name", front("name: [a]\ndescription: d\n"), "ny", "2: the name is not text; the folder's is used"),
    case("long-description", about("x" * 1025), "ny", "3: description has 1025 characters, the standard allows 1024"),
    case("long-compatibility", more(f"compatibility: {'x' * 501}\n"), "ny", "4: compatibility has 501 characters"),
    case("bom", b"\xef\xbb\xbf" + front(HEAD).encode(), "ny", "1: a byte order mark"),
    case("blank-first", "\n\n" + front(HEAD), "ny", "1: blank lines before the frontmatter"),
    case("flow-list", more("allowed-tools: [Read, 'Bash(git:*)']\n"), "ny"),
    case("flow-map", more("metadata: {a: b}\n"), "ny"),
    case("flow-license", more("license: [MIT]\n"), "ny", "4: license is not text; ignored"),
    case("anchor", more("license: &a MIT\ncompatibility: *a\n"), "ny"),
    case("tag", more("license: !!str MIT\n"), "ny", "4: license uses a tag"),
    case("python-tag", more("license: !!python/object/apply:os.system ['true']\n"), "ny", "4: tag", "4: not text"),
    case("duplicate-key", more("description: Again.\n"), "ny", "4: description is given twice; the last one counts"),
    case("merge-key", more("<<: x\n"), "ny", "4: merge key"),
    case("colon", about("Use it when: always"), "ny", "3: a value with ': ' needs quotes"),
    case("tab-separator", front("name:\tsk\ndescription: d\n"), "ny"),
    case("same-line", "---name: sk\ndescription: d\n---\nx", "yy"),
    case("metadata-text", more("metadata: abc\n"), "yy", "4: metadata is not a mapping"),
    case("metadata-list", more("metadata:\n  - a: 1\n"), "yy", "4: metadata is not a mapping"),
    case("tools-map", more("allowed-tools:\n  Read: yes\n"), "yy", "4: allowed-tools is a mapping"),
    case("tools-open", more("allowed-tools: Bash(git\n"), "yy", "4: an unclosed bracket"),
    case("tools-nested", more("allowed-tools:\n  - Read\n  - a: b\n"), "yy", "4: entries that are not text"),
    case("bad-byte-in-body", front(HEAD).encode() + b"\xff\xfe", "ny"),
    # refused
    case("empty", "", "nn", "1: no frontmatter"),
    case("only-text", "Just text.", "nn", "1: no frontmatter"),
    case("only-dashes", "---\n---\n", "nn", "2: the frontmatter is empty"),
    case("not-closed", "---\n" + HEAD, "nn", "1: the frontmatter is not closed"),
    case("four-dashes", "----\n" + HEAD + "---\n", "nn", f"2: {NOT_YAML}"),
    case("no-description", front("name: sk\n"), "nn", "2: there is no description"),
    case("empty-description", about(""), "nn", "3: there is no description"),
    case("blank-description", about("'  '"), "nn", "3: the description is not text"),
    case("list-description", about("\n  - d"), "nn", "3: the description is not text"),
    case("open-quote", about('"never closed'), "nn", f"3: {NOT_YAML}: found unexpected end of stream"),
    case("tab-indent", front("name: sk\n\tdescription: d\n"), "nn", f"3: {NOT_YAML}: found a tab character"),
    case("bad-indent", front("name: sk\n description: d\n"), "nn", f"3: {NOT_YAML}"),
    case("list-on-top", front("- a\n- b\n"), "nn", "4: the frontmatter is a list"),
    case("text-on-top", front("abc\n"), "nn", "2: the frontmatter is text"),
    case("two-documents", more("...\nname: x\n"), "nn", f"5: {NOT_YAML}"),
    case("undefined-alias", about("*nothing"), "nn", "3: the alias *nothing is undefined"),
    case("self-alias", more("metadata: &a [*a]\n"), "nn", "4: the alias *a is undefined, or refers to itself"),
    case("key-is-list", more("? [a, b]\n: x\n"), "nn", "4: a key of the frontmatter is a list"),
    case("reserved", about("@home"), "nn", f"3: {NOT_YAML}"),
    case("backtick", about("`x`"), "nn", f"3: {NOT_YAML}"),
    case("billion-laughs", more(f"metadata:\n  l0: &l0 lol\n{LAUGHS}"), "nn", "9: more than 2000 values"),
    case("too-many-values", more("metadata:\n" + "".join(f"  k{n}: v\n" for n in range(2100))), "yn", "more than 2000"),
    case("too-deep", more("metadata: " + "[" * 900 + "]" * 900 + "\n"), "nn", "4: nested more than 20 deep"),
    case("unclosed-brackets", more("metadata: " + "[" * 5000 + "\n"), "nn", "nested more than 20 deep"),
    case("endless-head", "---\n" + HEAD + "x: y\n" * 20_000, "nn", "1: no end of the frontmatter in the first 65,536"),
    case("control", about("a\x07b"), "nn", f"3: {NOT_YAML}: a control character"),
    case("nul", about("a\0b"), "nn", f"3: {NOT_YAML}: a control character"),
    case("utf-16", front(HEAD).encode("utf-16"), "nn", "1: the file is not UTF-8"),
    case("latin-1", about("café").encode("latin-1"), "nn", "3: the file is not UTF-8"),
    case("binary", bytes(range(256)) * 20, "nn", "the file is not UTF-8"),
    case("pem", "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n", "nn", "1: is text, not fields"),
]
BY_BOUND = {"too-many-values"}
"""The reference validator accepts these, because it has no limit there."""


def build(tmp_path: Path, case: Case) -> Path:
    folder = tmp_path / case.id / "sk"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(case.content)
    return folder


def test_the_corpus_is_as_large_as_it_should_be() -> None:
    assert len({case.id for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_lenient(case: Case, tmp_path: Path) -> None:
    folder = build(tmp_path, case)
    found = discover_skills([tmp_path])
    assert [skill["name"] for skill in found] == ([case.name] if case.lenient else [])
    problems = check_skills([tmp_path])
    assert [problem.fatal for problem in problems] == [False] * len(case.said) if case.lenient else [True]
    for problem, said in zip(problems, case.said, strict=True):
        line, colon, text = said.partition(": ")
        shown = str(problem)
        assert re.match(re.escape(f"{folder / 'SKILL.md'}:") + r"\d+: ", shown)
        assert "\n" not in shown
        assert len(shown) < len(str(folder)) + 400
        assert (text if colon and line.isdigit() else said) in shown
        if line.isdigit():
            assert problem.line == int(line)
    if case.lenient and case.id != "large-body":
        assert "name:" not in load_skill_instructions(folder)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_strict(case: Case, tmp_path: Path) -> None:
    build(tmp_path, case)
    fatal = [problem for problem in check_skills([tmp_path], strict=True) if problem.fatal]
    expected = case.strict and case.id not in BY_BOUND
    assert (not fatal) is (expected or case.id == "bad-byte-in-body"), fatal
    assert all(problem.line >= 1 for problem in fatal)


@pytest.mark.slow
@pytest.mark.parametrize("case", sample(CASES, *CASES[::4]), ids=lambda case: case.id)
def test_the_reference_validator_says_the_same(case: Case, tmp_path: Path) -> None:
    folder = build(tmp_path, case)
    try:
        verdict = not validator.validate(folder)
    except Exception:
        verdict = False  # it crashes on control characters and on text that is not UTF-8
    assert verdict is case.strict


WRITTEN = {"trap-on": "on", "trap-date": "2024-01-01", "trap-number": "0012", "trap-sexagesimal": "12:30:45"}


@pytest.mark.parametrize("id", WRITTEN)
def test_a_scalar_is_what_its_author_wrote(id: str) -> None:
    (found,) = [case for case in CASES if case.id == id]
    assert read_record(found.content, "sk", strict=False).description == WRITTEN[id]


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Read Write", ("Read", "Write")),
        ("Read, Write", ("Read", "Write")),
        ("Bash(git:*) Read", ("Bash(git:*)", "Read")),
        ("Bash(git add:*, git commit:*),Read", ("Bash(git add:*, git commit:*)", "Read")),
        ("\n- Read\n- Bash(ls *)", ("Read", "Bash(ls *)")),
        ("[Read, 'Bash(git:*)']", ("Read", "Bash(git:*)")),
        ("\n- Read, Write\n- Read", ("Read", "Write")),
        ("mcp__server__tool", ("mcp__server__tool",)),
        ("", ()),
        ("'  '", ()),
    ],
)
def test_allowed_tools_in_every_form(written: str, tools: tuple[str, ...]) -> None:
    record = read_record(more(f"allowed-tools: {written}\n").encode(), "sk", strict=False)
    assert record.allowed_tools == tools


FRAGMENTS = st.sampled_from(
    [
        *("name: sk", "description: d", "description: a: b", "metadata:", "  a: 1", "- x", "? y", "a: &a b", "c: *a"),
        *(
            "---",
            "...",
            "\t",
            "{",
            "]",
            "'",
            '"',
            "|",
            ">",
            "!!x",
            "%",
            "\x00",
            "\x85",
            "\ufeff",
            "<<: x",
            "k: [a",
            "é",
        ),
    ]
)


@settings(max_examples=examples(300))
@given(st.one_of(st.binary(max_size=200), st.lists(FRAGMENTS, max_size=8).map("\n".join).map(str.encode)))
def test_no_bytes_crash_it_and_every_refusal_has_a_line(data: bytes) -> None:
    for content in (data, b"---\n" + data + b"\n---\nbody", b"---\n" + HEAD.encode() + data + b"\n---\n"):
        for strict in (False, True):
            record = read_record(content, "sk", strict=strict)
            assert isinstance(record, Record)
            assert bool(record.name) is not any(fatal for _, _, fatal in record.remarks)
            assert all(1 <= line <= content.count(b"\n") + content.count(b"\r") + 2 for line, _, _ in record.remarks)


def test_fields_are_given_as_they_are_written() -> None:
    fields, body = parse_skill_md(more("tags: [one, two]\nmetadata:\n  v: 1.10\n  n:\n"))
    assert fields["tags"] == ["one", "two"]
    assert fields["metadata"] == {"v": "1.10", "n": None}
    assert body == "Body."
    assert parse_skill_md("No frontmatter.") == ({}, "No frontmatter.")
    with pytest.raises(ValueError, match="line 3: the frontmatter is not YAML"):
        parse_skill_md(about('"x'))
