"""A third party's plugin, installed and uninstalled: everything it contributes comes and goes with no code change.

`fixtures/acme-weather` contributes one thing of every kind; `fixtures/acme-cities` implements a hook that it owns.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from deep_core import (
    ConfigError,
    DeepAgentDeps,
    Kernel,
    PluginError,
    StateSlot,
    Without,
    create_deep_agent,
    create_default_deps,
    hookimpl,
)
from deep_core.plugins import hookspecs
from tests.environments import FIXTURES, REPOSITORY, Distribution, Environment, Here

WEATHER = Distribution.of_project(FIXTURES / "acme-weather")
CITIES = Distribution.of_project(FIXTURES / "acme-cities")
FORECAST = ("forecast", {"city": "Paris"})


def weather_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """What of an application's explanation is attributed to the plugin."""
    explanation = report["explanation"]
    return {
        "sections": sorted(s["name"] for s in explanation["sections"] if s["plugin"] == "weather"),
        "tools": [t["name"] for t in explanation["tools"] if t["plugin"] == "weather"],
        "processors": [p["name"] for p in explanation["history_processors"] if p["plugin"] == "weather"],
        "capabilities": [c["id"] for c in explanation["capabilities"] if c["plugin"] == "weather"],
    }


# -- installing and uninstalling ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_same_application_before_installing_after_it_and_after_uninstalling(environment: Environment) -> None:
    before = environment.application(FORECAST)
    environment.install(WEATHER)
    installed = environment.application(FORECAST)
    environment.uninstall(WEATHER)
    after = environment.application(FORECAST)

    assert weather_of(installed) == {
        "sections": ["favourites", "instructions", "units"],
        "tools": ["forecast", "save_city"],
        "processors": ["station_keys"],
        "capabilities": ["weather.Station.1"],
    }
    assert installed["plugins"] == {"weather": ["active", ""]}
    assert installed["returns"] == {"forecast": ["success", "Paris: sunny, 21 °C, 1 day(s)"]}
    assert "Temperatures of forecast are in celsius." in installed["prompts"][0]
    assert before == after
    assert before["plugins"] == {}
    assert before["tools"][0] == []
    assert before["explanation"]["sections"] == before["explanation"]["tools"] == []


def test_the_explanation_has_the_documented_form(here: Here) -> None:
    here.install(WEATHER)
    explanation = here.application()["explanation"]
    assert explanation.keys() == {
        *("schema", "sections", "tools", "history_processors", "capabilities", "contributions"),
        *("left_out", "totals"),
    }
    assert explanation["schema"] == 1
    for section in explanation["sections"]:
        assert section.keys() == {"name", "plugin", "chars", "tokens", "live", "locked"}
    for tool in explanation["tools"]:
        assert tool.keys() == {"name", "plugin", "tokens", "approval", "deferred", "tags", "source"}
    assert [processor.keys() for processor in explanation["history_processors"]] == [{"name", "plugin", "phase"}]
    assert all(capability.keys() == {"id", "plugin"} for capability in explanation["capabilities"])
    assert explanation["capabilities"][0] == {"id": "deep.policy", "plugin": "deep_core"}
    assert {"id": "deep", "plugin": "deep_core"} in explanation["capabilities"]
    assert explanation["totals"].keys() == {"chars", "tokens"}
    tools = {tool["name"]: tool for tool in explanation["tools"]}
    assert tools["forecast"]["tags"] == ["read", "network"]
    # Its check may ask about some cities, so no answer can be given before a call.
    assert {tool["approval"] for tool in tools.values()} <= {"never", "depends"}
    sections = {section["name"]: section for section in explanation["sections"]}
    assert (sections["units"]["live"], sections["favourites"]["live"]) == (False, True)


def test_every_hook_of_the_kernel_is_implemented_by_the_plugin(here: Here) -> None:
    here.install(WEATHER)
    with Kernel() as kernel:
        assert kernel.plugins["weather"].hooks == tuple(
            sorted(name for name in vars(hookspecs) if name.startswith("deep_"))
        )


# -- each contribution works -------------------------------------------------------------------------------------------


@pytest.fixture
def kernel(here: Here) -> Kernel:
    here.install(WEATHER)
    return Kernel()


