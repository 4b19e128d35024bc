"""The template of a plugin: what it renders is code that one would be proud of, whatever was chosen."""

from __future__ import annotations

import ast
import json
import keyword
import re
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from deep_cli.built_in import BUILT_IN
from deep_cli.plugins.naming import CLASHES, plugin_problem
from deep_cli.plugins.template import complete, questions, render
from hatchling.builders.wheel import WheelBuilder
from hypothesis import example, given
from hypothesis import strategies as st

import deep_core
from deep_core.names import NAME
from deep_core.plugins.status import RESERVED_NAMES
from tests.environments import BELOW, REPOSITORY, Distribution, Environment, Finished
from tests.local_wheels import build, made_once, of_the_checkout, unpack, unpack_sdist

KINDS = questions().contributions
Kinds = tuple[str, ...]
TEMPLATE = REPOSITORY / "cookiecutter-plugin"
BESIDE = ("pytest-deep", "cli", "sessions", "backends", "filesystem", "skills")
"""What the tests of rendered plugins need."""


def each_alone() -> list[Kinds]:
    """None, each alone, all."""
    return [(), *((kind,) for kind in KINDS), KINDS]


def every_pair() -> list[Kinds]:
    """Rows in which every two kinds stand together, apart, and one without the other.

    The rows are the orthogonal array OA(16, 15, 2, 2): kind number j is in row i where i & j has an odd number of bits.
    """
    assert len(KINDS) <= 15
    rows = [tuple(kind for j, kind in enumerate(KINDS, 1) if (i & j).bit_count() % 2) for i in range(16)]
    return [row for row in dict.fromkeys(rows) if row not in each_alone()]


def answers(plugin: str, kinds: Iterable[str], **more: str) -> dict[str, str | bool]:
    chosen = set(kinds)
    return {"plugin": plugin, "deep_core": deep_core.__version__, **{k: k in chosen for k in KINDS}, **more}


def write(parent: Path, plugin: str, kinds: Iterable[str], **more: str) -> Path:
    """Render into a folder; returns the plugin's own."""
    asked = answers(plugin, kinds, **more)
    folder = parent / str(complete(asked)["distribution"])
    for path, text in render(asked).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def named(kinds: Sequence[Kinds]) -> dict[str, Kinds]:
    """A plugin's name for each combination: t and the first letter of each kind that is chosen."""
    return {"t" + "".join(f"_{kind[:2]}" for kind in chosen): chosen for chosen in kinds}


# -- what is rendered --------------------------------------------------------------------------------------------------


def test_the_rows_hold_every_pair_of_choices() -> None:
    rows = [(), *every_pair()]
    for one, other in combinations(KINDS, 2):
        assert {(one in row, other in row) for row in rows} == set(product((False, True), repeat=2))


TRACES = {
    "toolset": ("toolset.py", "deep_toolsets"),
    "backend": ("backend.py", "deep_backends"),
    "history_processor": ("history.py", "deep_history_processors"),
    "skill_loader": ("skills.py", "deep_skill_loaders"),
    "prompt_section": ("sections.py", "deep_prompt_sections"),
    "capability": ("capability.py", "deep_capabilities"),
    "state": ("state.py", "deep_state"),
    "session_method": ("session.py", "deep_session_methods"),
    "check_call": ("checks.py", "deep_check_call"),
    "run_event": ("events.py", "deep_run_event"),
    "hook": ("hookspecs.py", "deep_hookspecs"),
    "command": ("command.py", None),
}
"""Kind -> its module and its hook. (What is imported in vain, the linters find.)"""
BRINGS = {"session_method": TRACES["state"], "hook": TRACES["prompt_section"]}
"""Kind -> the module and the hook that it needs besides."""
OPTIONS = {
    "entries": {"toolset", "command"},
    "language": {"prompt_section"},
    "hide": {"history_processor"},
    "confidential": {"check_call"},
    "slow_seconds": {"capability"},
}
"""Option -> the kinds that read it."""


