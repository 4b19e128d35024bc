"""The documentation is true: pages match the hooks, every block runs, commands and links exist."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, get_args

import click
import pytest
import pytest_deep
from pydantic.fields import FieldInfo
from pydantic_ai.models.test import TestModel

import deep_core
from deep_core import AgentConfig, Kernel, create_default_deps
from deep_core.agent.config import Narrows
from deep_core.plugins import hookspecs
from deep_core.plugins.config import LISTS
from deep_core.plugins.index import Status
from deep_core.plugins.settings import SETTINGS
from tests import another_process
from tests.docs_pages import (
    ROOT,
    blocks,
    brought_by_everything,
    expected,
    generator,
    pages,
    readers_environment,
    turns,
    undefined,
)
from tests.drawn import sample
from tests.import_graph import edges, read
from tests.plugins_by_hand import Tools, agent_of, pending, plugin, run, scripted
from tests.stubs import AnthropicStub, Call, Script

DOCS = ROOT / "docs"
REFERENCE = sorted((DOCS / "reference").glob("*.md"))
SPECS = {
    name: function
    for name, function in vars(hookspecs).items()
    if inspect.isfunction(function) and hasattr(function, "deep_policy")
}
PROGRAMS = {
    ".",
    "deep",
    "pip",
    "python",
    "make",
    "cd",
    "export",
    "cat",
    "echo",
    "git",
    "uv",
    "pytest",
    "ls",
    "mv",
    "sed",
    "ruff",
    "uvicorn",
}
"""What a console block may start a line with."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def with_blocks(language: str) -> list[Path]:
    """The pages that have blocks in this language. Hook pages are run by tests/plugins/test_hookspecs.py."""
    return [
        page
        for page in pages()
        if page.parent.name != "hooks" and any(block.language == language for block in blocks(page))
    ]


FIRST_READ = ("first-plugin", "getting-started", "index")
PYTHON = sample(with_blocks("python"), ROOT / "README.md", *(DOCS / f"{name}.md" for name in FIRST_READ))
CONSOLE = with_blocks("console")
TYPED = sample(CONSOLE, *(page for page in CONSOLE if page.name != "testing-plugins.md"))  # starts pytest in pytest


# -- hooks ---------------------------------------------------------------------------------------------------------


def test_every_hook_has_a_page_and_every_page_a_hook() -> None:
    found = {page.stem for page in (DOCS / "hooks").glob("*.md")} - {"index"}
    assert found == set(SPECS)


@pytest.mark.parametrize("hook", SPECS)
def test_a_hooks_page_names_its_arguments(hook: str) -> None:
    heading = (DOCS / "hooks" / f"{hook}.md").read_text(encoding="utf-8").splitlines()[0]
    assert heading == f"# {hook}({', '.join(inspect.signature(SPECS[hook]).parameters)})"


@pytest.mark.parametrize("where", ["mkdocs.yml", "docs/hooks/index.md"])
def test_every_hook_is_listed_once(where: str) -> None:
    text = (ROOT / where).read_text(encoding="utf-8")
    listed = re.findall(r"\b(deep_[a-z_]+)\.md", text)
    assert sorted(listed) == sorted(SPECS)


@pytest.mark.parametrize("page", [page for page in pages() if page.parent.name != "hooks"], ids=name_of)
def test_hooks_that_pages_show_being_implemented_exist(page: Path) -> None:
    implemented = [
        name
        for block in blocks(page)
        if block.language == "python"
        for name in re.findall(r"@hookimpl(?:\([^)]*\))?\s+(?:async )?def (\w+)(?!.*# misspelled)", block.code)
    ]
    declared = [page, *ROOT.glob("plugins/*/src/*/hookspecs.py")]
    own = [name for file in declared for name in re.findall(r"@hookspec\([^)]*\)\s+def (\w+)", file.read_text("utf-8"))]
    assert set(implemented) <= {*SPECS, *own}