def calling(*calls: tuple[str, Mapping[str, Any]]) -> FunctionModel:
    """A model that makes these calls, one a request, and then says `done`."""
    waiting = list(calls)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if waiting:
            name, args = waiting.pop(0)
            return ModelResponse(parts=[ToolCallPart(name, dict(args))])
        return ModelResponse(parts=[TextPart("done")])

    return FunctionModel(answer)


def conversation(
    kernel: Kernel, *calls: tuple[str, Mapping[str, Any]], prompt: str = "Go.", deps: Any = None, **how: Any
) -> Any:
    """The result of one run."""
    agent = create_deep_agent(calling(*calls), kernel=kernel, **how)
    return asyncio.run(agent.run(prompt, deps=deps or create_default_deps(kernel=kernel)))


def returned(result: Any) -> list[str]:
    """What the tools returned."""
    messages: list[ModelMessage] = result.all_messages()
    return [str(part.content) for m in messages for part in m.parts if isinstance(part, ToolReturnPart)]


def said(result: Any) -> str:
    """All that the user's side of the conversation holds."""
    messages: list[ModelMessage] = result.all_messages()
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return "\n".join(str(getattr(part, "content", "")) for request in requests for part in request.parts)


def test_its_live_section_is_appended_when_its_state_changes(kernel: Kernel) -> None:
    result = conversation(kernel, ("save_city", {"city": "Oslo"}))
    assert "Favourite cities" not in said(result).partition("Saved Oslo.")[0]
    assert "Favourite cities: Oslo." in said(result).partition("Saved Oslo.")[2]


def test_its_state_is_dumped_and_survives_a_time_without_the_plugin(kernel: Kernel, here: Here) -> None:
    deps: DeepAgentDeps[None] = create_default_deps(kernel=kernel)
    agent = kernel.create_agent(calling(("save_city", {"city": "Oslo"})))
    asyncio.run(agent.run("Go.", deps=deps))
    assert deps.favourites == ["Oslo"]
    text = deps.dump()
    without = Kernel(disable=["weather"])
    again = without.load_deps(text).dump()
    assert json.loads(again)["slots"]["favourites"] == {"version": 1, "data": ["Oslo"]}
    assert kernel.load_deps(again).favourites == ["Oslo"]


def test_its_session_method_is_there_while_the_plugin_is(kernel: Kernel) -> None:
    deps: DeepAgentDeps[None] = create_default_deps(kernel=kernel)
    deps.save_favourite("Rome")
    assert deps.favourites == ["Rome"]
    without: DeepAgentDeps[None] = create_default_deps(kernel=Kernel(disable=["weather"]))
    with pytest.raises(AttributeError):
        without.save_favourite("Rome")


def test_its_redactor_hides_keys_from_the_model(kernel: Kernel) -> None:
    result = conversation(kernel, prompt="My key is WX-0123ABCD.")
    assert "My key is [station key]." in said(result)
    assert "WX-0123ABCD" not in said(result)


def test_its_backend_is_found_by_name(kernel: Kernel, own_home: Path) -> None:
    agent = create_deep_agent(TestModel(call_tools=[]), kernel=kernel, backend="weather_archive")
    deps: DeepAgentDeps[None] = create_default_deps(kernel=kernel)
    asyncio.run(agent.run("Go.", deps=deps))
    assert type(deps.backend).__name__ == "LocalWorkspaceBackend"
    assert any(path.name == "weather" for path in own_home.rglob("plugins/*"))


def test_its_model_is_resolved_by_id_at_construction_and_at_run_time(kernel: Kernel) -> None:
    agent = create_deep_agent("acme:echo", kernel=kernel)
    assert asyncio.run(agent.run("Go.", deps=create_default_deps(kernel=kernel))).output == "echo from Acme"
    other = create_deep_agent(TestModel(call_tools=[], custom_output_text="other"), kernel=kernel)
    result = asyncio.run(other.run("Go.", deps=create_default_deps(kernel=kernel), model="acme:echo"))
    assert result.output == "echo from Acme"


