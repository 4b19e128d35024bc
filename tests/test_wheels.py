"""Real wheels in fresh environments: what users have, and what other tests imitate."""

from __future__ import annotations

import json
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import pytest

from tests.environments import BELOW, FIXTURES, Environment
from tests.local_wheels import PROJECTS, of_the_checkout, unpack

pytestmark = pytest.mark.wheels


def project(folder: Path) -> dict[str, Any]:
    """`[project]` of a folder."""
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


NAMES = {project(folder)["name"]: folder for folder in PROJECTS}
FIRST_PARTY = sorted(name for name in NAMES if not name.startswith("acme-"))
MODULES = {"deep-agent-core": "deep_core", "deep-mcp-client": "deep_mcp"}
"""Distribution -> its module, where the index would refuse a distribution called like it."""
PLUGINS = {
    name: sorted(project(NAMES[name]).get("entry-points", {}).get("deep", {}))
    for name in FIRST_PARTY
    if project(NAMES[name]).get("entry-points", {}).get("deep")
}
"""Distribution -> the plugins it brings."""
TOOLS = {
    "deep-filesystem": {"ls", "read_file", "write_file", "edit_file", "glob", "grep", "execute"},
    "deep-todo": {"read_todos", "write_todos"},
    "deep-subagents": {"task"},
    "deep-skills": {"list_skills", "load_skill", "read_skill_resource"},
    "deep-web-tools": {"fetch"},
}
"""What each distribution puts before the model with nothing configured."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Every distribution of the checkout, and the third party's, as a wheel: name -> path."""
    return of_the_checkout(tmp_path_factory)


Install = Callable[..., Environment]


@pytest.fixture
def fresh(tmp_path: Path, wheels: Mapping[str, Path]) -> Install:
    """Makes an environment with these distributions, installed by pip from their wheels."""

    def install(*names: str) -> Environment:
        environment = Environment.create(tmp_path, kernel=False)
        environment.pip("install", *(wheels[name] for name in {*BELOW, *names}))
        return environment

    return install


def offered(report: Mapping[str, Any]) -> set[str]:
    """The tools that the model was shown first."""
    return set(report["tools"][0])


# -- the wheels themselves ---------------------------------------------------------------------------------------------