@pytest.mark.slow
def test_what_was_not_chosen_leaves_no_trace() -> None:
    for kinds in [*each_alone(), *every_pair()]:
        files = render(answers("weather", kinds))
        package = {Path(path).name for path in files if path.startswith("src/")}
        tests = {Path(path).name for path in files if path.startswith("tests/")}
        brought = {BRINGS[kind] for kind in kinds if kind in BRINGS}
        modules = {TRACES[kind][0] for kind in kinds} | {module for module, _ in brought}
        options = {name for name, readers in OPTIONS.items() if readers & set(kinds)}
        hooks = {hook for kind in kinds if (hook := TRACES[kind][1])} | {hook for _, hook in brought}
        hooks |= {"deep_options"} if options else set()
        more = {"options.py"} if options else set()
        more |= {"skill.md"} if "skill_loader" in kinds else set()
        assert package == {"__init__.py", "py.typed", *modules, *more}
        # What the hook brings is tested with the hook.
        tested = modules if "prompt_section" in kinds else modules - {"sections.py"}
        quiet = set() if hooks else {"test_log.py"}
        assert tests == {"test_conformance.py", *(f"test_{module}" for module in tested), *quiet}
        init = files["src/deep_weather/__init__.py"]
        assert set(re.findall(r"^def (\w+)", init, re.M)) == (hooks or {"deep_agent_created"})
        if options:
            assert set(re.findall(r"^    (\w+): ", files["src/deep_weather/options.py"], re.M)) == options
            assert set(re.findall(r"^\| `(\w+)` \|", files["README.md"], re.M)) == options
        else:
            assert "options" not in init + files["README.md"]
        points = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]
        assert set(points) == {"deep", *(["deep.commands"] if "command" in kinds else [])}


def test_no_mark_of_the_template_is_left_and_every_text_ends_in_one_line_break() -> None:
    for kinds in [*each_alone(), *every_pair()]:
        for path, text in render(answers("weather", kinds)).items():
            rest = text.replace("${{ matrix.python }}", "")
            assert not re.search(r"\{\{(?!tool:)|\{%|%\}|cookiecutter", path + rest), path
            assert not text or re.search(r"[^\n]\n\Z", text), path
            assert "\n\n\n\n" not in text, path
            assert path.endswith(".py") or "\n\n\n" not in text, path


@pytest.mark.slow
@given(st.from_regex(NAME, fullmatch=True))
@example("in")
@example("int")
@example("self")
@example("pytest")
@example("context")
@example("deep_notes")
def test_every_name_that_the_contract_allows_makes_a_plugin(name: str) -> None:
    if plugin_problem(name, BUILT_IN):
        assert name in {*RESERVED_NAMES, *CLASHES, *BUILT_IN, *keyword.kwlist} or name.startswith("deep_")
        return
    files = render(answers(name, KINDS))
    project = tomllib.loads(files["pyproject.toml"])["project"]
    (module,) = project["entry-points"]["deep"].values()
    assert project["entry-points"]["deep"] == {name: module}
    assert module.isidentifier()
    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", project["name"])
    for path, text in files.items():
        if path.endswith(".py"):
            ast.parse(text)
    assert f"src/{module}/__init__.py" in files


@pytest.mark.parametrize("license", questions().licenses)
def test_the_license_that_was_chosen_is_there_and_no_other(license: str) -> None:
    files = render(answers("weather", ["toolset"], license=license, author="Ann Lee"))
    project = tomllib.loads(files["pyproject.toml"])["project"]
    if license == "none":
        assert "LICENSE" not in files
        assert "license" not in project
        assert "Private :: Do Not Upload" in project["classifiers"]
    else:
        title = {"MIT": "MIT License", "Apache-2.0": "Apache License", "BSD-3-Clause": "BSD 3-Clause License"}[license]
        assert files["LICENSE"].strip().startswith(title)
        assert ("Ann Lee" in files["LICENSE"]) is (license != "Apache-2.0")
        assert project["license"] == license


def test_the_range_of_the_kernel_is_that_of_the_installed_one() -> None:
    major, minor = deep_core.__version__.split(".")[:2]
    project = tomllib.loads(render(answers("weather", ["toolset"]))["pyproject.toml"])["project"]
    assert project["dependencies"] == [f"deep-agent-core>={major}.{minor},<{int(major) + 1}"]
    # Where cookiecutter renders it, no kernel is installed: what the file says must be the version of the checkout.
    assert complete({})["deep_core"] == deep_core.__version__