def test_its_check_denies_and_asks(kernel: Kernel) -> None:
    denied = conversation(kernel, ("forecast", {"city": "Atlantis"}))
    assert returned(denied) == ["Denied: Atlantis has no weather service"]
    deps = create_default_deps(kernel=kernel)
    asked = conversation(kernel, ("forecast", {"city": "Moon"}), deps=deps)
    assert isinstance(asked.output, DeferredToolRequests)
    (call,) = asked.output.approvals
    assert asked.output.metadata[call.tool_call_id]["reason"] == "the moon is expensive"
    agent = create_deep_agent(calling(), kernel=kernel)
    resumed = asyncio.run(
        agent.run(
            deps=deps,
            message_history=asked.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals={call.tool_call_id: True}),
        )
    )
    assert returned(resumed) == ["Moon: sunny, 21 °C, 1 day(s)"]


def test_it_hears_of_agents_and_events_and_the_end(kernel: Kernel, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="deep.weather")
    conversation(kernel, FORECAST, name="forecaster")
    kernel.close()
    told = [record.getMessage().removeprefix("weather: ") for record in caplog.records if record.name == "deep.weather"]
    assert told[0] == "agent forecaster made"
    assert told[1:] == [
        *("RunStartEvent", "RequestEvent", "ToolEvent", "ToolEvent", "RequestEvent", "RunEndEvent"),
        "station closed",
    ]


def test_its_skill_loader_is_collected_by_whoever_offers_skills(here: Here) -> None:
    found: list[Any] = []

    class Library:
        @hookimpl
        def deep_prompt_sections(self, context: Any) -> list[Any]:
            found.extend(context.collect("deep_skill_loaders"))
            return []

    here.install(WEATHER)
    Kernel(plugins=[Library]).create_agent("test")
    (contribution,) = found
    assert contribution.plugin == "weather"
    (skill,) = asyncio.run(contribution.value.list(None))
    assert (skill.name, skill.source) == ("reading-the-sky", "package")
    assert Path(skill.path).is_file()
    text = asyncio.run(contribution.value.read(None, "reading-the-sky"))
    assert text == "Look west in the evening. A red sky means a fine day."


def test_its_own_hook_is_implemented_by_another_plugin(here: Here) -> None:
    here.install(WEATHER, CITIES)
    with Kernel() as kernel:
        assert kernel.hooks["deep_cities"] == "weather"
        result = conversation(kernel, ("forecast", {"city": "Rome"}))
        assert returned(result) == ["Rome: sunny, 21 °C, 1 day(s) (estimated; stations: Paris, Oslo)"]
    # Without the owner the implementation sleeps, and the rest of the plugin works.
    with Kernel(disable=["weather"]) as kernel:
        assert kernel.active == ("cities",)
        assert kernel.plugins["cities"].hooks == ("deep_prompt_sections",)
        assert kernel.explain().prompt == "Paris and Oslo are cities."


# -- what the kernel does for every plugin -----------------------------------------------------------------------------


def tool_names(kernel: Kernel, **how: Any) -> list[str]:
    return [tool.name for tool in kernel.explain(kernel.create_agent("test", **how)).tools]


@pytest.mark.slow
def test_settings_of_any_plugin_need_nothing_from_it(here: Here) -> None:
    here.install(WEATHER)

    def agent_of(**settings: Any) -> tuple[list[str], str]:
        with Kernel(config={"plugins": {"weather": settings}}) as kernel:
            explanation = kernel.explain()
            return [tool.name for tool in explanation.tools], explanation.prompt

    assert agent_of(prefix="acme")[0] == ["acme_forecast", "acme_save_city"]
    assert "Temperatures of acme_forecast are in celsius." in agent_of(prefix="acme")[1]
    assert agent_of(tools="read")[0] == ["forecast"]
    tools, prompt = agent_of(tools="write")
    assert tools == ["save_city"]
    assert "Temperatures" not in prompt  # the section needs the tool that is not offered
    assert agent_of(enabled=False)[0] == []
    assert "Temperatures of forecast are in fahrenheit." in agent_of(options={"unit": "fahrenheit"})[1]
    with Kernel(config={"plugins": {"weather": {"require_approval": "write"}}}) as kernel:
        assert {t.name: t.approval for t in kernel.explain().tools}["save_city"] == "always"
    with Kernel(config={"plugins": {"weather": {"defer": True}}}) as kernel:
        assert all(tool.deferred for tool in kernel.explain().tools if tool.plugin == "weather")