@pytest.mark.parametrize("module", [deep_core, pytest_deep], ids=lambda module: module.__name__)
def test_the_reference_documents_every_public_name(module: ModuleType) -> None:
    found = re.findall(r"^::: ([\w.]+)$", "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE), re.M)
    assert len(found) == len(set(found))
    assert {path.rpartition(".")[2] for path in found} >= set(module.__all__)


@pytest.mark.slow
def test_generated_pages_are_up_to_date() -> None:
    result = another_process.run(DOCS / "generate.py", "--check")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.exhaustive
def test_check_tells_of_a_page_that_was_edited_by_hand_and_of_one_without_a_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = generator()
    monkeypatch.setattr(module, "DOCS", tmp_path / "docs")
    (tmp_path / "docs" / "decisions").mkdir(parents=True)
    assert module.main([]) == 0
    assert module.main(["--check"]) == 0
    page = tmp_path / "docs" / "hooks" / "deep_state.md"
    page.write_text(page.read_text(encoding="utf-8").replace("Slots", "Places"), encoding="utf-8")
    (tmp_path / "docs" / "hooks" / "deep_gone.md").write_text("# deep_gone()\n", encoding="utf-8")
    assert module.main(["--check"]) == 1
    told = capsys.readouterr().out
    assert "-Places of session state" in told
    assert "deep_gone.md: no hook has this name" in told
    assert "python docs/generate.py" in told
    assert module.main([]) == 0
    assert module.main(["--check"]) == 0
    assert not (tmp_path / "docs" / "hooks" / "deep_gone.md").exists()


def test_the_committed_schema_is_the_models() -> None:
    committed = json.loads((DOCS / "reference" / "config-schema.json").read_text(encoding="utf-8"))
    assert committed == AgentConfig.model_json_schema()


# -- words ----------------------------------------------------------------------------------------------------------

WORDS = 60_000
"""More is neither read nor kept true."""


def test_the_documentation_is_no_longer_than_a_reader_can_bear(record_property: Callable[[str, object], None]) -> None:
    counts = generator().written_words()
    total = sum(counts.values())
    record_property("words", total)
    print(f"{total:,} words of documentation, of {WORDS:,}; python docs/generate.py --words lists the pages")
    assert total <= WORDS


# -- blocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PYTHON, ids=name_of)
def test_every_python_block_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    script = Script.from_json(json.dumps(turns(page)))
    work = tmp_path / "work"
    work.mkdir()
    with AnthropicStub(script) as stub:
        environment = readers_environment(tmp_path)
        environment |= {"ANTHROPIC_API_KEY": "x", "ANTHROPIC_BASE_URL": stub.base_url}
        result = another_process.run(ROOT / "tests" / "docs_pages.py", page, cwd=work, env=environment)
        assert result.returncode == 0, result.stderr[-4000:]
        assert stub.player.left == 0, f"{stub.player.left} scripted turns were never asked for"
    if said := expected(page):  # a page that shows no output at all is not held to any
        assert_prints(result.stdout.splitlines(), said)


def test_a_block_that_is_copied_alone_has_every_name_that_it_uses() -> None:
    missing = {
        page.name: {f"line {block.line}": names}
        for page in pages()
        for block in blocks(page)
        if block.language == "python" and (names := undefined(block.code))
    }
    assert not missing, "define or import these names in the block, or give the block that defines them a title"


def assert_prints(printed: list[str], said: list[str]) -> None:
    """Line by line; `…` in what a page says stands for anything."""
    for number, line in enumerate(said):
        pattern = ".*".join(re.escape(part) for part in line.split("…"))
        got = printed[number].strip() if number < len(printed) else "nothing"
        assert re.fullmatch(pattern, got), f"the page says {line!r}, printed was {got!r}"
    assert len(printed) == len(said), f"printed, but not on the page: {printed[len(said) :]}"


@pytest.mark.parametrize("page", with_blocks("toml"), ids=name_of)
def test_every_toml_block_is_a_configuration_that_is_accepted(page: Path) -> None:
    from deep_core.agent.config import read_agent_config
    from deep_core.names import NAME
    from deep_core.plugins.config import Config, ConfigLayer

    for block in blocks(page):
        if block.language != "toml":
            continue
        data: dict[str, Any] = tomllib.loads(block.code)
        data = data.get("tool", {}).get("deep", data)
        where = f"{page.name}:{block.line}"
        if "project" in data:
            groups: dict[str, dict[str, str]] = data["project"]["entry-points"]
            assert set(groups) <= {"deep", "deep.commands"}, where
            assert all(NAME.fullmatch(name) for group in groups.values() for name in group), where
            continue
        config = Config((ConfigLayer(where, data),))
        read_agent_config(config)
        for name in config.plugin_names():
            config.plugin(name)
        for name in ("allow", "disable", "require"):
            config.plugin_list(name)


@pytest.mark.slow
@pytest.mark.parametrize("page", TYPED, ids=name_of)
def test_every_console_line_is_a_command_that_exists(page: Path) -> None:
    for block in blocks(page):
        if block.language != "console":
            continue
        lines = [line for line in block.code.splitlines() if line.strip() and not line.startswith("#")]
        # With prompts, the other lines are output.
        commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")] or lines
        for command in commands:
            words = shlex.split(command, comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            assert words[0] in PROGRAMS, f"{page.name}:{block.line}: {command}"
            if words[0] == "deep":
                check_deep(words[1:], f"{page.name}:{block.line}: {command}")
            elif words[0] == "make":
                makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
                for target in words[1:]:
                    assert re.search(rf"^{target}:", makefile, re.M), f"{page.name}:{block.line}: {command}"


def command_line() -> click.Group:
    """The click group behind `deep`."""
    if importlib.util.find_spec("deep_cli") is None:
        pytest.skip("deep-cli is not installed: pip install -e plugins/cli")
    from deep_cli.main import deep

    return deep


def check_deep(words: list[str], where: str) -> None:
    """Every subcommand and option of a `deep` line is known to the command line."""
    command: click.Command = command_line()
    context = click.Context(command, info_name="deep")
    rest = words
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        assert found is not None, f"{where}: deep has no command {rest[0]!r}"
        command, rest = found, rest[1:]
        context = click.Context(command, parent=context)
    if ">" in rest:
        rest = rest[: rest.index(">")]
    try:
        command.make_parser(context).parse_args(list(rest))
    except click.UsageError as error:
        pytest.fail(f"{where}: {error.format_message()}")


def test_the_page_of_commands_is_made_of_the_command_line() -> None:
    command_line()
    module = generator()
    found = module.commands()
    assert {"deep run", "deep plugins list", "deep mcp serve"} <= set(found)
    page = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    assert page == module.commands_page(found), "run: python docs/generate.py"


def test_the_command_line_page_says_what_every_command_is_for() -> None:
    command_line()
    lines = (DOCS / "command-line.md").read_text(encoding="utf-8").splitlines()
    rows = [set(re.findall(r"[a-z-]+", " ".join(re.findall(r"`([^`]+)`", line)))) for line in lines]
    missing = [name for name in generator().commands() if not any(set(name.split()) <= row for row in rows)]
    assert missing == []


# -- tables that repeat what code says --------------------------------------------------------------------------------


def first_column(page: str, heading: str, level: str = "##") -> set[str]:
    """The names in code style in the first column of the tables below a heading."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = re.split(rf"^{level} {re.escape(heading)}$", text, flags=re.M)[1]
    section = re.split(r"^##+ ", section, maxsplit=1, flags=re.M)[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.M)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_status_of_a_plugin_is_explained() -> None:
    assert first_column("how-plugins-work.md", "Statuses") == set(get_args(Status))


def test_every_check_and_setting_of_the_conformance_suite_is_explained() -> None:
    suite = pytest_deep.PluginConformance  # the reference is made from its docstrings
    tests = {name: test for name, test in vars(suite).items() if name.startswith("test_")}
    assert all(inspect.getdoc(test) for test in tests.values()), tests
    settings = {name for name in suite.__annotations__ if not name.startswith("_")}
    listed = (inspect.getdoc(suite) or "").partition("Attributes:\n")[2]
    assert set(re.findall(r"^    (\w+): ", listed, re.M)) == settings


def test_every_key_of_a_plugins_section_is_explained() -> None:
    assert first_column("configuration.md", "`[plugins.<name>]`") == set(SETTINGS)
    assert first_column("configuration.md", "`[plugins]`") == set(LISTS)


def test_every_standard_tag_is_explained() -> None:
    assert first_column("tools-and-policy.md", "Standard tags", "###") == set(deep_core.STANDARD_TAGS)


def narrows(field: FieldInfo) -> bool:
    """Whether an untrusted project may set the field, or one below it."""
    below: dict[str, FieldInfo] = getattr(field.annotation, "model_fields", {})
    return any(isinstance(mark, Narrows) for mark in field.metadata) or any(map(narrows, below.values()))


def test_what_a_project_may_say_is_reported_for_every_setting() -> None:
    text = (DOCS / "configuration.md").read_text(encoding="utf-8").split("## What a project's file may say")[1]
    rows = re.findall(r"^\| (.*) \| (.*) \|$", text.split("```")[0], re.M)
    taken = " ".join(setting for setting, effect in rows if effect != "ignored")
    ignored = " ".join(setting for setting, effect in rows if effect == "ignored")
    settings = {name for name, setting in SETTINGS.items() if setting.project != "ignored"}
    fields = {name for name, field in AgentConfig.model_fields.items() if narrows(field)}
    assert len(settings) > 1
    assert len(fields) > 1
    for key in (*settings, *fields, "require"):
        assert re.search(rf"\b{key}\b", taken), key
        assert not re.search(rf"\b{key}\b", ignored), key
    for key in {*SETTINGS, *LISTS} - {*settings, "require"}:
        assert re.search(rf"\b{key}`", ignored), key
        assert not re.search(rf"[` ]{key}`", taken), key


def test_the_start_page_names_everything_that_deep_everything_brings() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| (deep-[\w-]+) \|", text, re.M)) == {"deep-agent-core", *brought_by_everything()}


# -- language ----------------------------------------------------------------------------------------------------------

WORN = re.compile(
    r"\b(?:is|are|was|were|be|being) told\b|\bmend(?:s|ed)?\b|\b(?:no|some)body\b|what becomes of|goes on where",
    re.I,
)
"""Phrases without an actor, or that no one says: name who tells whom, write *fix*, name the person."""


GUIDES = [page for page in pages() if page.parent.name != "decisions"]


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_pages_name_the_actor(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert [found[0] for found in WORN.finditer(text)] == []


# -- links ---------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as mkdocs makes them, and those of the reference."""
    out: set[str] = set()
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        inside ^= line.startswith("```")
        if not inside and re.match(r"#{1,6} ", line):
            text = re.sub(r"[^\w\s-]", "", line.lstrip("#")).strip().lower()
            out.add(re.sub(r"[-\s]+", "-", text))
        elif line.startswith("::: "):
            out.add(line.removeprefix("::: "))
    return out


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_internal_links_resolve(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), f"{name_of(page)} links to {target}"
        if anchor and to.suffix == ".md":
            assert anchor in anchors(to), f"{name_of(page)} links to {target}; anchors: {sorted(anchors(to))}"


def test_the_architecture_page_has_every_file_of_the_kernel() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", page, re.M)
    kernel = ROOT / "deep_core"
    files = {str(path.relative_to(kernel)) for path in kernel.rglob("*.py") if path.name != "__init__.py"}
    assert sorted(listed) == sorted(files)
    named = set(re.findall(r"`((?:plugins|agent)/[\w/]+\.py)`", page))
    assert named <= files  # the walks name files that are there


def test_the_architecture_pages_walk_goes_forward_only() -> None:
    """A step of the plugin layer never imports the agent layer, which the walk reaches later."""
    graph = edges(read(ROOT / "deep_core"))
    steps = [re.findall(r"`((?:plugins|agent)/[\w/]+)\.py`", step) for step in steps_of(*WALKS)]
    modules = [f"deep_core.{name.replace('/', '.')}" for step in steps for name in step[:1]]
    assert len(modules) == 8
    layers = [module.split(".")[1] for module in modules]
    assert layers == sorted(layers, reverse=True)  # first the steps in plugins/, then those in agent/
    below = [module for module in modules if module.startswith("deep_core.plugins")]
    assert all(not target.startswith("deep_core.agent") for module in below for target in graph[module])


WALKS = ("Follow one tool", "Follow one approved call")
TOOL_WALK = [
    ("plugins/index.py", "scan"),
    ("plugins/status.py", "decide_statuses"),
    ("plugins/load.py", "_import"),
    ("plugins/registry.py", "register"),
    ("agent/kernel.py", "create_agent"),
    ("agent/collect.py", "contributed"),
    ("agent/tools/assembly.py", "toolbox"),
    ("agent/run/capability.py", "get_toolset"),
]
"""Of each step, the file that it names first, and the function there that does what the step says."""
CALL_WALK = [
    ("agent/policy/gates.py", "wrap_tool_execute"),
    ("agent/policy/approvals.py", "remember_question"),
    ("agent/policy/gates.py", "before_node_run"),
    ("agent/policy/approvals.py", "take_question"),
    ("agent/tools/toolsets.py", "call_tool"),
]


def steps_of(section: str, following: str) -> list[str]:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    return re.split(r"^\d+\. ", page.partition(f"## {section}")[2].partition(f"## {following}")[0], flags=re.M)[1:]


@contextmanager
def calls_into_the_kernel() -> Generator[list[tuple[str, str]]]:
    """Record the functions of deep_core that run: file and name, in order."""
    root, called = f"{ROOT / 'deep_core'}/", list[tuple[str, str]]()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            called.append((frame.f_code.co_filename.removeprefix(root), frame.f_code.co_name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


def test_the_walk_of_a_tool_is_the_order_in_which_the_kernel_runs() -> None:
    with calls_into_the_kernel() as called:
        Kernel(read_config=False, allow=["todo"]).create_agent(TestModel())
    assert [step for step in dict.fromkeys(called) if step in TOOL_WALK] == TOOL_WALK
    named = [re.findall(r"`((?:plugins|agent)/[\w/]+\.py)`", step)[0] for step in steps_of(*WALKS)]
    assert named == [file for file, _ in TOOL_WALK]


def test_the_walk_of_an_approved_call_is_the_order_in_which_the_kernel_runs() -> None:
    shell, deps = Tools("execute", tags=["execute"]), create_default_deps()
    agent = agent_of(plugin("shell", toolsets=[shell.toolset]), model=scripted(Call("execute", {})))
    with calls_into_the_kernel() as asked:
        waits = run(agent, deps=deps)
    answer = pending(waits).build_results(approve_all=True)
    with calls_into_the_kernel() as answered:
        run(agent, None, deps, message_history=waits.all_messages(), deferred_tool_results=answer)
    assert shell.names == ["execute"]
    both = [dict.fromkeys(part) for part in (asked, answered)]
    assert [step for step in both[0] if step in CALL_WALK[:2]] == CALL_WALK[:2]
    assert [step for step in both[1] if step in CALL_WALK[2:]] == CALL_WALK[2:]
    text = "".join(steps_of(WALKS[1], "The files"))
    assert {file for file, _ in CALL_WALK} <= set(re.findall(r"`(agent/[\w/]+\.py)`", text))