def test_the_hook_for_cookiecutter_knows_the_names_that_are_reserved(capsys: pytest.CaptureFixture[str]) -> None:
    rules = hook(answers("weather", ["command"]))
    assert set(rules["RESERVED"]) == {*RESERVED_NAMES, *CLASHES}
    assert set(rules["COMMANDS"]) >= set(BUILT_IN)
    assert rules["PLUGIN"].pattern == NAME.pattern.strip("^$")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"plugin": "Weather"}, "must be lower-case letters"),
        ({"plugin": "tools"}, "'tools' is reserved"),
        ({"plugin": "in"}, "'in' is reserved"),
        ({"plugin": "deep_notes"}, "'deep_notes' needs no deep_"),
        ({"plugin": "explain"}, "deep explain is a command already"),
        ({"module": "json"}, "'json' must be a name"),
        ({"distribution": "-x"}, "'-x' must be letters"),
        ({"author": 'Ann "A" Lee'}, "author: no quotes"),
    ],
)
def test_the_hook_for_cookiecutter_refuses_what_makes_no_plugin(answer: Mapping[str, str], said: str) -> None:
    with pytest.raises(SystemExit, match=re.escape(said)):
        hook(answers("weather", ["command"]) | answer)


def hook(given_answers: Mapping[str, str | bool]) -> dict[str, Any]:
    """Run the hook as cookiecutter does, rendered with the answers; returns its names."""
    text = (TEMPLATE / "hooks" / "pre_gen_project.py").read_text("utf-8")
    for name, value in complete(given_answers).items():
        text = text.replace(f"{{{{ cookiecutter.{name} }}}}", str(value))
    names: dict[str, Any] = {}
    exec(compile(text, "pre_gen_project.py", "exec"), names)
    return names


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([(), KINDS], id="none and all"),
        pytest.param([*each_alone(), *every_pair()], id="each alone and every pair", marks=pytest.mark.exhaustive),
    ],
)
def test_cookiecutter_renders_the_same_files(tmp_path: Path, rows: Sequence[Kinds]) -> None:
    cookiecutter = pytest.importorskip("cookiecutter.main", reason="pip install -r requirements/dev.txt")
    for number, kinds in enumerate(rows):
        asked = answers("weather", kinds, author="Ann Lee", license="BSD-3-Clause")
        made = Path(
            cookiecutter.cookiecutter(
                str(TEMPLATE), no_input=True, extra_context=asked, output_dir=str(tmp_path / str(number))
            )
        )
        theirs = {p.relative_to(made).as_posix(): p.read_text("utf-8") for p in made.rglob("*") if p.is_file()}
        assert theirs == render(asked)


# -- what it is worth --------------------------------------------------------------------------------------------------


def rendered(parent: Path, kinds: Sequence[Kinds]) -> dict[str, Path]:
    """Plugin -> its folder."""
    return {plugin: write(parent, plugin, chosen) for plugin, chosen in named(kinds).items()}


