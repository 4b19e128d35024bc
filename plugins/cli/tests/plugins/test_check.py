"""`deep plugins check` on plugins of strangers, sound and broken, and the site of its rows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from deep_cli.failure import Failure
from deep_cli.plugins.checking.environment import Ran, versions_of
from deep_cli.plugins.command import plugins

from tests.local_wheels import of_the_checkout

SHOWCASES = Path(__file__).resolve().parents[4] / "examples" / "plugins"
PLUGINS = SHOWCASES.parents[1] / "plugins"
TESTS = {"passed": 20, "failed": 0, "skipped": 1, "problems": []}
ROW: dict[str, Any] = {
    "schema": 1,
    "distribution": "acme-tides",
    "version": "1.0",
    "summary": "Tides & <script>alert(1)</script>",
    "plugins": [
        {
            "name": "tides",
            "status": "active",
            "reason": "",
            "hooks": ["deep_toolsets"],
            "tools": [{"name": "tide", "tags": ["read", "network"]}],
            "tokens": 1_045,
        }
    ],
    "conformance": TESTS,
    "suite": None,
    "versions": {"python": "3.12.1", "deep": "0.1.0"},
    "problem": "",
    "checked": "2026-11-29T10:00:00+00:00",
    "well": True,
}
WORTH: dict[str, Any] = {
    "schema": 1,
    "parts": [
        {
            "part": "tides",
            "tasks": 5,
            "with_it": 0.8,
            "without": 0.4,
            "difference": 0.4,
            "low": 0.1,
            "high": 0.7,
            "sentence": "It helps",
        }
    ],
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(plugins, [*map(str, arguments)])


def test_versions_are_those_that_run_here_or_that_were_given() -> None:
    assert versions_of(["deep==0.1.*"])["deep-agent-core"] == "deep-agent-core==0.1.*"
    assert versions_of(["pydantic-ai>=2.62"])["pydantic-ai-slim"] == "pydantic-ai-slim>=2.62"
    assert versions_of([])["pydantic-ai-slim"].startswith("pydantic-ai-slim==2.")
    with pytest.raises(Failure, match="none of deep==VERSION"):
        versions_of(["numpy==2"])


PIP = """\
WARNING: Location 'file:///shop/' is ignored: it is neither a file nor a directory.
ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.
ERROR: ResolutionImpossible: for help visit https://pip.example/
"""
UV = """\
error: No solution found when resolving dependencies
  cause: Because all versions of a depend on b>=3 and you require a==1, we can conclude that b>=3.
         And because you require b==2, your requirements are unsatisfiable.

  hint: Look elsewhere.
