"""What a map shows: the definitions that others use, what the focus asks for, and what is not in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deep_backends import local_backend
from deep_repo_map import create_repo_map_toolset
from deep_repo_map.languages import LANGUAGES, language_of
from deep_repo_map.parsing import Parsing
from deep_repo_map.slot import Memory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.workspaces import Workspace

from .conftest import Draw, in_memory

pytestmark = pytest.mark.anyio

INVOICE = """\
from .prices import total_of


class Invoice:
    def write_out(self):
        return total_of([])
"""
REPORT = """\
from .invoice import Invoice
from .prices import total_of


def report():
    return Invoice(), total_of([1])
"""
SHOP = {
    "shop/prices.py": "RATE = 7\n\n\ndef total_of(prices):\n    return sum(prices)\n\n\ndef unused_here():\n    pass\n",
    "shop/invoice.py": INVOICE,
    "shop/report.py": REPORT,
    "README.md": "# Shop\n",
}


async def test_a_map_has_files_definitions_and_their_lines(draw: Draw) -> None:
    assert (await draw(SHOP)).splitlines() == [
        "4 files: 3 Python, 1 others. shop/ 3",
        "shop/prices.py",
        " 1: RATE = 7",
        " 4: def total_of(prices):",
        " 8: def unused_here():",
        "shop/invoice.py",
        " 4: class Invoice:",
        " 5: def write_out(self):",
        "shop/report.py",
        " 5: def report():",
        "README.md",
    ]


async def test_what_is_used_comes_before_what_is_not(draw: Draw) -> None:
    text = await draw(SHOP, tokens=40)
    assert "def total_of(prices):" in text
    assert "unused_here" not in text
    assert re.search(r"\[Not shown: \d files and \d definitions\]$", text)


@pytest.mark.parametrize(
    "focus", ["unused_here", "UNUSED_HERE", "unused", "here unused", "shop/prices.py", "prices.py"]
)
async def test_what_the_focus_asks_for_comes_first(draw: Draw, focus: str) -> None:
    others = {f"shop/other{number}.py": "def total_of_all(): pass\n" * 5 for number in range(20)}
    text = await draw(SHOP | others, focus=[focus], tokens=80)
    first = next(line for line in text.splitlines() if line.startswith("shop/"))
    assert first == "shop/prices.py"


async def test_the_users_of_a_name_are_listed(draw: Draw) -> None:
    text = await draw(SHOP, focus=["total_of", "no_such_name"])
    assert "total_of is used in shop/invoice.py, shop/report.py" in text.splitlines()
    assert "no_such_name" not in text
    many = {f"user{number}.py": "total_of()\n" for number in range(300)}
    line = next(line for line in (await draw(SHOP | many, focus=["total_of"])).splitlines() if " is used in " in line)
    assert line.count(".py") + int(re.findall(r" and (\d+) more$", line)[0]) == 302


async def test_names_in_strings_and_comments_are_no_uses(draw: Draw) -> None:
    files = {"a.py": "def find_me(): pass\n", "b.py": "# find_me\nx = 'find_me'\n", "c.py": "find_me()\n"}
    assert "find_me is used in c.py" in (await draw(files, focus=["find_me"])).splitlines()


async def test_a_path_limits_the_map(draw: Draw) -> None:
    assert "README" not in await draw(SHOP, "shop")
    assert (await draw(SHOP, "shop/invoice.py")).splitlines()[1:] == [
        "shop/invoice.py",
        " 4: class Invoice:",
        " 5: def write_out(self):",
    ]
    assert await draw(SHOP, "/") == await draw(SHOP)
    assert await draw(SHOP, "/shop") == await draw(SHOP, "shop/")
    for wrong in ("nowhere", "../..", "sho"):
        with pytest.raises(ToolFailed, match="no files here"):
            await draw(SHOP, wrong)


CODE: Mapping[str, tuple[str, set[str]]] = {
    "a.py": ("class A:\n    def b(self):\n        def local(): pass\n\nC = {\n}\n", {"A 1", "b 2", "C 5"}),
    "a.ts": ("interface A { b(): void }\nexport const c = () => { const local = 1 }\n", {"A 1", "c 2"}),
    "a.js": ("function a() {\n function local() {}\n}\nclass B {\n c() {}\n}\n", {"a 1", "B 4", "c 5"}),
    "a.tsx": ("const A = () => <b/>\n", {"A 1"}),
    "a.go": ("package p\nfunc (t *T) A() {\n type local int\n}\ntype B struct{}\nconst C = 1\n", {"A 2", "B 5", "C 6"}),
    "a.rs": ("mod a {\n pub fn b() { fn local() {} }\n}\nstruct C;\n", {"a 1", "b 2", "C 4"}),
    "a.java": ("class A {\n  int b(int x,\n    int y) { class local {} }\n}\n", {"A 1", "b 2"}),
    "a.c": (
        "#define A 1\nstatic int *b(void)\n{\n int local(int);\n}\ntypedef struct { int x; } C;\n",
        {"A 1", "b 2", "C 6"},
    ),
    "a.cpp": ("namespace a {\nclass B { int c(); };\n}\nint a::B::c() { return 0; }\n", {"a 1", "B 2", "c 2", "c 4"}),
    "a.rb": ("module A\n class B\n  def c?\n   def local; end\n  end\n end\nend\n", {"A 1", "B 2", "c? 3"}),
    "a.cs": ("class A {\n int B { get; }\n void C() { void local() {} }\n}\n", {"A 1", "B 2", "C 3"}),
    "a.php": ("<?php\nclass A {\n function b() {}\n}\nfunction c() {}\n", {"A 2", "b 3", "c 5"}),
}


async def test_every_language_has_its_definitions_and_no_local_ones() -> None:
    assert {language_of(path) for path in CODE} == LANGUAGES.keys()
    async with Parsing() as parsing:
        for path, (source, expected) in CODE.items():
            parsed = await parsing.parse(str(language_of(path)), source.encode())
            assert parsed is not None
            assert {f"{each.name} {each.line}" for each in parsed.defined} == expected, path


def lines_of(text: str) -> list[tuple[str, int, str]]:
    """(path, line, signature) of every definition in a map."""
    found: list[tuple[str, int, str]] = []
    path = ""
    for line in text.splitlines():
        if match := re.fullmatch(r" (\d+): (.*)", line):
            found.append((path, int(match[1]), match[2]))
        else:
            path = line
    return found


@pytest.mark.parametrize("package", ["anyio", "click"])
async def test_every_line_of_a_real_package_is_where_the_map_says(draw: Draw, package: str) -> None:
    root = Path(__import__(package).__file__).parent
    text = await draw(Workspace(local_backend(root)), tokens=3_000)
    shown = lines_of(text)
    assert len(shown) > 50
    for path, number, signature in shown:
        line = (root / path).read_text("utf-8").split("\n")[number - 1]
        first = re.split(r"[(\[]", signature)[0].rstrip("…")
        assert " ".join(line.split()).startswith(first)


NAMES = st.sampled_from(["alpha", "beta_two", "Gamma", "delta", "Epsilon_5"])
SOURCES = st.lists(
    st.one_of(
        NAMES.map(lambda name: f"def {name}(): pass"),
        NAMES.map(lambda name: f"class {name}:\n    x = 1"),
        NAMES.map(lambda name: f"{name}()"),
        st.sampled_from(["def broken(:", "'''", "x = (", "\t\x0c", "é = '\u202e'"]),
    ),
    max_size=12,
).map("\n".join)
PATHS = st.sampled_from(
    ["a.py", "b.py", "dir/c.py", "dir/deep/d.py", "e.txt", "dir/é\u202e.py", "dir/tab\tand\nline.py"]
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(PATHS, SOURCES, min_size=1),
    focus=st.lists(st.one_of(NAMES, st.text(max_size=10)), max_size=3),
    tokens=st.integers(-5, 300),
)
async def test_no_map_is_over_its_tokens_and_each_is_the_same_again(
    draw: Draw, files: dict[str, str], focus: list[str], tokens: int
) -> None:
    text = await draw(files, focus=focus, tokens=tokens)
    assert len(text) <= max(1, tokens) * 4
    assert await draw(dict(reversed(files.items())), focus=focus, tokens=tokens) == text
    if tokens < 100:  # the head may be cut
        return
    for path, number, signature in lines_of(text):
        plain = path.replace("\\u202e", "\u202e").replace("\\x09", "\t").replace("\\x0a", "\n")
        line = files[plain].split("\n")[number - 1]
        assert " ".join(line.split()).replace("\u202e", "\\u202e").startswith(signature)


async def test_the_second_map_parses_nothing_again(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    workspace = await in_memory(SHOP)
    parsed: list[bytes] = []
    ours = Parsing.parse

    async def counted(self: Parsing, language: str, source: bytes) -> Any:
        parsed.append(source)
        return await ours(self, language, source)

    monkeypatch.setattr(Parsing, "parse", counted)
    first = await draw(workspace, memory=memory)
    assert len(parsed) == 3
    assert await draw(workspace, memory=memory) == first
    assert len(parsed) == 3
    await workspace.write_text("shop/report.py", "def other(): pass\n")
    assert " 1: def other():" in await draw(workspace, memory=memory)
    assert parsed[3:] == [b"def other(): pass\n"]


async def test_what_git_ignores_is_not_in_a_map(draw: Draw, tmp_path: Path) -> None:
    for name in ("kept.py", "left.py"):
        (tmp_path / name).write_text(f"def {name[:4]}_function(): pass\n")
    (tmp_path / ".gitignore").write_text("left.py\n")
    text = await draw(Workspace(local_backend(tmp_path)))
    assert "kept_function" in text
    assert "left" not in text


def test_the_tool_is_terse() -> None:
    (tool,) = create_repo_map_toolset().tools.values()
    made = tool.tool_def
    assert made.metadata == {"tags": ["read"]}
    parts = {"name": made.name, "description": made.description, "parameters": made.parameters_json_schema}
    assert len(json.dumps(parts, separators=(",", ":"))) <= 400
