"""Check one distribution: install it alone, load its plugins, run the conformance suite and its own; make its row."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...failure import FAILED, Failure
from .environment import Environment, versions_of

__all__ = ["Row", "check"]

TOOLS = ("pytest-deep", "pytest-xdist")
"""What a check needs beside the distribution: projects may name workers in their own options."""
TEST = '''"""Made by deep plugins check."""

import tomllib
from pathlib import Path

from pytest_deep import PluginConformance

PLUGINS = tomllib.loads(Path({config!r}).read_text("utf-8")).get("plugins", {{}})
OPTIONS = {{name: table.get("options") for name, table in PLUGINS.items() if isinstance(table, dict)}}

{classes}
'''
CLASS = """
class TestConformance{number}(PluginConformance):
    plugin = {name!r}
    plugin_options = OPTIONS.get({name!r})
"""
CONFIG = "options.toml"
"""In the environment's folder. No name of a project's file, so that it counts only where it is named."""
FACTS = Path(__file__).with_name("facts.py")
"""A script: the environment that is checked need not have deep-cli."""
PYTEST = ("-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--import-mode=importlib")
PROBLEMS = 20
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""The name of a project, by the rule of all indexes. A row's file is called like it."""


@dataclass(frozen=True)
class Tests:
    """What a run of pytest said.

    Attributes:
        passed: tests.
        failed: tests.
        skipped: tests.
        problems: the test and the first line of each failure; or why nothing ran.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    problems: tuple[str, ...] = ()

    @property
    def well(self) -> bool:
        """Whether tests ran, and none failed."""
        return bool(self.passed) and not self.failed and not self.problems


@dataclass(frozen=True)
class Row:
    """What a check found.

    Attributes:
        distribution: its name.
        version: its version; "" if it was not installed.
        summary: its one line.
        plugins: a table for each.
        conformance: the suite of pytest-deep.
        suite: its own tests; None if it came without.
        versions: of Python, deep and Pydantic AI.
        problem: why nothing more was tried; "" if all was.
        checked: when, in UTC.
    """

    distribution: str
    version: str = ""
    summary: str = ""
    plugins: tuple[dict[str, Any], ...] = ()
    conformance: Tests = field(default_factory=Tests)
    suite: Tests | None = None
    versions: dict[str, str] = field(default_factory=dict[str, str])
    problem: str = ""
    checked: str = ""

    @property
    def well(self) -> bool:
        """Whether everything that was tried succeeded."""
        active = all(plugin["status"] == "active" and not plugin.get("incidents") for plugin in self.plugins)
        own = self.suite is None or self.suite.well
        return not self.problem and bool(self.plugins) and active and self.conformance.well and own


def check(target: str, given: Sequence[str], find_links: Sequence[str], seconds: float, config: str = "") -> Row:
    """Check a distribution in an environment of its own.

    Args:
        target: a name, with or without a version; a folder; or a wheel.
        given: `deep==…`, `pydantic-ai==…`; without, the versions that run here.
        find_links: folders of wheels.
        seconds: how long each step may take.
        config: a configuration file's text, with the options of its plugins.
    """
    checked = datetime.now(UTC).isoformat(timespec="seconds")
    versions = versions_of(given)
    path = Path(target).expanduser()
    wanted = str(path.resolve()) if path.exists() else target
    if not path.exists() and not _NAME.match(target):
        raise Failure(f"{target!r} is no name, folder or wheel")
    name = _name(target, path)
    with TemporaryDirectory(prefix="deep-check-") as temporary:
        environment = Environment(Path(temporary), seconds)
        (environment.folder / CONFIG).write_text(config, encoding="utf-8")
        made = environment.make()
        if made.code:
            raise Failure(f"no environment could be made: {made.last}", FAILED)
        ready = environment.install([*TOOLS, *versions.values()], find_links)
        if ready.code:
            wanted_versions = ", ".join([*TOOLS, *versions.values()])
            why = f"{ready.conflict}; --find-links DIR names a folder of wheels that are on no index"
            raise Failure(f"{wanted_versions} cannot be installed together: {why}", FAILED)
        before = _installed(environment)
        done = environment.install([wanted, *versions.values()], find_links)
        if done.code:
            return Row(name, problem=f"it cannot be installed: {done.conflict}", checked=checked)
        row = _row(environment, name, path, before, find_links)
        return replace(row, checked=checked)


def _row(environment: Environment, name: str, path: Path, before: dict[str, str], find_links: Sequence[str]) -> Row:
    after = _installed(environment)
    new = sorted(each for each in after if each not in before)
    name = name if name in after else next((each for each in new if "deep" in each), name)
    about = environment.python("-c", ABOUT, name, cwd=environment.folder)
    facts = environment.python(str(FACTS), name, str(environment.folder / CONFIG), cwd=environment.folder)
    versions: dict[str, str] = {}
    version = summary = ""
    if about.code == 0:
        version, summary, versions = json.loads(about.out.splitlines()[-1])
    if facts.code:
        why = facts.last.replace(str(environment.folder / CONFIG), "--config")
        return Row(name, version, summary, versions=versions, problem=f"it cannot be looked at: {why}")
    # A reason names the file that raised; where this environment was says nothing.
    said = facts.out.splitlines()[-1].replace(f"{environment.folder}/", "")
    plugins = tuple(json.loads(said))
    if not plugins:
        return Row(name, version, summary, versions=versions, problem="it has no plugin: no entry point 'deep'")
    active = [plugin["name"] for plugin in plugins if plugin["status"] == "active"]
    conformance = _conformance(environment, active) if active else Tests(problems=("no plugin of it is active",))
    return Row(name, version, summary, plugins, conformance, _suite(environment, path, find_links), versions)


ABOUT = """
import json, platform, sys
from importlib import metadata
found = metadata.metadata(sys.argv[1])
names = {"deep": "deep-agent-core", "pydantic-ai": "pydantic-ai-slim"}
versions = {"python": platform.python_version(), **{name: metadata.version(dist) for name, dist in names.items()}}
print(json.dumps([found["Version"], found["Summary"] or "", versions]))
"""
LIST = """
import json
from importlib import metadata
print(json.dumps({d.metadata["Name"].lower().replace("_", "-"): d.version for d in metadata.distributions()}))
"""


def _installed(environment: Environment) -> dict[str, str]:
    listed = environment.python("-c", LIST, cwd=environment.folder)
    return json.loads(listed.out.splitlines()[-1]) if listed.code == 0 else {}


def _name(target: str, path: Path) -> str:
    """Return the distribution's name: of a folder's pyproject, of a wheel's file, or as it was given."""
    if path.is_dir():
        try:
            name = str(_pyproject(path)["project"]["name"])
        except (OSError, ValueError, LookupError, TypeError):
            name = ""
        if not _NAME.fullmatch(name):
            raise Failure(f"{path} has no pyproject.toml with a project's name")
        return name
    if path.is_file():
        return path.name.partition("-")[0].replace("_", "-")
    found = _NAME.match(target)
    return found[0] if found else target