"""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (PIP, "Cannot install a==1 and b==2 because these package versions have conflicting dependencies."),
        (
            UV,
            "Because all versions of a depend on b>=3 and you require a==1, we can conclude that b>=3. "
            "And because you require b==2, your requirements are unsatisfiable.",
        ),
        (
            UV.replace("error:", "  ×").replace("cause:", "╰─▶"),
            "Because all versions of a depend on b>=3 and you require a==1, we can conclude that b>=3. "
            "And because you require b==2, your requirements are unsatisfiable.",
        ),
        ("ERROR: No matching distribution found for a==9", "ERROR: No matching distribution found for a==9"),
        ("", "it said nothing, and ended with 1"),
    ],
)
def test_the_reason_of_an_installer_is_found_in_what_it_said(said: str, why: str) -> None:
    assert Ran(1, "", said).conflict == why


def test_what_is_no_distribution_is_said_before_anything_is_installed(tmp_path: Path) -> None:
    assert "has no pyproject.toml" in run("check", tmp_path).output
    for name in ("../beside", "a/b", "-x", "x-", "", "é"):
        (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n', encoding="utf-8")
        assert "with a project's name" in run("check", tmp_path, "--rows", tmp_path / "rows").output
    assert "no name, folder or wheel" in run("check", "--", "-x").output


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [str(value) for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_site_shows_each_row_and_runs_nothing_of_it(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows", tmp_path / "out"
    rows.mkdir()
    broken: dict[str, Any] = {
        **ROW,
        "distribution": "acme-broken",
        "plugins": [],
        "problem": "it cannot be installed",
        "well": False,
    }
    older: dict[str, Any] = {
        **ROW,
        "checked": "2026-11-28",
        "versions": {"deep": "0.0.9"},
        "summary": "Old",
        "well": False,
    }
    named_index: dict[str, Any] = {
        **ROW,
        "distribution": "Index",
        "plugins": [{**ROW["plugins"][0], "name": "index", "tokens": None}],
    }
    waiting = {**ROW["plugins"][0], "tokens": 0, "tools": [], "options": ["url"]}
    service: dict[str, Any] = {**ROW, "distribution": "acme-service", "plugins": [waiting]}
    for number, row in enumerate((ROW, broken, older, named_index, service, WORTH)):
        (rows / f"{number}.json").write_text(json.dumps(row))
    assert "4 distributions" in run("site", rows, "--out", out, "--title", "Our plugins").output
    index = Page(out / "index.html")
    assert index.links == ["acme-broken.html", "acme-service.html", "acme-tides.html", "index-.html"]
    assert "Tides & <script>alert(1)</script>" in index.text
    for said in ("1,045", "+40 (+10 to +70)", "not measured", "0 until configured", "not known"):
        assert said in index.text
    assert "Old" not in index.text
    assert "script" not in index.tags
    about = Page(out / "acme-tides.html")
    for said in (
        "tide: read, network",
        "20 passed, 0 failed, 1 skipped",
        "2026-11-29 10:00 UTC",
        "deep plugins install acme-tides",
        "deep 0.0.9",
        "deep_toolsets",
        "It helps.",
    ):
        assert said in about.text
    assert "it cannot be installed" in Page(out / "acme-broken.html").text
    configured = Page(out / "acme-service.html").text
    assert "Options: url" in configured
    assert "no tools before it is configured" in configured
    assert "before it is configured" not in about.text


def test_a_site_of_no_rows_says_how_to_make_them(tmp_path: Path) -> None:
    assert "deep plugins check --rows" in run("site", tmp_path).output
    (tmp_path / "x.json").write_text("[]")
    assert "x.json is no row" in run("site", tmp_path).output


# -- real environments -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    wheels: Mapping[str, Path] = of_the_checkout(tmp_path_factory)
    return next(iter(wheels.values())).parent


@pytest.mark.wheels
@pytest.mark.parametrize("name", ["acme-tickets", "acme-objects", "acme-redactor"])
def test_a_showcase_passes(name: str, links: Path, tmp_path: Path) -> None:
    done = run("check", SHOWCASES / name, "--find-links", links, "--rows", tmp_path)
    assert done.exit_code == 0, done.output
    row = json.loads((tmp_path / f"{name}.json").read_text())
    assert row["well"]
    assert row["suite"]["passed"] > 20
    assert row["plugins"][0]["status"] == "active"


@pytest.mark.wheels
def test_options_make_the_tools_of_a_plugin_that_waits_for_a_service(links: Path, tmp_path: Path) -> None:
    project, config = tmp_path / "tickets", tmp_path / "tickets.toml"
    shutil.copytree(SHOWCASES / "acme-tickets", project, ignore=shutil.ignore_patterns("tests"))
    check = ("check", project, "--find-links", links)
    assert "its options, for --config FILE: url, user" in run(*check).output
    config.write_text('[plugins.tickets.options]\nurl = "http://127.0.0.1:9"\n', encoding="utf-8")
    done = run(*check, "--config", config)
    assert done.exit_code == 0, done.output
    assert "tools: tickets_list (network read)" in done.output
    config.write_text("[plugins.tickets.options]\nurls = 1\n", encoding="utf-8")
    assert (
        "--config: plugins.tickets.options.urls: unknown option. Did you mean 'url'?"
        in run(*check, "--config", config).output
    )


@pytest.mark.wheels
def test_the_site_of_our_own_plugins_is_made_of_their_checks(links: Path, tmp_path: Path) -> None:
    rows, out = tmp_path / "rows", tmp_path / "out"
    projects = [tomllib.loads(path.read_text())["project"] for path in PLUGINS.glob("*/pyproject.toml")]
    ours = [project["name"] for project in projects if "deep" in project.get("entry-points", {})]
    command = [sys.executable, "-m", "deep_cli", "plugins", "check", "--find-links", links, "--rows", rows]
    checks = [subprocess.Popen([*command, *half]) for half in (ours[::2], ours[1::2])]
    assert [each.wait() for each in checks] == [0, 0]
    assert f"{len(ours)} distributions" in run("site", rows, "--out", out).output
    index = Page(out / "index.html")
    assert len(index.links) == len(ours)
    assert index.text.count("passed") == len(ours)
    about = Page(out / "deep-todo.html")
    for said in ("Plugin todo: active", "write_todos", "deep_toolsets", "0 failed", "tokens a request"):
        assert said in about.text


TWINS = {
    # name: the showcase, a file, what stands there, what the twin has, and what the check says
    "a module that is not there": (
        "acme-tickets",
        "src/acme_tickets/__init__.py",
        "from deep_core import hookimpl",
        "import acme_missing\nfrom deep_core import hookimpl",
        "tests.test_tickets: ModuleNotFoundError: No module named 'acme_missing'",
    ),
    "a redactor that forgets results": (
        "acme-redactor",
        "src/acme_redactor/history.py",
        "if isinstance(part, ToolReturnPart) and not part.files:",
        "if isinstance(part, ToolReturnPart):\n            return part\n        if isinstance(part, ToolReturnPart):",
        "test_the_model_sees_no_address_from_the_user_or_a_tool",
    ),
    "a tool without a description": (
        "acme-tickets",
        "src/acme_tickets/toolset.py",
        '"""List the open tickets."""',
        "",
        "has no description, so the model does not know when to call it",
    ),
}


@pytest.mark.wheels
@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_twin_fails_with_its_reason(twin: str, links: Path, tmp_path: Path) -> None:
    name, file, old, new, said = TWINS[twin]
    shutil.copytree(SHOWCASES / name, tmp_path / name)
    path = tmp_path / name / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    done = run("check", tmp_path / name, "--find-links", links)
    assert done.exit_code == 1
    assert said in done.output


@pytest.mark.wheels
def test_a_project_is_tried_against_another_pydantic_ai(links: Path, tmp_path: Path) -> None:
    where = ["--folder", SHOWCASES / "acme-redactor", "--find-links", links, "--rows", tmp_path]
    done = run("test-against", "pydantic-ai==0.0.1", *where)
    assert done.exit_code == 1
    assert "cannot be installed together: " in done.output
    assert "pydantic-ai-slim==0.0.1" in done.output
    assert "ResolutionImpossible" not in done.output