def metadata(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def test_every_distribution_has_one_version_and_one_range_of_the_kernel(wheels: Mapping[str, Path]) -> None:
    versions = {name: metadata(wheels[name])["Version"] for name in FIRST_PARTY}
    assert set(versions.values()) == {versions["deep-agent-core"]}
    major = int(versions["deep-agent-core"].partition(".")[0])
    below = {r.replace(" ", "") for r in metadata(wheels["deep-agent-core"]).get_all("Requires-Dist", [])}
    assert all(f"{name}<{major + 1},>=" in " ".join(below) for name in BELOW)
    for name in FIRST_PARTY:
        if name not in {"deep-agent-core", *BELOW}:
            requires = [r.replace(" ", "") for r in metadata(wheels[name]).get_all("Requires-Dist", [])]
            (core,) = (requirement for requirement in requires if requirement.startswith("deep-agent-core"))
            ranges = set(core.removeprefix("deep-agent-core").split(","))
            assert f"<{major + 1}" in ranges
            assert any(part.startswith(">=") for part in ranges)


def test_every_wheel_is_typed_and_holds_its_package_alone(wheels: Mapping[str, Path]) -> None:
    for name in FIRST_PARTY:
        with zipfile.ZipFile(wheels[name]) as archive:
            files = [file for file in archive.namelist() if ".dist-info/" not in file]
        packages = {file.partition("/")[0] for file in files}
        if name == "deep-everything":
            assert packages == set()
        else:
            # The script `deep` stands outside the package, whose import Ctrl-C would end with a traceback.
            script = {"deep_command.py"} if name == "deep-cli" else set[str]()
            module = MODULES.get(name, name.replace("-", "_"))
            assert packages == {module, *script}
            assert f"{module}/py.typed" in files
            assert not [file for file in files if file.split("/")[1:2] == ["tests"] or "__pycache__" in file]


def test_deep_everything_depends_on_every_plugin_and_on_the_usual_providers(wheels: Mapping[str, Path]) -> None:
    requires = metadata(wheels["deep-everything"]).get_all("Requires-Dist")
    names = {text.partition(">")[0].partition("<")[0].partition("[")[0].strip() for text in requires}
    assert names >= set(FIRST_PARTY) - {*BELOW} - {
        "deep-acp",
        "deep-everything",
        "deep-durable",
        "deep-mcp-client",
        "deep-trials",
        "pytest-deep",
    }
    assert any("openai" in text and "anthropic" in text for text in requires)


# -- kernel alone, one plugin, all -------------------------------------------------------------------------------------


def test_the_kernel_alone_runs_with_no_tool_and_no_prompt_and_says_how_to_get_some(fresh: Install) -> None:
    report = fresh("deep-agent-core").application()
    assert report["output"] == "done"
    assert report["plugins"] == {}
    assert report["tools"] == [[]]
    assert report["prompts"] == [""]
    assert report["explanation"]["totals"] == {"chars": 0, "tokens": 0}
    (warning,) = report["warnings"]
    assert "pip install deep-everything" in warning


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_the_kernel_and_one_plugin(tmp_path: Path, wheels: Mapping[str, Path], name: str) -> None:
    needed = {
        "deep-acp": ["deep-sessions"],
        "deep-cli": ["deep-sessions"],
        "deep-filesystem": ["deep-backends"],
        "deep-folders": ["deep-skills"],
        "deep-prompted-tools": ["deep-universe"],
        "deep-trials": ["deep-backends", "deep-sessions"],
        "deep-web": ["deep-backends", "deep-filesystem", "deep-sessions", "deep-uploads"],
    }.get(name, [])
    environment = Environment.create(tmp_path, kernel=False)
    unpack((wheels[each] for each in {*BELOW, "deep-agent-core", *needed, name}), environment.site)
    report = environment.application()
    active = [plugin for distribution in (*needed, name) for plugin in PLUGINS[distribution]]
    assert report["output"] == "done"
    assert report["plugins"] == {plugin: ["active", ""] for plugin in active}
    assert report["warnings"] == []
    hidden = {"execute"} if "deep-backends" in needed else set[str]()  # the memory backend runs no command
    assert offered(report) == {tool for each in (*needed, name) for tool in TOOLS.get(each, ())} - hidden
    for part in ("sections", "tools", "history_processors"):
        assert {item["plugin"] for item in report["explanation"][part]} <= set(active)


def test_all_of_them_then_one_uninstalled_and_the_same_application_again(
    fresh: Install, wheels: Mapping[str, Path]
) -> None:
    environment = fresh(*FIRST_PARTY)
    everything = environment.application()
    names = [plugin for name in PLUGINS for plugin in PLUGINS[name]]
    assert everything["plugins"] == {plugin: ["active", ""] for plugin in sorted(names)}
    assert everything["warnings"] == []
    # The default backend keeps files in memory and runs no commands.
    assert offered(everything) == set().union(*(TOOLS[name] for name in TOOLS if name in PLUGINS)) - {"execute"}

    environment.pip("uninstall", "deep-todo")
    without = environment.application()
    assert without["output"] == "done"
    assert "todo" not in without["plugins"]
    assert offered(without) == offered(everything) - TOOLS["deep-todo"]
    kept = [tool for tool in everything["explanation"]["tools"] if tool["plugin"] != "todo"]
    (task,) = [tool for tool in kept if tool["name"] == "task"]
    task["tags"].remove("plan")  # it carries the tags of what its children may call
    assert without["explanation"]["tools"] == kept

    environment.pip("install", wheels["deep-todo"])
    task["tags"].insert(-1, "plan")
    assert environment.application() == everything


# -- a third party's plugin, with the command line ---------------------------------------------------------------------


def command_line(environment: Environment, *arguments: str) -> Any:
    """Run the installed command `deep`; returns its JSON."""
    return json.loads(environment.run(environment.scripts / "deep", *arguments).ok().out)


def test_a_third_partys_plugin_comes_and_goes_in_every_view(fresh: Install, wheels: Mapping[str, Path]) -> None:
    environment = fresh("deep-agent-core", "deep-cli", "deep-sessions")
    before = command_line(environment, "explain", "--json")
    assert environment.run(environment.scripts / "deep", "weather", "Paris").code == 2

    environment.pip("install", wheels["acme-weather"])
    plugins = {plugin["name"]: plugin for plugin in command_line(environment, "plugins", "list", "--json")["plugins"]}
    assert {key: plugins["weather"][key] for key in ("distribution", "version", "status", "reason", "editable")} == {
        "distribution": "acme-weather",
        "version": "0.3.0",
        "status": "active",
        "reason": "",
        "editable": False,
    }
    assert Path(plugins["weather"]["path"]) == environment.site.resolve()
    explained = command_line(environment, "explain", "--json")
    mine = {
        part: sorted(item.get("name") or item["id"] for item in explained[part] if item["plugin"] == "weather")
        for part in ("sections", "tools", "history_processors", "capabilities")
    }
    assert mine == {
        "sections": ["favourites", "instructions", "units"],
        "tools": ["forecast", "save_city"],
        "history_processors": ["station_keys"],
        "capabilities": ["weather.Station.1"],
    }
    assert environment.run(environment.scripts / "deep", "weather", "Paris").ok().out == "Paris: sunny\n"
    assert "weather" in environment.run(environment.scripts / "deep", "--help").ok().out

    environment.pip("uninstall", "acme-weather")
    assert command_line(environment, "explain", "--json") == before
    assert "weather" not in {p["name"] for p in command_line(environment, "plugins", "list", "--json")["plugins"]}
    assert environment.run(environment.scripts / "deep", "weather", "Paris").code == 2


def test_the_installed_command_never_runs_what_lies_in_the_working_directory(
    fresh: Install, wheels: Mapping[str, Path]
) -> None:
    environment = fresh("deep-agent-core", "deep-cli", "deep-sessions", "acme-weather")
    ran = "import pathlib; pathlib.Path(__file__).with_name('RAN').touch()\n"
    for name in ("acme_weather.py", "acme_forged.py", "deep_core.py", "click.py"):
        (environment.work / name).write_text(ran, encoding="utf-8")
    folder = environment.work / "acme_forged-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-forged\nVersion: 1.0\n", encoding="utf-8")
    (folder / "entry_points.txt").write_text("[deep]\nforged = acme_forged\n", encoding="utf-8")
    listed = command_line(environment, "plugins", "list", "--json")["plugins"]
    assert {plugin["name"]: plugin["status"] for plugin in listed} == {
        "cli": "active",
        "sessions": "active",
        "weather": "active",
    }
    assert command_line(environment, "explain", "--json")["tools"]
    environment.run(environment.scripts / "deep", "doctor", "--json")
    assert not (environment.work / "RAN").exists()


# -- an editable install -----------------------------------------------------------------------------------------------


def test_a_real_editable_install_is_found(fresh: Install, tmp_path: Path) -> None:
    environment = fresh("deep-agent-core")
    copy = tmp_path / "checkout of acme weather"
    files = (path for path in (FIXTURES / "acme-weather").rglob("*") if path.is_file() and path.suffix != ".pyc")
    for path in files:
        target = copy / path.relative_to(FIXTURES / "acme-weather")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    environment.pip("install", "--no-build-isolation", "--editable", copy)
    weather = environment.loaded()["weather"]
    assert (weather["status"], weather["editable"]) == ("active", True)
    assert Path(weather["path"]) == copy.resolve()
    assert offered(environment.application()) == {"forecast", "save_city"}