def lint(parent: Path, folders: Mapping[str, Path]) -> None:
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", parent], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    config = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "include": [f"{folder.name}/src" for folder in folders.values()],
        "executionEnvironments": [
            {"root": f"{folder.name}/src", "extraPaths": [str(REPOSITORY)]} for folder in folders.values()
        ],
    }
    (parent / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--project", str(parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def install(folder: Path, environment: Environment) -> None:
    """Build the wheel, in this process, and unpack it: pip would take a second for each."""
    (wheel,) = WheelBuilder(str(folder)).build(directory=str(folder / "dist"), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(environment.site)


@dataclass(frozen=True)
class Together:
    """Plugins that are installed in one environment.

    Attributes:
        environment: theirs.
    """

    environment: Environment

    @property
    def parent(self) -> Path:
        """The folder that their own folders are in."""
        return self.environment.root / "made"

    @property
    def folders(self) -> Sequence[Path]:
        """The plugins' own."""
        return sorted(self.parent.glob("deep-*"))

    @classmethod
    def of(cls, root: Path, kinds: Sequence[Kinds]) -> Together:
        """Render, build and install a plugin for each combination."""
        together = cls(Environment.create(root))
        together.parent.mkdir()
        together.environment.install(*(Distribution.of_project(REPOSITORY / "plugins" / name) for name in BESIDE))
        for folder in rendered(together.parent, kinds).values():
            install(folder, together.environment)
        (together.parent / "pytest.ini").write_text(
            "[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider -p no:asyncio\nfilterwarnings = error\n",
            encoding="utf-8",
        )
        return together


ROWS = [
    pytest.param([(), KINDS], id="none and all"),
    pytest.param(each_alone(), id="each alone", marks=pytest.mark.exhaustive),
]


def own_tests(together: Together, folders: Sequence[Path], report: Path) -> None:
    """The tests of some of them, conformance among them, in one run of pytest."""
    parent, environment = together.parent, together.environment
    tests = [folder / "tests" for folder in folders]
    command = [environment.python, "-m", "pytest", "-q", "--rootdir", parent, f"--junit-xml={report}", *tests]
    done = environment.run(*command, cwd=parent, timeout=3600)
    assert done.code == 0, done.out[-8000:] + done.err[-2000:]
    text = report.read_text("utf-8")
    for folder in folders:
        for test in folder.glob("tests/test_*.py"):
            assert f"{folder.name}.tests.{test.stem}" in text, test


@pytest.mark.slow
@pytest.mark.parametrize("rows", ROWS)
def test_plugins_pass_their_own_tests(tmp_path: Path, rows: Sequence[Kinds]) -> None:
    together = Together.of(tmp_path, rows)
    own_tests(together, together.folders, tmp_path / "report.xml")


@pytest.mark.exhaustive
@pytest.mark.needs("pyright")
def test_plugins_are_formatted_linted_and_typed(tmp_path: Path) -> None:
    folders = rendered(tmp_path, [*each_alone(), *every_pair()])
    longest = "t" * 40
    lint(tmp_path, {**folders, longest: write(tmp_path, longest, KINDS)})


@pytest.mark.exhaustive
@pytest.mark.wheels
def test_plugins_with_every_pair_of_choices_pass_their_own_tests(tmp_path: Path) -> None:
    together = Together.of(tmp_path, every_pair())
    own_tests(together, together.folders, tmp_path / "report.xml")


MISTAKES = """
import warnings

def use_what_will_go():
    warnings.warn("gone in 2.0", DeprecationWarning)

async def refresh():
    pass

def forget_to_await():
    refresh()

def leave_a_file_open():
    open(__file__)
"""
TRIED = """
import pytest
from deep_weather import mistakes

@pytest.mark.parametrize("name", ["use_what_will_go", "forget_to_await", "leave_a_file_open"])
def test_it(name):
    getattr(mistakes, name)()
"""


@pytest.mark.exhaustive
def test_its_tests_pass_beside_other_tools_of_pytest_and_fail_at_its_own_warnings(tmp_path: Path) -> None:
    for tool in ("pytest_asyncio", "pytest_cov"):
        pytest.importorskip(tool, reason="pip install -r requirements/dev.txt")
    environment = Environment.create(tmp_path)
    environment.install(Distribution.of_project(REPOSITORY / "plugins" / "pytest-deep"))
    folder = write(environment.work, "weather", ["toolset"])
    install(folder, environment)

    def run_pytest(*arguments: str) -> Finished:
        return environment.run(environment.python, "-m", "pytest", *arguments, cwd=folder)

    done = run_pytest("--cov=deep_weather")
    assert done.code == 0, done.out + done.err
    # It was there, and had something to say.
    assert "asyncio-" in done.out
    assert "PytestDeprecationWarning" in done.out + done.err
    assert re.search(r"deep_weather/toolset\.py +\d+ +0 +100%", done.out), done.out

    (environment.site / "deep_weather" / "mistakes.py").write_text(MISTAKES, encoding="utf-8")
    (folder / "tests" / "test_mistakes.py").write_text(TRIED, encoding="utf-8")
    done = run_pytest("-q", "tests/test_mistakes.py")
    assert re.search(r"^3 failed in ", done.out, re.M), done.out


# -- in fresh environments ---------------------------------------------------------------------------------------------

NEEDED = {"backend": ["deep-backends", "deep-filesystem"], "skill_loader": ["deep-skills"], "command": ["deep-cli"]}
"""What an agent needs besides, to make use of such a contribution."""

AGENT = """
import json, logging
from types import ModuleType
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai import Tool
from deep_core import Kernel, create_default_deps, hookimpl

plugin, kinds, slug = json.loads({arguments!r})
logs = []
handler = logging.Handler()
handler.emit = lambda record: logs.append(record.getMessage())
logging.getLogger("deep." + plugin).addHandler(handler)
logging.getLogger("deep." + plugin).setLevel(logging.DEBUG)

calls = [("slow", {{}}), ("send", {{"text": "-----BEGIN PRIVATE KEY-----"}})]
if "toolset" in kinds:
    calls += [(plugin + "_lookup", {{"term": "example"}})]
    if {{"state", "session_method"}} & set(kinds):
        calls += [(plugin + "_note", {{"text": "Likes tea."}})]
if "backend" in kinds:
    calls += [("write_file", {{"path": "a.txt", "content": "kept"}}), ("read_file", {{"path": "a.txt"}})]
if "skill_loader" in kinds:
    calls += [("load_skill", {{"skill_name": slug}})]
shown = []

def model(messages, info):
    shown.append([info.instructions or "", str(messages)])
    if calls:
        name, args = calls.pop(0)
        return ModelResponse([ToolCallPart(name, args)])
    return ModelResponse([TextPart("done")])

def slow() -> str:
    "Work."
    return "worked"

def send(text: str) -> str:
    "Send a text."
    return "sent " + text

plugins = []
if "hook" in kinds:
    office = ModuleType("office")
    name = "deep_" + plugin + "_facts"
    setattr(office, name, hookimpl(of=plugin, specname=name)(lambda context: ["Closed on Mondays."]))
    plugins.append(office)

with Kernel(plugins=plugins) as kernel:
    backend = plugin if "backend" in kinds else None
    tools = [slow, Tool(send, metadata={{"tags": ["network"]}})]
    agent = kernel.create_agent(FunctionModel(model), tools=tools, backend=backend)
    deps = create_default_deps(kernel=kernel)
    if "session_method" in kinds:
        getattr(deps, "add_" + plugin + "_note")("Likes cake.")
    result = agent.run_sync("Write to bob@example.org.", deps=deps)
    answer({{
        "output": result.output,
        "first": shown[0],
        "last": shown[-1][1],
        "logs": logs,
        "backend": type(deps.backend).__name__,
        "notes": deps.state[(plugin + "_notes")[:40]] if {{"state", "session_method"}} & set(kinds) else [],
        "incidents": [str(incident) for incident in kernel.incidents],
    }})
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Ours, and a plugin for each kind alone, for none and for all: name -> wheel."""

    def make(folder: Path) -> None:
        build(list(rendered(tmp_path_factory.mktemp("made"), each_alone()).values()), folder)

    made = made_once(tmp_path_factory, "wheels-of-the-template", make)
    return {**of_the_checkout(tmp_path_factory), **wheels_in(made)}


def wheels_in(folder: Path) -> dict[str, Path]:
    """Name of the distribution -> wheel."""
    return {path.name.partition("-")[0].replace("_", "-"): path for path in folder.glob("*.whl")}


@pytest.mark.wheels
@pytest.mark.parametrize(("plugin", "kinds"), named(each_alone()).items(), ids=list(named(each_alone())))
def test_its_wheel_in_a_fresh_environment_is_seen_by_an_agent(
    tmp_path: Path, wheels: Mapping[str, Path], plugin: str, kinds: Kinds
) -> None:
    environment = Environment.create(tmp_path, kernel=False)
    needed = {
        *BELOW,
        "deep-agent-core",
        "deep-cli",
        "deep-sessions",
        *(name for kind in kinds for name in NEEDED.get(kind, ())),
    }
    slug = plugin.replace("_", "-")
    unpack([*(wheels[name] for name in sorted(needed)), wheels[f"deep-{slug}"]], environment.site)

    def deep(*arguments: str) -> Finished:
        return environment.fork("-m", "deep_cli", *arguments)

    listed = json.loads(deep("plugins", "list", "--json").ok().out)["plugins"]
    assert [(p["status"], p["distribution"]) for p in listed if p["name"] == plugin] == [("active", f"deep-{slug}")]

    explained = json.loads(deep("explain", "--json").ok().out)
    mine = {
        part: [item.get("name") or item["id"] for item in explained[part] if item["plugin"] == plugin]
        for part in ("tools", "sections", "history_processors", "capabilities")
    }
    notes = bool({"state", "session_method"} & set(kinds))
    sections = (
        (["language"] if "prompt_section" in kinds else [])
        + (["sources"] if {"prompt_section", "toolset"} <= set(kinds) else [])
        + (["notes"] if "prompt_section" in kinds and notes else [])
    )
    assert mine == {
        "tools": [f"{plugin}_lookup", *([f"{plugin}_note"] if notes else [])] if "toolset" in kinds else [],
        "sections": sections,
        "history_processors": ["redact"] if "history_processor" in kinds else [],
        "capabilities": [f"{plugin}.SlowTools.1"] if "capability" in kinds else [],
    }

    code = AGENT.format(arguments=json.dumps([plugin, kinds, slug]))
    slow = {f"DEEP_PLUGINS__{plugin.upper()}__OPTIONS__SLOW_SECONDS": "0"} if "capability" in kinds else {}
    report = environment.ask(code, env=slow, start=False)
    assert report["output"] == "done"
    assert report["incidents"] == []
    instructions, first = report["first"]
    assert ("Answer in English." in instructions) is ("prompt_section" in kinds)
    assert ("[hidden]" in first, "bob@example.org" in first) == (
        ("history_processor" in kinds),
        ("history_processor" not in kinds),
    )
    assert ("This is an example." in report["last"]) is ("toolset" in kinds)
    assert ("kept" in report["last"]) is ("backend" in kinds)
    assert ("Look at what is there before you answer." in report["last"]) is ("skill_loader" in kinds)
    assert ("tool slow took 0.0 seconds" in report["logs"]) is ("capability" in kinds)
    assert ("sent -----BEGIN" in report["last"]) is ("check_call" not in kinds)
    assert ("Closed on Mondays." in instructions) is ("hook" in kinds)
    assert any("tokens in" in line for line in report["logs"]) is ("run_event" in kinds)
    added = ["Likes cake."] if "session_method" in kinds else []
    assert report["notes"] == added + (["Likes tea."] if notes and "toolset" in kinds else [])
    assert any("created agent" in line for line in report["logs"]) is (not kinds)

    command = deep(plugin)
    assert (command.code, command.out) == ((0, "example: This is an example.\n") if "command" in kinds else (2, ""))


@pytest.mark.wheels
def test_the_default_plugin_from_the_command_to_the_agent(
    tmp_path: Path, wheels: Mapping[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    environment = Environment.create(tmp_path, kernel=False)
    environment.pip("install", *(wheels[name] for name in (*BELOW, "deep-agent-core", "deep-cli")))
    # The installed command has the template in its wheel: no checkout is near.
    environment.run(environment.scripts / "deep", "new", "weather").ok()
    build([environment.work / "deep-weather"], tmp_path)
    environment.pip("install", wheels_in(tmp_path)["deep-weather"])
    code = AGENT.format(arguments=json.dumps(["weather", ["toolset"], "weather"]))
    assert "This is an example." in environment.ask(code, start=False)["last"]
    with capsys.disabled():
        print(f"\nfrom a fresh environment to an agent with the new plugin: {time.monotonic() - began:.1f} s")


@pytest.mark.wheels
def test_the_sdist_of_the_command_line_makes_the_same_wheel(tmp_path: Path, wheels: Mapping[str, Path]) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY / "plugins" / "cli", check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    unpack_sdist(archive, tmp_path / "unpacked")
    (folder,) = (tmp_path / "unpacked").iterdir()
    build([folder], tmp_path / "again")
    with (
        zipfile.ZipFile(wheels_in(tmp_path / "again")["deep-cli"]) as again,
        zipfile.ZipFile(wheels["deep-cli"]) as direct,
    ):
        assert sorted(again.namelist()) == sorted(direct.namelist())
        assert any(name.startswith("deep_cli/cookiecutter-plugin/{{cook") for name in again.namelist())
