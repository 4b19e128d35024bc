"""`deep new`: a plugin from the template, asked for or said in flags; all of it or nothing."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deep_cli.plugins.naming import plugin_problem, suggest_name
from hypothesis import example, given
from hypothesis import strategies as st

from tests.environments import REPOSITORY, Distribution

KINDS = ["toolset", "backend", "history_processor", "skill_loader", "prompt_section", "capability", "state"]
KINDS += ["session_method", "check_call", "run_event", "hook", "command"]


@pytest.fixture
def deep(make_deep: Callable[..., Any]) -> Any:
    """The command with the template, as in its wheel."""
    found = make_deep()
    shutil.copytree(REPOSITORY / "cookiecutter-plugin", found.environment.site / "deep_cli" / "cookiecutter-plugin")
    return found


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def modules(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("src/*/*.py")} - {"__init__", "options"}


def test_a_name_is_enough_and_the_plugin_is_seen_by_an_agent(deep: Any) -> None:
    done = deep("new", "weather").ok()
    folder = deep.work / "deep-weather"
    assert done.out == (
        "Made deep-weather: the plugin weather (toolset).\n"
        "\n"
        "Next:\n"
        "  cd deep-weather\n"
        "  pip install -e '.[dev]'\n"
        "  pytest\n"
        "  deep explain\n"
    )
    assert project(folder)["entry-points"] == {"deep": {"weather": "deep_weather"}}
    assert list(deep.work.iterdir()) == [folder]

    deep.environment.install(Distribution.of_project(folder))
    listed = json.loads(deep("plugins", "list", "--json").ok().out)["plugins"]
    assert {p["name"]: p["status"] for p in listed} == {"cli": "active", "sessions": "active", "weather": "active"}
    explain_error = json.loads(deep("explain", "--json").ok().out)
    assert [(tool["name"], tool["plugin"]) for tool in explain_error["tools"]] == [("weather_lookup", "weather")]


@pytest.mark.slow
def test_everything_can_be_said_in_flags(deep: Any) -> None:
    deep(
        *(
            "new",
            "weather",
            "--with",
            "backend,prompt-section",
            "--with",
            "command",
            "--description",
            "The sky's moods.",
        ),
        *(
            "--distribution",
            "acme-weather",
            "--module",
            "acme_sky",
            "--author",
            "Ann Lee",
            "--email",
            "ann@example.org",
        ),
        *("--license", "Apache-2.0", "--output-dir", "made/here", "--no-input"),
    ).ok()
    folder = deep.work / "made" / "here" / "acme-weather"
    found = project(folder)
    assert found["name"] == "acme-weather"
    assert found["description"] == "The sky's moods."
    assert found["authors"] == [{"name": "Ann Lee", "email": "ann@example.org"}]
    assert found["license"] == "Apache-2.0"
    assert found["entry-points"] == {
        "deep": {"weather": "acme_sky"},
        "deep.commands": {"weather": "acme_sky.command:command"},
    }
    assert modules(folder) == {"backend", "sections", "command"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "distribution", "plugin", "module"),
    [
        ("deep-sqlnotes", "deep-sqlnotes", "sqlnotes", "deep_sqlnotes"),
        ("deep_sqlnotes", "deep-sqlnotes", "sqlnotes", "deep_sqlnotes"),
        ("deep-deep-sql_notes", "deep-sql-notes", "sql_notes", "deep_sql_notes"),
        ("acme-weather", "acme-weather", "acme_weather", "acme_weather"),
    ],
)
def test_a_distributions_name_tells_the_plugins(
    deep: Any, typed: str, distribution: str, plugin: str, module: str
) -> None:
    done = deep("new", typed).ok()
    assert done.out.startswith(f"Made {distribution}: the plugin {plugin} (toolset).\n")
    found = project(deep.work / distribution)
    assert (found["name"], found["entry-points"]) == (distribution, {"deep": {plugin: module}})


@pytest.mark.slow
def test_a_distribution_that_was_named_wins_over_one_that_was_meant(deep: Any) -> None:
    deep("new", "acme-weather", "--distribution", "weather-of-acme").ok()
    assert project(deep.work / "weather-of-acme")["entry-points"] == {"deep": {"acme_weather": "weather_of_acme"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "made"),
    [
        (
            ["all"],
            {"toolset", "backend", "history", "skills", "sections", "capability", "command"}
            | {"state", "session", "checks", "events", "hookspecs"},
        ),
        (["session-method"], {"state", "session"}),
        (["hook", "run_event,check_call"], {"hookspecs", "sections", "events", "checks"}),
        (["none"], set()),
        (["history-processor , toolset"], {"history", "toolset"}),
    ],
)
def test_kinds_are_named_together(deep: Any, said: list[str], made: set[str]) -> None:
    deep("new", "weather", *(word for kinds in said for word in ("--with", kinds))).ok()
    assert modules(deep.work / "deep-weather") == made


def test_a_kind_that_is_not_there_is_an_error_with_those_that_are(deep: Any) -> None:
    done = deep("new", "weather", "--with", "toolset,tolset")
    assert done.code == 2
    assert "'tolset' is not a kind of contribution. Did you mean 'toolset'? There are: toolset, backend" in done.err
    assert not list(deep.work.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Weather-Report"], "deep: PLUGIN: 'Weather-Report' must be lower-case letters, digits and _, at most 40, "),
        (["Weather-Report"], "a letter first. Try: weather_report\n"),
        (["My Plugin"], "Try: my_plugin\n"),
        (["Deep Weather"], "Try: weather\n"),
        (["deep"], "Try: my_deep\n"),
        (["skills"], "deep: --distribution: 'deep-skills' is one of deep's own distributions"),
        (["skills"], "Try: my-skills\n"),
        (["tools"], "deep: PLUGIN: 'tools' is reserved: it is a parameter of create_deep_agent"),
        (["tools"], "Try: my_tools\n"),
        (["in"], "deep: PLUGIN: 'in' is a Python keyword: create_deep_agent(in=…) would not parse. Try: my_in\n"),
        (["explain", "--with", "command"], "'explain' would hide the command deep explain. Try: my_explain\n"),
        (["weather", "--module", "json"], "deep: --module: 'json' is another module's name. Try: deep_json_plugin\n"),
        (["weather", "--module", "acme-weather"], "--module: 'acme-weather' must be letters, digits and _"),
        (["weather", "--distribution", "-weather"], "--distribution: '-weather' must be letters, digits"),
        (["weather", "--author", 'Ann "A" Lee'], "must not have a quote, a backslash or a line break"),
    ],
)
def test_a_bad_name_is_an_error_with_what_would_do(deep: Any, arguments: list[str], said: str) -> None:
    done = deep("new", *arguments)
    assert done.code == 2
    assert said in done.err
    assert not list(deep.work.iterdir())


@given(st.text(max_size=60))
@example("deep_9_deep_x")
@example("Deep-Tools")
def test_a_suggested_name_is_a_good_one(name: str) -> None:
    problem = plugin_problem(name, KINDS)
    if problem:
        assert plugin_problem(problem.rpartition("Try: ")[2], KINDS) == ""
        assert suggest_name(name, ()).isascii()


@pytest.mark.slow
def test_what_exists_is_left_as_it_is(deep: Any) -> None:
    mine = deep.work / "deep-weather" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    done = deep("new", "weather")
    assert done.code == 2
    assert done.err.startswith("deep: deep-weather exists; move it away")
    assert [path.name for path in deep.work.rglob("*")] == ["deep-weather", "mine.txt"]

    (deep.work / "deep-sky").symlink_to("nowhere")
    assert deep("new", "sky").code == 2


@pytest.mark.slow
def test_nothing_half_made_is_left_when_writing_fails(deep: Any) -> None:
    done = deep("new", "weather", "--distribution", "w" * 300)
    assert done.code == 1
    assert "File name too long" in done.err
    assert not list(deep.work.iterdir())
    (deep.work / "file").touch()
    assert deep("new", "weather", "--output-dir", "file").code == 2
    assert deep("new", "weather", "--output-dir", "file/in/it").code == 1
    assert [path.name for path in deep.work.iterdir()] == ["file"]


@pytest.mark.slow
def test_a_plugin_of_that_name_that_is_there_already_is_reported(deep: Any) -> None:
    deep.environment.install(Distribution("acme-weather", {"weather": "acme_weather"}, {"acme_weather.py": ""}))
    assert "note: acme-weather already has a plugin weather;" in deep("new", "weather").ok().err


@pytest.mark.slow
@pytest.mark.needs("git")
def test_the_author_is_the_one_that_git_knows(deep: Any) -> None:
    (deep.environment.home / ".gitconfig").write_text("[user]\nname = Ann Lee\n", encoding="utf-8")
    deep("new", "weather").ok()
    assert project(deep.work / "deep-weather")["authors"] == [{"name": "Ann Lee"}]


@pytest.mark.slow
def test_on_a_terminal_what_was_not_said_is_asked_and_a_bad_answer_again(deep: Any) -> None:
    done = deep.typed(
        *("new", "weather", "--author", "Ann Lee"),
        answers=[
            ("one sentence [Weather for deep agents.]: ", "\n"),
            ("as pip knows it [deep-weather]: ", "acme weather\n"),
            ("as pip knows it [deep-weather]: ", "acme-weather\n"),
            ("Python package [acme_weather]: ", "\n"),
            ("E-mail", "\n"),
            ("License", "BSD-3-Clause\n"),
            ("or none [toolset]: ", "capability\n"),
        ],
        env={},
    )
    assert done.code == 0, done.out
    assert "'acme weather' must be letters, digits, - and _" in done.out
    assert "A backend: where the agent keeps files and runs commands" in done.out
    folder = deep.work / "acme-weather"
    assert project(folder)["license"] == "BSD-3-Clause"
    assert project(folder)["authors"] == [{"name": "Ann Lee"}]
    assert modules(folder) == {"capability"}


@pytest.mark.slow
def test_with_no_input_a_terminal_asks_nothing(deep: Any) -> None:
    done = deep.typed("new", "weather", "--no-input", answers=[], env={})
    assert done.code == 0, done.out
    assert modules(deep.work / "deep-weather") == {"toolset"}


def test_an_installation_without_the_template_says_how_to_fix_it(make_deep: Callable[..., Any]) -> None:
    done = make_deep()("new", "weather")
    assert done.code == 1
    assert "reinstall deep-cli: pip install --force-reinstall --no-deps deep-cli" in done.err


@pytest.mark.slow
def test_only_this_command_loads_the_template_language(deep: Any) -> None:
    code = """
import sys
from deep_cli.main import main
try:
    main({arguments!r})
except SystemExit:
    answer("jinja2" in sys.modules)
"""
    loads = {
        name: deep.environment.ask(code.format(arguments=arguments), flags=["-P"])
        for name, arguments in {"list": ["plugins", "list"], "help": ["--help"], "new": ["new", "weather"]}.items()
    }
    assert loads == {"list": False, "help": False, "new": True}
