"""Frontmatter of strangers: every reader is bounded, whatever the file holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deep_folders.claude_plugin import read_claude_plugin
from deep_skills import BadSkill, discover_skills, parse_skill_md, read_frontmatter


def _bomb(levels: int, width: int, kind: str) -> str:
    """Aliases that multiply: `width ** levels` values."""
    opened, closed = ("[", "]") if kind == "list" else ("{", "}")

    def items(of: str) -> str:
        return ",".join(of if kind == "list" else f"k{n}: {of}" for n in range(width))

    lines = [f"a0: &a0 {opened}{items('x')}{closed}"]
    lines += [f"a{n}: &a{n} {opened}{items(f'*a{n - 1} ')}{closed}" for n in range(1, levels)]
    return "\n".join([*lines, f"last: *a{levels - 1}"])


PAYLOADS: dict[str, str] = {
    "a list bomb": _bomb(11, 9, "list"),
    "a mapping bomb": _bomb(11, 9, "mapping"),
    "a wide bomb": _bomb(3, 60, "list"),
    "a bomb in tools": f"{_bomb(11, 9, 'list')}\ntools: [*a10]",
    "a bomb in a description": f"{_bomb(11, 9, 'list')}\ndescription: *a10",
    "a merge bomb": "a: &a {x: 1}\n" + "\n".join(f"b{n}: &b{n} {{<<: *a, y{n}: 1}}" for n in range(3_000)),
    "deep lists": "x: " + "[" * 5_000 + "]" * 5_000,
    "deep mappings": "x: " + "{a: " * 5_000 + "1" + "}" * 5_000,
    "deep blocks": "\n".join("  " * n + "k:" for n in range(500)),
    "many keys": "\n".join(f"k{n}: v" for n in range(10_000)),
    "a long line": "description: " + "x" * 300_000,
    "a long block": "description: |\n" + "  line\n" * 50_000,
    "an anchor in itself": "x: &x [*x]",
    "an unknown alias": "x: *nothing",
    "a tag of Python": "x: !!python/object/apply:os.system ['touch ran']",
    "two documents": "x: 1\n--- \ny: 2",
    "a key that is a list": "? [a, b]\n: 1",
    "tabs": "x:\t1\n\ty: 2",
    "no YAML": 'description: Use it when asked. user: "x": y: [',
    "no YAML and a bomb": f"{_bomb(11, 9, 'list')}\ndescription: a: b: [",
    "control characters": "description: a\x00b\x1b[2J",
    "half surrogates": "description: \ud800",
}


def _skill(text: str, folder: Path) -> object:
    (folder / "evil").mkdir()
    (folder / "evil" / "SKILL.md").write_text(text, encoding="utf-8", errors="surrogatepass")
    return discover_skills([str(folder)])


def _agent(text: str, folder: Path) -> object:
    (folder / "agents").mkdir()
    (folder / "agents" / "evil.md").write_text(text, encoding="utf-8", errors="surrogatepass")
    return read_claude_plugin(folder.resolve(), folder / "data", "x")


def _command(text: str, folder: Path) -> object:
    (folder / "commands").mkdir()
    (folder / "commands" / "evil.md").write_text(text, encoding="utf-8", errors="surrogatepass")
    return read_claude_plugin(folder.resolve(), folder / "data", "x")


def _given(text: str, folder: Path) -> object:
    try:
        return parse_skill_md(text)
    except BadSkill as error:
        return error


def _read(text: str, folder: Path) -> object:
    try:
        return read_frontmatter(text)
    except BadSkill as error:
        return error


READERS: dict[str, Callable[[str, Path], object]] = {
    "skills": _skill,
    "agents of folders": _agent,
    "commands of folders": _command,
    "parse_skill_md": _given,
    "read_frontmatter": _read,
}
SECONDS = 20
"""Much more than any takes, much less than a bomb."""


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_ends_soon_and_makes_no_large_value(reader: str, payload: str, tmp_path: Path) -> None:
    text = f"---\nname: evil\n{PAYLOADS[payload]}\n---\nBody.\n"
    began = time.process_time()
    found = READERS[reader](text, tmp_path)
    assert time.process_time() - began < SECONDS
    assert len(repr(found)) < 2_000_000
    assert not (tmp_path / "ran").exists()


def test_what_is_beyond_the_limits_is_said(tmp_path: Path) -> None:
    folder = _agent(f"---\nname: evil\ndescription: x\n{PAYLOADS['a list bomb']}\n---\nBody.\n", tmp_path)
    assert [(note.kind, note.what) for note in getattr(folder, "notes", ())] == [("invalid", "agents/evil.md")]
    assert not getattr(folder, "agents", ())