def test_a_tool_of_it_can_take_anothers_place(here: Here) -> None:
    good = {"acme_good.py": (FIXTURES / "good.py").read_text("utf-8").replace("greet", "forecast")}
    here.install(WEATHER, Distribution("acme-good", {"good": "acme_good"}, good))
    with Kernel() as kernel, pytest.raises(PluginError) as caught:
        kernel.create_agent("test")
    message = str(caught.value)
    assert "two plugins have a tool 'forecast'" in message
    assert "good 1.0 (acme-good)" in message
    assert "weather 0.3.0 (acme-weather)" in message
    assert "replaces" in message
    assert "prefix" in message
    with Kernel(config={"plugins": {"weather": {"replaces": ["good:forecast"]}}}) as kernel:
        owners = {tool.name: tool.plugin for tool in kernel.explain().tools}
        assert owners == {"forecast": "weather", "save_city": "weather"}


@pytest.mark.parametrize(
    ("kind", "hook", "mine", "theirs"),
    [
        ("prompt section", "deep_prompt_sections(context)", 'PromptSection.static("units", "x")', "[{}]"),
        ("backend", "deep_backends(context)", "lambda context: None", '{{"weather_archive": {}}}'),
        ("state slot", "deep_state()", 'StateSlot("favourites", str, str)', "[{}]"),
    ],
)
def test_two_plugins_with_one_name_for_something_are_an_error_that_names_both(
    here: Here, kind: str, hook: str, mine: str, theirs: str
) -> None:
    text = f"from deep_core import *\n@hookimpl\ndef {hook}:\n    return {theirs.format(mine)}\n"
    here.install(WEATHER, Distribution("acme-rival", {"rival": "acme_rival"}, {"acme_rival.py": text}))
    with pytest.raises(PluginError, match=f"two plugins have a {kind}") as caught, Kernel() as kernel:
        kernel.create_agent("test")
    for label in ("rival 1.0 (acme-rival)", "weather 0.3.0 (acme-weather)"):
        assert label in str(caught.value)
    assert "enabled = false" in str(caught.value)
    with Kernel(disable=["rival"]) as kernel:
        assert kernel.create_agent("test") is not None


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"units": "celsius"}, "plugins.weather.options.units: unknown option. Did you mean 'unit'?"),
        ({"unit": "kelvin"}, "plugins.weather.options.unit: "),
        ({"days": 99}, "plugins.weather.options.days: "),
    ],
)
def test_wrong_options_are_one_clear_error(kernel: Kernel, options: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        kernel.create_agent("test", weather=options)
    assert wanted in str(caught.value)


def test_options_come_from_the_environment(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.install(WEATHER)
    monkeypatch.setenv("DEEP_PLUGINS__WEATHER__OPTIONS__UNIT", "fahrenheit")
    assert "fahrenheit" in here.application()["prompts"][0]


def test_a_projects_file_sets_options_but_not_those_that_their_author_reserves_for_the_user(here: Here) -> None:
    here.install(WEATHER)
    text = '[plugins.weather.options]\nunit = "fahrenheit"\nstation = "https://evil.example"\n'
    Path("deep.toml").write_text(text, encoding="utf-8")  # in the working directory
    report = here.application()
    assert "fahrenheit" in report["prompts"][0]
    (warning,) = set(report["warnings"])
    assert "plugins.weather.options.station" in warning
    assert "deep config trust" in warning


# -- the two ways of section 6 -----------------------------------------------------------------------------------------


def fingerprint(kernel: Kernel, **how: Any) -> str:
    """Everything that an agent shows a model, and what it is made of."""
    explanation = kernel.explain(kernel.create_agent("test", **how))
    return json.dumps([explanation.to_json(), explanation.prompt])


def test_the_typed_and_the_short_way_build_the_same_agent(kernel: Kernel) -> None:
    from importlib import import_module

    options: Any = import_module("acme_weather").WeatherOptions
    plain = fingerprint(kernel)
    typed = fingerprint(kernel, plugins=[options(unit="fahrenheit", days=3)])
    assert typed == fingerprint(kernel, weather={"unit": "fahrenheit", "days": 3})
    assert typed == fingerprint(kernel, weather=options(unit="fahrenheit", days=3))
    assert typed != plain
    without = fingerprint(kernel, plugins=[Without("weather")])
    assert without == fingerprint(kernel, weather=False) == fingerprint(kernel, include_weather=False)
    assert without != plain
    assert (
        plain == fingerprint(kernel, weather=True) == fingerprint(kernel, weather={}) == fingerprint(kernel, plugins=[])
    )


def test_a_keyword_that_is_no_plugin_is_an_error_with_a_suggestion(kernel: Kernel) -> None:
    with pytest.raises(TypeError, match=r"'wether'.* Did you mean 'weather'"):
        kernel.create_agent("test", wether={})


def test_naming_a_plugin_that_is_not_active_raises(here: Here) -> None:
    here.install(WEATHER)
    with Kernel(disable=["weather"]) as kernel:
        for value in ({"unit": "celsius"}, True):
            with pytest.raises(PluginError, match=r"weather 0\.3\.0 \(acme-weather\) is disabled"):
                kernel.create_agent("test", weather=value)
        assert isinstance(kernel.create_agent("test", weather=False), Agent)


TYPED = """
from acme_weather import WeatherOptions
from pydantic_ai import Agent

from deep_core import DeepAgentDeps, Without, create_deep_agent

agent = create_deep_agent("test", plugins=[{options}, Without("todo")], interrupt_on=False, output_type=int)
checked: Agent[DeepAgentDeps[None], int] = agent
"""


def pyright(folder: Path, **programs: str) -> dict[str, list[str]]:
    """Errors that pyright, strict, finds in programs that use the plugin."""
    for name, code in programs.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    paths = [str(REPOSITORY), str(FIXTURES / "acme-weather" / "src")]
    settings = {"include": ["."], "typeCheckingMode": "strict", "extraPaths": paths}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "-p", str(folder), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    found: dict[str, list[str]] = {name: [] for name in programs}
    for item in json.loads(done.stdout)["generalDiagnostics"]:
        if item["severity"] == "error":
            found[Path(item["file"]).stem].append(item["message"])
    return found


@pytest.mark.exhaustive
@pytest.mark.needs("pyright")
def test_pyright_strict_accepts_the_typed_way_and_rejects_a_wrong_option(tmp_path: Path) -> None:
    found = pyright(
        tmp_path,
        right=TYPED.format(options='WeatherOptions(unit="celsius", days=2)'),
        wrong_name=TYPED.format(options='WeatherOptions(units="celsius")'),
        wrong_value=TYPED.format(options='WeatherOptions(unit="kelvin")'),
    )
    assert found["right"] == []
    (name,) = found["wrong_name"]
    assert 'No parameter named "units"' in name
    (value,) = found["wrong_value"]
    assert "kelvin" in value


# -- by hand -----------------------------------------------------------------------------------------------------------


class Tide:
    @hookimpl
    def deep_state(self) -> list[StateSlot[int]]:
        return [StateSlot("tide", int, int)]


def module(name: str, **content: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(content)
    return made


def no_slots() -> list[Any]:
    return []


def test_plugins_given_by_hand_are_named_after_what_they_are() -> None:
    by_module = module("acme.deep_moon", deep_state=hookimpl(no_slots))
    with Kernel(plugins=[Tide, by_module], discover=False) as kernel:
        assert kernel.active == ("moon", "tide")
        assert kernel.plugins["tide"].distribution is None
        assert kernel.plugins["tide"].label == "tide (given by hand)"
        assert list(kernel.slots) == ["tide"]
    with Kernel(plugins=[Tide()], discover=False) as kernel:
        assert kernel.active == ("tide",)


def test_a_plugin_given_by_hand_that_fails_raises() -> None:
    def fail() -> list[Any]:
        raise RuntimeError("no")

    for broken in (module("empty"), module("misspelt", deep_toolset=hookimpl(no_slots)), object()):
        with pytest.raises(PluginError):
            Kernel(plugins=[broken], discover=False)
    with pytest.raises(PluginError, match="no"):
        Kernel(plugins=[module("raising", deep_state=hookimpl(fail))], discover=False)


def test_a_plugin_given_by_hand_twice_or_beside_an_installed_one_is_an_error_that_names_both(here: Here) -> None:
    with pytest.raises(PluginError, match="tide"):
        Kernel(plugins=[Tide, Tide()], discover=False)
    here.install(WEATHER)
    with pytest.raises(PluginError, match="acme-weather"):
        Kernel(plugins=[module("weather", deep_state=hookimpl(no_slots))])
