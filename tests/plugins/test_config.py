"""Configuration: where it comes from, who wins, what a project may say, and how a mistake is told."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field
from pydantic_ai import DeferredToolRequests, FunctionToolset
from pydantic_ai.models.test import TestModel

from deep_core import ConfigError, Kernel, PluginOptions, PluginWarning
from deep_core.agent.config import agent_values
from deep_core.plugins.config import load_config
from deep_core.plugins.config_file import ConfigFile, project_files, user_file
from tests.plugins_by_hand import Tools, agent_of, kernel_of, plugin, run, scripted
from tests.stubs import Call

WEATHER = "weather"


class WeatherOptions(PluginOptions):
    unit: str = Field(default="celsius", json_schema_extra={"project": "free"})
    """Of temperatures."""
    days: int = Field(default=3, json_schema_extra={"project": "free"})
    """Of a forecast."""
    key: str = ""
    """Of the service."""


class Project:
    """A working directory with a project's file, and a user's file beside it in the home."""

    def __init__(self, folder: Path, site: Path) -> None:
        self.folder = folder
        self.site = site
        self.tools = Tools("forecast", tags=["read"]).add("report", tags=["write"])
        self.tools.add("launch", requires_approval=True)
        self.options: list[WeatherOptions] = []

    def file(self, text: str) -> Path:
        path = self.folder / "deep.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def user(self, text: str) -> None:
        user_file().parent.mkdir(parents=True, exist_ok=True)
        user_file().write_text(text, encoding="utf-8")

    def toolsets(self, context: Any) -> list[FunctionToolset[Any]]:
        self.options.append(context.options(WeatherOptions))
        return [self.tools.toolset]

    def kernel(self, *more: object, **how: Any) -> Kernel:
        """As an application makes one: files and environment are read, and nothing is installed."""
        weather = plugin(WEATHER, options=WeatherOptions, toolsets=self.toolsets)
        return Kernel(plugins=[weather, *more], **how)

    def asking(self, kernel: Kernel, **how: Any) -> set[str]:
        """The tools that wait for a person."""
        asking: set[str] = set()
        for name in ("forecast", "report", "launch"):
            result = run(kernel.create_agent(scripted(Call(name, {})), **how))
            if isinstance(result.output, DeferredToolRequests):
                asking.add(name)
        return asking


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr("entry_point_index.index.site_directories", lambda: [str(site)])
    warnings.filterwarnings("ignore", message=".*no plugin is installed.*")
    return Project(folder, site)


def options(kernel: Kernel, project: Project, **how: Any) -> WeatherOptions:
    kernel.create_agent(scripted(), **how)
    return project.options[-1]


# -- who wins --------------------------------------------------------------------------------------------------------


def test_code_wins_over_environment_over_project_over_user(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def days(**how: Any) -> int:
        return options(project.kernel(), project, **how).days

    assert days() == 3
    project.user("[plugins.weather.options]\ndays = 4\nunit = 'kelvin'")
    assert days() == 4
    project.file("[plugins.weather.options]\ndays = 5")
    assert days() == 5
    monkeypatch.setenv("DEEP_PLUGINS__WEATHER__OPTIONS__DAYS", "6")
    assert days() == 6
    assert options(project.kernel(config={"plugins": {"weather": {"options": {"days": 7}}}}), project).days == 7
    assert days(weather={"days": 8}) == 8
    assert days(plugins=[WeatherOptions(days=9)]) == 9
    assert options(project.kernel(), project).unit == "kelvin"  # what nobody else says, the user says


def test_each_value_knows_its_source(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.user('[plugins.weather]\nprefix = "w"\norder = 3')
    project.file("[plugins.weather.options]\ndays = 5")
    monkeypatch.setenv("DEEP_PLUGINS__WEATHER__ORDER", "4")
    settings = load_config().plugin(WEATHER)
    assert (settings.order, settings.prefix, settings.options) == (4, "w", {})
    assert settings.sources["order"] == "environment"
    assert settings.sources["prefix"] == str(user_file())
    ((days, source),) = settings.project_options.values()
    assert days == 5
    assert Path(source).samefile(project.folder / "deep.toml")


def test_the_environment_reaches_nested_keys(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, text in {
        "DEEP_MODEL": "openai:gpt-5",
        "DEEP_AGENT__MODEL__TEMPERATURE": "0.5",
        "DEEP_AGENT__IDENTITY__NAME": "ada",
        "DEEP_AGENT__TOOL_FILTER": "read | write",
        "DEEP_AGENT__INTERRUPT_ON": "{report = true}",
        "DEEP_PLUGINS__WEATHER__REQUIRE_APPROVAL": "true",
        "DEEP_PLUGINS__WEATHER__TOOLS": "read",
        "DEEP_PLUGINS__WEATHER__OPTIONS__UNIT": "kelvin",
    }.items():
        monkeypatch.setenv(key, text)
    config = load_config()
    merged, sources = agent_values(config)
    settings = config.plugin(WEATHER)
    assert merged["identity"] == {"name": "ada"}
    assert merged["tool_filter"] == "read | write"
    assert merged["interrupt_on"] == {"report": True}
    assert (settings.require_approval, settings.tools, settings.options["unit"]) == (True, "read", "kelvin")
    assert set(sources.values()) == {"environment"}


def test_the_model_and_a_key_of_it_can_both_stand_in_the_environment(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEP_MODEL", "test")
    monkeypatch.setenv("DEEP_AGENT__MODEL__TEMPERATURE", "0.5")
    agent = project.kernel().create_agent()
    assert isinstance(agent.model, TestModel)
    assert (agent.model_settings or {}).get("temperature") == 0.5  # type: ignore[union-attr]


def test_a_model_that_is_a_whole_name_takes_no_provider_of_another_layer(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.user("[agent.model]\nprovider = 'anthropic'\nmodel = 'claude-sonnet-4-5'\ntemperature = 0.5")
    monkeypatch.setenv("DEEP_MODEL", "test")
    agent = project.kernel().create_agent()
    assert isinstance(agent.model, TestModel)
    assert (agent.model_settings or {}).get("temperature") == 0.5  # type: ignore[union-attr]


def test_the_model_may_be_written_as_any_key_of_the_environment(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEP_AGENT__MODEL", "openai:gpt-5")
    monkeypatch.setenv("DEEP_AGENT__MODEL__TEMPERATURE", "0.5")
    merged, _ = agent_values(load_config())
    assert merged["model"] == {"provider": "openai", "model": "gpt-5", "temperature": 0.5}


def test_disable_adds_up_and_allow_is_the_strongest_layers(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.user('[plugins]\ndisable = ["a"]\nallow = ["a", "b"]')
    monkeypatch.setenv("DEEP_PLUGINS_DISABLE", "b, c")
    monkeypatch.setenv("DEEP_PLUGINS_ALLOW", "c")
    config = load_config({"plugins": {"disable": ["d"]}})
    assert [name for name, _ in config.plugin_list("disable") or ()] == ["d", "b", "c", "a"]
    assert [name for name, _ in config.plugin_list("allow") or ()] == ["c"]


def test_pyproject_has_a_table_of_its_own(project: Project) -> None:
    (project.folder / "pyproject.toml").write_text(
        "[project]\nname = 'x'\n[tool.deep.plugins.weather.options]\ndays = 5\n"
    )
    assert options(project.kernel(), project).days == 5
    project.file("[plugins.weather.options]\ndays = 6")
    assert options(project.kernel(), project).days == 6


@pytest.mark.parametrize("other", ["[tool.deepeval]\nx = 1", "# see [tool.deep]\n[project]\nname = 'x'"])
def test_a_pyproject_of_others_is_not_ours(project: Project, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    path = project.file("[plugins.weather.options]\ndays = 5")
    inner = project.folder / "inner"
    inner.mkdir()
    (inner / "pyproject.toml").write_text(other)
    monkeypatch.chdir(inner)
    assert next(project_files()).path.samefile(path)


def test_a_pyproject_whose_table_is_none_is_one_clear_error(project: Project) -> None:
    (project.folder / "pyproject.toml").write_text("[[tool.deep]]\nx = 1")
    with pytest.raises(ConfigError, match=r"pyproject\.toml: \[tool\.deep\] must be a table"):
        project.kernel()


def test_the_projects_file_is_looked_for_up_to_the_repository(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = project.folder / "a" / "b"
    inner.mkdir(parents=True)
    (project.folder.parent / "deep.toml").write_text("[plugins.weather.options]\ndays = 99")
    monkeypatch.chdir(inner)
    assert list(project_files()) == []
    path = project.file("[plugins.weather.options]\ndays = 5")
    assert next(project_files()).path.samefile(path)


def test_a_file_named_by_code_must_be_there(project: Project) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml"):
        project.kernel(config="absent.toml")


# -- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[plugin.weather]\nprefix = 'w'", ["'plugin'", "Did you mean 'plugins'"]),
        ("[plugins.weather]\nprefx = 'w'", ["plugins.weather.prefx", "Did you mean 'prefix'"]),
        ("[plugins.weather]\napprove = true", ["plugins.weather.approve", "Did you mean 'require_approval'"]),
        ("[plugins.weather]\nprefix = 3", ["plugins.weather.prefix", "text"]),
        ("[plugins.weather]\nenabled = 'no'", ["plugins.weather.enabled", "true or false"]),
        ("[plugins.weather]\norder = 'first'", ["plugins.weather.order", "number"]),
        ("[plugins.weather]\norder = true", ["plugins.weather.order", "number"]),
        ("[plugins.weather]\nreplaces = 'a:b'", ["plugins.weather.replaces", "list"]),
        ("[plugins.weather]\nreplaces = [3]", ["plugins.weather.replaces", "list"]),
        ("[plugins.weather]\noptions = 3", ["plugins.weather.options", "table"]),
        ("[plugins.weather]\nprefix = 'not a name'", ["plugins.weather.prefix"]),
        ("[plugins]\nweather = 3", ["plugins.weather", "table"]),
        ("[plugins]\ndisable = 'weather'", ["plugins.disable", "list"]),
        ("[plugins.weather.options]\ndayz = 3", ["plugins.weather.options.dayz", "Did you mean 'days'"]),
        ("[plugins.weather.options]\ndays = 'x'", ["plugins.weather.options.days", "integer"]),
        ("[agent]\nmodl = 'x'", ["agent.modl", "Did you mean 'model'"]),
        ("[agent.model]\ntemperatur = 1", ["agent.model.temperatur", "Did you mean 'temperature'"]),
        ("[agent.model]\ntemperature = 9", ["agent.model.temperature", "less than or equal to 2"]),
        ("[agent.tools_policy]\nenabled = 'maybe'", ["agent.tools_policy.enabled"]),
        ("[agent]\nschema_version = 2", ["agent.schema_version"]),
        ("[agent]\ninterrupt_on = 3", ["agent.interrupt_on"]),
        ("agent = 3", ["agent", "table"]),
        ("[agent", ["deep.toml"]),
        ("\x00", ["deep.toml"]),
    ],
)
def test_a_mistake_is_one_clear_error_with_its_path(project: Project, text: str, says: list[str]) -> None:
    path = project.file(text)
    ConfigFile.read(path).trust()
    for given in ({"config": path}, {}):
        with pytest.raises(ConfigError) as caught:
            project.kernel(**given).create_agent(scripted())
        for part in [*says, "deep.toml"]:
            assert part in str(caught.value)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"agnt": {"tool_filter": "read"}}, "code: unknown table 'agnt'. Did you mean 'agent'?"),
        ({"tool_filter": "read"}, "code: unknown table 'tool_filter'. Known: agent, plugins"),
        ({"interrupt_on": {"execute": True}}, "code: unknown table 'interrupt_on'. Known: agent, plugins"),
        ({"agent": "test"}, "code: agent must be a table"),
        ({"plugins": {"todo": False}}, "code: plugins.todo must be a table"),
    ],
)
def test_a_mapping_is_read_as_a_file_is(config: dict[str, Any], says: str) -> None:
    for make in (
        lambda: Kernel(discover=False, config=config),
        lambda: kernel_of().create_agent("test", config=config),
    ):
        with pytest.raises(ConfigError, match=re.escape(says)):
            make()


def test_a_file_that_is_not_text_is_one_clear_error(project: Project) -> None:
    (project.folder / "deep.toml").write_bytes(b"\xff\xfe[agent]")
    with pytest.raises(ConfigError, match=r"deep\.toml"):
        project.kernel()


def test_a_plugins_section_in_the_environment_is_not_a_word(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEP_PLUGINS__WEATHER", "off")
    with pytest.raises(ConfigError, match=r"environment: plugins\.weather must be a table"):
        project.kernel()


@pytest.mark.parametrize("name", ["DEEP_PLUGINS__WEATHER__PREFX", "DEEP_AGENT__MODL"])
def test_a_mistake_in_the_environment_is_reported_as_one(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "x")
    with pytest.raises(ConfigError, match=r"environment: .*(prefx|modl).*Did you mean"):
        project.kernel().create_agent(scripted())


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("DEEP_PLUGINS__WEATHER", "environment: plugins.weather must be a table"),
        ("DEEP_PLUGINS__WEATHER__OPTIONS", "environment: plugins.weather.options is both a value and a table"),
    ],
)
def test_a_variable_that_is_no_table_is_one_clear_error(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    monkeypatch.setenv(name, "x")
    if name.endswith("OPTIONS"):
        monkeypatch.setenv(f"{name}__DAYS", "3")
    with pytest.raises(ConfigError, match=re.escape(says)):
        project.kernel()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"agnet": {"tool_filter": "read"}}, "code: unknown table 'agnet'. Did you mean 'agent'?"),
        ({"agent": 3}, "code: agent must be a table"),
        ({"plugins": {"weather": 3}}, "code: plugins.weather must be a table; lists are allow, disable, require"),
    ],
)
def test_what_code_gives_is_checked_like_a_file(project: Project, config: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        project.kernel(config=config)
    with pytest.raises(ConfigError, match=re.escape(says)):
        project.kernel().create_agent(scripted(), config=config)


def test_options_for_a_plugin_without_options_are_an_error(project: Project) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.plain|plugin plain"):
        agent_of(plugin("plain", toolsets=[]), config={"plugins": {"plain": {"options": {"a": 1}}}})


def test_a_section_left_over_is_a_warning(project: Project) -> None:
    project.file("[plugins.wether]\nrequire_approval = true")
    with pytest.warns(PluginWarning, match=r"\[plugins\.wether\].*not installed.*Did you mean 'weather'"):
        project.kernel()