def _pyproject(path: Path) -> dict[str, Any]:
    import tomllib

    return tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))


def _conformance(environment: Environment, plugins: Sequence[str]) -> Tests:
    folder = environment.folder / "conformance"
    folder.mkdir()
    classes = "\n".join(CLASS.format(number=number, name=name) for number, name in enumerate(plugins))
    text = TEST.format(config=str(environment.folder / CONFIG), classes=classes)
    (folder / "test_conformance.py").write_text(text, encoding="utf-8")
    return _pytest(environment, folder, "test_conformance.py")


def _suite(environment: Environment, path: Path, find_links: Sequence[str]) -> Tests | None:
    """Run a folder's own tests from a copy, in which only what was installed can be imported."""
    if not (path / "tests").is_dir():
        return None
    if needs := _needs_of_tests(path):  # not before: the plugin must do without them
        done = environment.install(needs, find_links)
        if done.code:
            return Tests(problems=(f"what its tests need cannot be installed: {done.conflict}",))
    copy = environment.folder / "suite"
    shutil.copytree(path, copy, ignore=shutil.ignore_patterns("src", ".*", "build", "dist", "__pycache__"))
    return _pytest(environment, copy, "tests")


def _needs_of_tests(path: Path) -> list[str]:
    """Return the requirements of the extra, or of the group, for tests; of those for development without one."""
    table = _pyproject(path)
    found = [table.get("project", {}).get("optional-dependencies", {}), table.get("dependency-groups", {})]
    for name in ("test", "tests", "testing", "dev"):
        for groups in found:
            if name in groups:
                return [each for each in groups[name] if isinstance(each, str)]
    return []


def _pytest(environment: Environment, folder: Path, tests: str) -> Tests:
    report = environment.folder / f"{folder.name}.xml"
    ran = environment.python(*PYTEST, f"--junitxml={report}", tests, cwd=folder)
    try:
        cases = [*ElementTree.parse(report).getroot().iter("testcase")]  # noqa: S314 - pytest of this check wrote it
    except (OSError, ElementTree.ParseError):
        return Tests(problems=(f"pytest ended with {ran.code}: {ran.last}",))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    return Tests(len(cases) - len(failed) - len(skipped), len(failed), len(skipped), tuple(_problems(failed)))


def _problems(failed: Sequence[ElementTree.Element]) -> list[str]:
    """Return a line for each reason: one broken import fails every test."""
    tests: dict[str, list[str]] = {}
    for case in failed:
        tests.setdefault(_why(case), []).append(case.get("name") or "")
    lines = [(names[0] + (f" and {len(names) - 1} more" if names[1:] else ""), why) for why, names in tests.items()]
    return [f"{names}: {why}" for names, why in lines[:PROBLEMS]]


def _why(case: ElementTree.Element) -> str:
    bad = next(each for kind in ("failure", "error") if (each := case.find(kind)) is not None)
    # The suite of pytest-deep names the plugin first, then what is wrong with it.
    text = " ".join((bad.get("message") or "failed").split())
    if text == "collection failure":  # pytest writes the reason behind an E
        text = next((line[1:].strip() for line in reversed((bad.text or "").splitlines()) if line[:2] == "E "), text)
    return text.removeprefix('failed on setup with "').removesuffix('"')[:400]
