"""Entries of the configuration: what they may say, what each becomes, and that a bad one costs itself."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from deep_capabilities import distributions, named_capabilities
from deep_capabilities.commands import capabilities as command
from deep_cli.doctor.checks import examine
from pydantic_ai import FunctionToolset
from pydantic_ai.capabilities import AbstractCapability, CombinedCapability, HandleDeferredToolCalls

from deep_core import Kernel, MissingExtra, PluginError, PluginWarning, create_default_deps
from deep_core.plugin_api import ConfigLayer, restrict
from tests.plugins_by_hand import Tools, pending, plugin, returns, run, scripted
from tests.stubs import Call

PLUGIN = "named_capabilities"
HERE = "plugins.capabilities.tests.test_entries"


@dataclass
class Weather(AbstractCapability[Any]):
    """Tells the weather.

    More of it.
    """

    unit: str = "celsius"
    every: timedelta = timedelta(hours=1)
    folder: Path | None = None
    names: list[str] = field(default_factory=list)
    store: Any = None

    def get_instructions(self) -> str:
        return f"In {self.unit}, every {self.every}."

    def get_toolset(self) -> FunctionToolset[Any]:
        toolset = FunctionToolset[Any](id="weather")
        toolset.add_function(self.forecast, name="forecast", metadata={"tags": ["read"]})
        toolset.add_function(self.erase, name="erase")
        toolset.add_function(self.shell, name="shell", metadata={"code_arg_name": "command"})
        return toolset

    def forecast(self, city: str) -> str:
        return f"sun in {city}"

    def erase(self) -> str:
        return "erased"

    def shell(self, command: str) -> str:
        return f"ran {command}"


@dataclass
class Broken(AbstractCapability[Any]):
    def get_toolset(self) -> Any:
        async def fail(ctx: Any) -> Any:
            raise OSError("no network")

        return fail


class Approver(HandleDeferredToolCalls[Any]):
    def __init__(self) -> None:
        super().__init__(handler=lambda ctx, requests: None)


class Both(CombinedCapability[Any]):
    def __init__(self) -> None:
        super().__init__([Weather(), HandleNothing()])


class HandleNothing(AbstractCapability[Any]):
    def get_instructions(self) -> str:
        return "Be brief."


def need_extra() -> Any:
    raise MissingExtra("weather[radar]")


class NeedsExtra(AbstractCapability[Any]):
    def __init__(self) -> None:
        need_extra()


WEATHER = {"use": f"{HERE}:Weather"}


def kernel_with(entries: dict[str, Any], *plugins: object, agent: dict[str, Any] | None = None, **how: Any) -> Kernel:
    config = {"agent": agent or {}, "plugins": {PLUGIN: {"options": {"entries": entries}}}}
    return Kernel(plugins=[named_capabilities, *plugins], discover=False, config=config, **how)


@contextmanager
def said() -> Iterator[list[str]]:
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    found += [str(each.message) for each in caught if each.category is PluginWarning]


@pytest.mark.slow
def test_a_capability_by_name_is_attributed_gated_and_counted() -> None:
    options = {"unit": "kelvin", "every": "PT5M", "folder": "/tmp", "names": ["a"]}
    with kernel_with({"w": {**WEATHER, "options": options}, "think": {"use": "Thinking"}}) as kernel:
        agent = kernel.create_agent(scripted())
        found = kernel.explain(agent)
    tools = {tool.name: (tool.plugin, tool.approval, tool.tags) for tool in found.tools}
    assert tools == {
        "forecast": (PLUGIN, "never", ("read",)),
        "erase": (PLUGIN, "never", ("write",)),
        "shell": (PLUGIN, "always", ("execute",)),
    }
    assert [(s.plugin, s.chars) for s in found.sections] == [(PLUGIN, len("In kelvin, every 0:05:00."))]
    assert [c for c in found.capabilities if c["plugin"] == PLUGIN] == [
        {"id": f"{PLUGIN}.w", "plugin": PLUGIN},
        {"id": "thinking", "plugin": PLUGIN},
    ]
    assert found.by_plugin()[PLUGIN] > 0


def test_without_an_entry_it_costs_nothing() -> None:
    with kernel_with({}) as kernel:
        assert PLUGIN not in kernel.explain(kernel.create_agent(scripted())).by_plugin()


@pytest.mark.slow
def test_what_an_entry_says_of_its_tools_holds() -> None:
    entry = {
        **WEATHER,
        "prefix": "w",
        "tools": "~name:erase",
        "require_approval": "name:forecast",
        "tags": {"shell": ["write", "network"]},
    }
    with kernel_with({"w": entry}) as kernel:
        agent = kernel.create_agent(
            scripted([Call("w_forecast", {"city": "Oslo"}, id="c1"), Call("w_shell", {"command": "x"})])
        )
        tools = {tool.name: (tool.approval, tool.tags) for tool in kernel.explain(agent).tools}
        assert tools == {"w_forecast": ("always", ("read",)), "w_shell": ("never", ("write", "network"))}
        deps = create_default_deps(kernel=kernel)
        asked = run(agent, deps=deps)
        results = pending(asked).build_results(approve_all=True)
        done = run(agent, None, deps, message_history=asked.all_messages(), deferred_tool_results=results)
        assert sorted(str(part.content) for part in returns(done.all_messages())) == ["ran x", "sun in Oslo"]
    with kernel_with({"w": {**WEATHER, "require_approval": False, "defer": "name:erase"}}) as kernel:
        found = kernel.explain(kernel.create_agent(scripted())).tools
        assert {tool.name: (tool.approval, tool.deferred) for tool in found if tool.plugin == PLUGIN} == {
            "forecast": ("never", False),
            "erase": ("never", True),
            "shell": ("never", False),
        }


def test_the_settings_of_the_plugin_hold_for_all_entries() -> None:
    config = {PLUGIN: {"prefix": "c", "require_approval": "read", "options": {"entries": {"w": WEATHER}}}}
    with Kernel(plugins=[named_capabilities], discover=False, config={"plugins": config}) as kernel:
        found = kernel.explain(kernel.create_agent(scripted())).tools
    assert {tool.name: tool.approval for tool in found} == {
        "c_forecast": "always",
        "c_erase": "never",
        "c_shell": "always",
    }


@pytest.mark.slow
def test_forms_of_agent_specs_and_objects_in_options() -> None:
    entries = {
        "short": {"use": {"Thinking": "high"}},
        "long": {"use": {f"{HERE}:Weather": {"unit": "kelvin"}}, "prefix": "a"},
        "object": {**WEATHER, "prefix": "b", "options": {"store": {"use": "collections:OrderedDict", "options": {}}}},
        "both": {"use": f"{HERE}:Both", "prefix": "d"},
    }
    with said() as warned, kernel_with(entries) as kernel:
        found = kernel.explain(kernel.create_agent(scripted()))
    assert warned == []
    assert {tool.plugin for tool in found.tools} == {PLUGIN}
    assert {section.plugin for section in found.sections} == {PLUGIN}
    ids = [item["id"] for item in found.capabilities if item["plugin"] == PLUGIN]
    assert {f"{PLUGIN}.both.0", f"{PLUGIN}.both.1", f"{PLUGIN}.object"} <= set(ids)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "status", "says"),
    [
        ({"use": "Thinkin"}, "invalid", "Did you mean 'Thinking'?"),
        ({"use": f"{HERE}:Wether"}, "invalid", "Did you mean 'Weather'?"),
        ({"use": f"{HERE}:Tools"}, "invalid", "is not a capability"),
        ({"use": "no_such_package_here:X"}, "needs-package", "pip install no-such-package-here"),
        ({"use": "json.nowhere:X"}, "invalid", "there is no module 'json.nowhere'"),
        ({**WEATHER, "options": {"unt": "k"}}, "invalid", "Did you mean 'unit'?"),
        ({**WEATHER, "options": {"every": "soon"}}, "invalid", "options.every: Input should be a valid timedelta"),
        ({"use": "FileUnderstanding"}, "invalid", "needs options: "),
        ({**WEATHER, "optoins": {}}, "invalid", "unknown key. Did you mean 'options'?"),
        ({**WEATHER, "tools": "~~("}, "invalid", "tools: "),
        (3, "invalid", "an entry is a table"),
        ({"use": f"{HERE}:NeedsExtra"}, "needs-extra", "pip install 'deep-weather[radar]'"),
        ({"use": f"{HERE}:Approver"}, "refused", "approvers in [agent]"),
        ({"use": "WebSearch"}, "refused", "native_tools = ['web_search']"),
    ],
)
def test_a_bad_entry_costs_itself_and_says_what_to_type(entry: Any, status: str, says: str) -> None:
    with said() as warned, kernel_with({"good": WEATHER, "bad": entry}) as kernel:
        for _ in range(2):
            agent = kernel.create_agent(scripted())
        assert {tool.name for tool in kernel.explain(agent).tools} == {"forecast", "erase", "shell"}
        (incident,) = kernel.incidents
    assert (incident.plugin, incident.where) == (PLUGIN, "entry bad")
    (warning,) = warned  # once for all agents
    assert warning.startswith(f"capability bad is {status}: ")
    assert says in warning
    assert (incident.error.endswith("; correct plugins.named_capabilities.options.entries.bad")) == (
        status == "invalid"
    )
    with pytest.raises(PluginError, match="capability bad is"):
        kernel_with({"bad": entry}, strict=True).create_agent(scripted())


@pytest.mark.slow
def test_rights_that_the_user_names_are_given() -> None:
    rights = {"approvers": [PLUGIN], "native_tools": ["web_search"]}
    with (
        said() as warned,
        kernel_with({"a": {"use": f"{HERE}:Approver"}, "w": {"use": "WebSearch"}}, agent=rights) as kernel,
    ):
        kernel.create_agent(scripted())
    assert warned == []
    with said() as warned, kernel_with({"a": {"use": f"{HERE}:Approver"}}) as kernel:
        kernel.create_agent(scripted(), approvers=[PLUGIN])
    assert warned == []


def test_two_tools_of_one_name_are_reported_with_the_way_out() -> None:
    tools = Tools("forecast")
    with said() as warned, kernel_with({"w": WEATHER}, plugin("acme", toolsets=[tools.toolset])) as kernel:
        kernel.create_agent(scripted())
    assert "tool 'forecast' is one of plugin acme, too; give the entry prefix = 'w'" in warned[0]
    with said() as warned, kernel_with({"w": WEATHER, "v": WEATHER}) as kernel:
        kernel.create_agent(scripted())
    assert "one of capability w" in warned[0]


def test_an_entry_whose_tools_cannot_be_listed_leaves_the_run_alone() -> None:
    with kernel_with({"w": WEATHER, "b": {"use": f"{HERE}:Broken"}}) as kernel:
        agent = kernel.create_agent(scripted(Call("forecast", {"city": "Oslo"}, id="c1")))
        result = run(agent, deps=create_default_deps(kernel=kernel))
        assert [part.content for part in returns(result.all_messages())] == ["sun in Oslo"]
        assert "no network" in kernel.incidents[-1].error


def test_a_distribution_that_pins_another_pydantic_ai_is_reported_before_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed = metadata.version("pydantic-ai-slim")
    pinned = distributions.Owner("acme-caps", "1.2", (distributions.Requirement("pydantic-ai-slim==1.0.0"),))
    monkeypatch.setattr("deep_capabilities.build.find_owner", lambda module: pinned if module == "acme_caps" else None)
    with said() as warned, kernel_with({"x": {"use": "acme_caps:X"}}) as kernel:
        kernel.create_agent(scripted())
    assert f"acme-caps 1.2 needs pydantic-ai-slim==1.0.0, and {installed} is installed" in warned[0]
    assert "incompatible" in warned[0]


def test_a_module_of_the_current_directory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hostile_caps.py").write_text("raise SystemExit('ran')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    with said() as warned, kernel_with({"x": {"use": "hostile_caps:X"}}) as kernel:
        kernel.create_agent(scripted())
    assert "is in the current directory, where the model may write" in warned[0]


def test_a_projects_file_cannot_name_one() -> None:
    data = {"plugins": {PLUGIN: {"options": {"entries": {"w": WEATHER}}}}}
    layer, _ = restrict(ConfigLayer("deep.toml", data))
    with kernel_with({}) as kernel:
        kernel.config = kernel.config._replace(layers=(layer,))
        with pytest.warns(PluginWarning, match=r"ignored plugins.named_capabilities.options.entries"):
            agent = kernel.create_agent(scripted())
        assert kernel.explain(agent).tools == ()


@pytest.mark.slow
def test_the_command_lists_entries_and_what_can_be_named(tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text(
        f'[plugins.{PLUGIN}.options.entries]\nthink = {{ use = "Thinking" }}\nbad = {{ use = "Thinkin" }}\n', "utf-8"
    )
    shown = CliRunner().invoke(command, ["list", "--config", str(file)], catch_exceptions=False).output
    assert "think  ready  Thinking\n" in shown
    assert "bad  invalid  Thinkin\n" in shown
    assert "Enables and configures model thinking/reasoning." in shown
    data = json.loads(CliRunner().invoke(command, ["list", "--json", "--config", str(file)]).output)
    assert data["schema"] == 1
    assert data["entries"][0] == {"name": "think", "use": "Thinking", "status": "ready", "reason": ""}
    found = {each["name"]: each for each in data["importable"]}
    assert {"name", "use", "home", "summary", "status", "detail", "tools", "tokens"} == found["Thinking"].keys()
    assert found["Thinking"]["tokens"] == 0
    assert found["MCP"]["status"] in ("needs-options", "needs-extra")


CORE = {
    "Caching": {},
    "Citations": {},
    "FileUnderstanding": {"fallback_subagent_model": "test"},
    "IncludeToolReturnSchemas": {},
    "Instrumentation": {},
    "LocalWorkspace": {"working_dir": "."},
    "PrefixTools": {"prefix": "x", "capability": "Thinking"},
    "RaiseContentFilterError": {},
    "ReinjectSystemPrompt": {},
    "SetToolMetadata": {"tags": ["read"]},
    "Thinking": {},
}
"""Capabilities of Pydantic AI that work without a provider, with what they need."""


@pytest.mark.parametrize("name", CORE)
def test_a_capability_of_pydantic_ai_stands_in_the_agent_and_not_in_the_way_of_the_policy(name: str) -> None:
    tools = Tools("wipe", requires_approval=True)
    with (
        said() as warned,
        kernel_with({"it": {"use": name, "options": CORE[name]}}, plugin("disk", toolsets=[tools.toolset])) as kernel,
    ):
        agent = kernel.create_agent(scripted(Call("wipe", {}, id="c1")))
        found = kernel.explain(agent)
        assert [call.tool_name for call in pending(run(agent, deps=create_default_deps(kernel=kernel))).approvals] == [
            "wipe"
        ]
    assert warned == []
    assert tools.ran == []
    assert PLUGIN in {item["plugin"] for item in found.capabilities}


@pytest.mark.exhaustive  # it probes in a child process
def test_the_doctor_has_a_check_that_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "deep.toml"
    file.write_text(f'[plugins.{PLUGIN}.options.entries]\nx = {{ use = "no_such_package_here:X" }}\n', "utf-8")
    monkeypatch.setenv("DEEP_PLUGINS_ALLOW", f"cli,{PLUGIN}")
    monkeypatch.chdir(tmp_path)
    (check,) = [check for check in examine(file, 60) if check.plugin == PLUGIN]
    assert not check.ok
    assert "entry x: needs-package: no_such_package_here:X" in check.message
    assert check.fix.endswith("install no-such-package-here")
