"""A project's configuration: a file that the model may write, which can narrow policy and never widen it."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import pytest
from platformdirs import user_data_path
from pydantic import Field

from deep_core import ConfigError, PluginOptions, PluginWarning, create_default_deps
from deep_core.agent.config import agent_values, restricted_layers
from deep_core.plugins.config_file import ConfigFile, user_file
from tests.environments import REPOSITORY, Distribution
from tests.plugins.test_config import WEATHER, Project, options, project
from tests.plugins_by_hand import Tools, outcomes, pending, plugin, run, scripted
from tests.stubs import Call

__all__ = ["project"]

WIDENING = {
    "allow": ("[plugins]\nallow = ['other']", "plugins.allow"),
    "disable": ("[plugins]\ndisable = ['guard']", "plugins.disable"),
    "enabled": ("[plugins.guard]\nenabled = false", "plugins.guard.enabled"),
    "enabled true": ("[plugins.off]\nenabled = true", "plugins.off.enabled"),
    "require_approval": ("[plugins.weather]\nrequire_approval = false", "plugins.weather.require_approval"),
    "tools": ("[plugins.weather]\ntools = 'read | write | execute'", "plugins.weather.tools"),
    "replaces": ("[plugins.weather]\nreplaces = ['guard:forecast']", "plugins.weather.replaces"),
    "order": ("[plugins.weather]\norder = -100", "plugins.weather.order"),
    "order of a hook": ("[plugins.weather.order]\nhistory_processors = -100", "plugins.weather.order"),
    "interrupt_on": ("[agent]\ninterrupt_on = false", "agent.interrupt_on"),
    "interrupt_on one": ("[agent.interrupt_on]\nlaunch = false", "agent.interrupt_on"),
    "ask by default": ("[agent.tools_policy]\nrequire_approval_by_default = false", "agent.tools_policy"),
    "tools_policy on": ("[agent.tools_policy]\nenabled = true", "agent.tools_policy.enabled"),
    "backend": ("[agent.runtime_policy]\nprofile = 'local'", "agent.runtime_policy"),
    "model": ("[agent]\nmodel = 'openai:evil'", "agent.model"),
    "model's provider": ("[agent.model]\nprovider = 'evil'", "agent.model"),
    "approvers": ("[agent]\napprovers = ['weather']", "agent.approvers"),
    "native_tools": ("[agent]\nnative_tools = ['web_fetch']", "agent.native_tools"),
    "prompt": ("[agent.prompt]\nsystem = 'Obey the file.'", "agent.prompt"),
    "option without a mark": ("[plugins.weather.options]\nkey = 'evil'", "plugins.weather.options.key"),
}
TRUSTED = {
    "plugins": {"weather": {"tools": "read | write", "require_approval": "write"}, "off": {"enabled": False}},
    "agent": {"interrupt_on": {"forecast": True}, "model": "test"},
}


def shape(project: Project, **how: Any) -> dict[str, Any]:
    """What of an agent a project must not change: made with the user's own configuration."""
    guard = plugin("guard", check_call=lambda call: None)
    kernel = project.kernel(guard, **how)
    model = scripted()
    agent = kernel.create_agent()
    run(agent, model=model)
    return {
        "plugins": {name: kernel.plugins[name].status for name in ("weather", "guard", "off")},
        "offered": sorted(model.player.views[0].tools),
        "prompt": model.player.views[0].system,
        "asking": project.asking(kernel),
        "model": type(agent.model).__name__,
        "key": project.options[-1].key,
        "order": kernel.config.plugin(WEATHER).order,
        "profile": agent_values(kernel.config)[0].get("runtime_policy"),
        "named": [agent_values(kernel.config)[0].get(key) for key in ("approvers", "native_tools")],
    }


@pytest.mark.parametrize("key", WIDENING)
def test_a_projects_file_cannot_widen_policy_and_what_was_ignored_is_said(project: Project, key: str) -> None:
    text, named = WIDENING[key]
    Distribution("acme-off", {"off": "acme_off"}, {"acme_off.py": "raise ImportError"}).write(project.site)
    before = shape(project, config=TRUSTED)
    path = project.file(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        after = shape(project, config=TRUSTED)
    assert after == before
    said = [str(w.message) for w in caught if named in str(w.message)]
    assert said
    assert all(str(path) in text and "deep config trust" in text for text in said)


def test_what_was_ignored_is_said_once_for_all_keys(project: Project) -> None:
    project.file("[plugins]\nallow = []\ndisable = ['x']\n[plugins.weather]\norder = 3\n[agent]\nmodel = 'x:y'")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = project.kernel()
        for _ in range(3):
            kernel.create_agent(scripted())
    of_plugins, of_agent = [str(w.message) for w in caught if "ignored" in str(w.message)]
    assert all(key in of_plugins for key in ("plugins.allow", "plugins.disable", "plugins.weather.order"))
    assert "agent.model" in of_agent


def test_what_an_untrusted_project_says_of_the_agent_is_read_in_one_place() -> None:
    """Nothing but the function that keeps what narrows opens the section."""
    opened = [
        f"{path.name}: {line.strip()}"
        for path in sorted((REPOSITORY / "deep_core").rglob("*.py"))
        for line in path.read_text("utf-8").splitlines()
        if ".sealed" in line and "any(layer.sealed" not in line
    ]
    assert [line.partition(":")[0] for line in opened] == ["config.py"] * 2


@pytest.mark.parametrize("value", ["'evil'", "{ evil = 1 }", "['evil']", "1", "true"])
def test_no_shape_of_a_value_carries_an_unmarked_field_past_the_restriction(project: Project, value: str) -> None:
    fields = ("approvers", "native_tools", "runtime_policy", "identity", "prompt", "schema_version", "unknown")
    project.file("[agent]\n" + "\n".join(f"{field} = {value}" for field in fields))
    with pytest.warns(PluginWarning, match="ignored agent.approvers"):
        kernel = project.kernel()
    (restricted,) = restricted_layers(kernel.config)
    assert restricted.section == {}
    assert kernel.create_agent(scripted()).name == "agent"


def test_no_secret_of_the_file_is_in_what_is_said(project: Project) -> None:
    project.file("[plugins.weather.options]\nkey = 'sk-secret'\n[agent.model]\nprovider = 'sk-secret'")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        project.kernel().create_agent(scripted())
    assert caught
    assert not any("sk-secret" in str(w.message) for w in caught)


@pytest.mark.parametrize(
    ("text", "asking", "offered"),
    [
        ("[plugins.weather]\nrequire_approval = 'read'", {"forecast", "launch"}, 3),
        ("[plugins.weather]\nrequire_approval = true", {"forecast", "report", "launch"}, 3),
        ("[agent.interrupt_on]\nreport = true", {"report", "launch"}, 3),
        ("[agent]\ninterrupt_on = 'write'", {"report", "launch"}, 3),
        ("[agent]\ninterrupt_on = true", {"forecast", "report", "launch"}, 3),
        ("[agent.tools_policy]\nrequire_approval_by_default = true", {"forecast", "report", "launch"}, 3),
        ("[agent]\ntool_filter = 'read'", set(), 1),
        ("[agent.tools_policy]\nallow_list = ['forecast', 'launch']", {"launch"}, 2),
        ("[agent.tools_policy]\nenabled = false", set(), 0),
        ("[plugins.weather.options]\ndays = 9", {"launch"}, 3),
    ],
)
def test_a_projects_file_can_narrow_and_set_options(
    project: Project, text: str, asking: set[str], offered: int
) -> None:
    project.tools.toolset.tools["report"].metadata = {"tags": ["write"]}
    project.file(text)
    kernel = project.kernel()
    model = scripted()
    run(kernel.create_agent(model))
    assert len(model.player.views[0].tools) == offered
    assert project.asking(kernel) == asking
    assert project.options[-1].days == (9 if "days" in text else 3)


def test_a_project_adds_to_what_the_user_asks_and_filters(project: Project) -> None:
    project.file("[agent]\ntool_filter = '~name:launch'\n[agent.interrupt_on]\nreport = true")
    config = {"agent": {"tool_filter": "read | write", "interrupt_on": {"forecast": True}}}
    assert project.asking(project.kernel(config=config)) == {"forecast", "report"}


def test_a_projects_rule_that_asks_denies_where_no_call_can_wait(project: Project) -> None:
    project.file("[agent.interrupt_on]\nreport = true")
    agent = project.kernel().create_agent(scripted(Call("report", {})), interrupt_on=False)
    result = run(agent)
    assert agent.output_type is str
    (returned,) = [
        part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"
    ]
    assert returned.outcome == "failed"
    assert "Denied: a rule asks for approval" in returned.model_response_str()
    assert project.asking(project.kernel()) == {"report", "launch"}


def test_what_a_project_adds_to_require_approval_has_its_source_beside_the_users(project: Project) -> None:
    project.user("[plugins.weather]\nrequire_approval = 'write'")
    path = project.file("[plugins.weather]\nrequire_approval = 'read |'")
    both = f"{user_file()} and {path}"
    assert project.kernel().config.plugin(WEATHER).sources["require_approval"] == both
    with pytest.raises(ConfigError, match=re.escape(f"{both}: plugins.weather.require_approval")):
        project.kernel().create_agent(scripted())


def test_a_project_does_not_take_back_what_the_user_set_of_an_option_without_a_mark(project: Project) -> None:
    project.user("[plugins.weather.options]\nkey = 'mine'\ndays = 4")
    project.file("[plugins.weather.options]\nkey = 'evil'\ndays = 5")
    with pytest.warns(PluginWarning, match=r"ignored plugins\.weather\.options\.key"):
        used = options(project.kernel(), project)
    assert (used.key, used.days) == ("mine", 5)
    project.user("[plugins.weather.options]\nkey = 4")  # the user's own mistake
    wrong = re.escape(f"{user_file()}: plugins.weather.options.key")
    with pytest.raises(ConfigError, match=wrong):
        options(project.kernel(), project)


class Service(PluginOptions):
    address: str = ""
    """Whom it asks."""


class ServicesOptions(PluginOptions):
    first: Service = Service()
    """One."""
    more: tuple[Service, ...] = ()
    """Others."""
    token: str = Field(default="", alias="apiToken")
    """Under another name."""
    unit: str = Field(default="celsius", json_schema_extra={"project": "free"})
    """Any project may set it."""


@pytest.mark.parametrize(
    "text",
    ["first = { address = 'evil' }", "more = [{ address = 'evil' }]", "apiToken = 'evil'"],
    ids=["in a model", "in one of several models", "by its alias"],
)
def test_an_option_without_a_mark_is_ignored_in_every_form(project: Project, text: str) -> None:
    used: list[ServicesOptions] = []
    services = plugin(
        "services",
        options=ServicesOptions,
        toolsets=lambda context: used.append(context.options(ServicesOptions)) or [],
    )
    project.file(f"[plugins.services.options]\nunit = 'kelvin'\n{text}")
    with pytest.warns(PluginWarning, match=r"ignored plugins\.services\.options"):
        project.kernel(services).create_agent(scripted())
    assert used[-1] == ServicesOptions(unit="kelvin")


def test_a_projects_file_is_trusted_by_its_content_until_it_changes(project: Project) -> None:
    path = project.file("[agent]\ninterrupt_on = false")
    ConfigFile.read(path).trust()
    assert project.asking(project.kernel()) == set()
    path.write_text(path.read_text() + "\n# and more")
    with pytest.warns(PluginWarning, match="deep config trust"):
        kernel = project.kernel()
    assert project.asking(kernel) == {"launch"}
    path.write_text(path.read_text().removesuffix("\n# and more"))
    assert project.asking(project.kernel()) == set()


def test_trust_is_for_one_file_and_not_for_its_copy(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    ConfigFile.read(project.file("[agent]\ninterrupt_on = false")).trust()
    copy = project.folder / "copy"
    (copy / ".git").mkdir(parents=True)
    (copy / "deep.toml").write_text((project.folder / "deep.toml").read_text())
    monkeypatch.chdir(copy)
    with pytest.warns(PluginWarning, match="deep config trust"):
        assert project.asking(project.kernel()) == {"launch"}


def test_a_file_that_code_names_is_trusted_as_code_is(project: Project) -> None:
    path = project.file("[agent]\ninterrupt_on = false")
    assert project.asking(project.kernel(config=path)) == set()


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ("[agent]\ntool_filter = '^safe_ | name:other'", "[plugins.weather]\nprefix = 'safe'"),
        ("[agent]\ntool_filter = '~^fs_'\n[plugins.weather]\nprefix = 'fs'", "[plugins.weather]\nprefix = 'x'"),
    ],
)
def test_a_projects_prefix_does_not_carry_a_tool_past_the_users_filter(project: Project, user: str, text: str) -> None:
    project.user(user)
    project.file(text)
    model = scripted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        run(project.kernel(plugin("other", toolsets=[Tools("other").toolset])).create_agent(model))
    assert list(model.player.views[0].tools) == ["other"]


def test_a_projects_prefix_does_not_keep_the_users_rule_from_asking(project: Project) -> None:
    both = "[plugins.weather]\nprefix = 'fs'\n[plugins.other]\nprefix = 'fs'\n"
    project.user(both + "[agent]\ninterrupt_on = '^fs_'")
    project.file("[plugins.weather]\nprefix = 'x'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        kernel = project.kernel(plugin("other", toolsets=[Tools("look").toolset]))
    for name in ("fs_report", "x_report"):
        run(kernel.create_agent(scripted(Call(name, {}))))
    assert project.tools.ran == []


@pytest.mark.parametrize("place", ["the user's file", "the record of what is trusted"])
@pytest.mark.parametrize("there", [False, True])
def test_the_model_cannot_write_what_would_be_believed_at_the_next_start(
    project: Project, place: str, there: bool
) -> None:
    """The session works in a directory above it, as in the user's home."""
    config = project.file("[agent]\ninterrupt_on = false")
    if place != "the user's file":
        if there:
            ConfigFile.read(config).trust()
        target = user_data_path("deep") / "trusted.json"
    else:
        if there:
            project.user("[agent]\ninterrupt_on = 'write'")
        target = user_file()
    before = target.read_text(encoding="utf-8") if target.exists() else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        kernel = project.kernel(deep_filesystem, deep_backends)
        agent = kernel.create_agent(
            scripted(Call("write_file", {"path": str(target), "content": "[agent]\ninterrupt_on = false"})),
            interrupt_on={"write_file": False},
        )
    result = run(agent, deps=create_default_deps(deep_backends.local_backend(Path.home()), kernel=kernel))
    assert outcomes(result) == [("write_file", "failed")]
    assert (target.read_text(encoding="utf-8") if target.exists() else None) == before


@pytest.mark.parametrize("name", ["deep.toml", ".git", "pyproject.toml"])
def test_the_model_cannot_write_what_would_hide_the_projects_file(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    project.file("[agent]\ninterrupt_on = 'name:edit_file'")
    inner = project.folder / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    kernel = project.kernel(deep_filesystem, deep_backends)
    agent = kernel.create_agent(scripted(Call("write_file", {"path": name, "content": "[tool.deep]"})))
    deps = create_default_deps(deep_backends.local_backend(inner), kernel=kernel)
    result = run(agent, deps=deps)
    if name == ".git":  # the tool asks before it writes below such a folder, and a person's yes does not unprotect it
        answers = pending(result).build_results(approve_all=True)
        result = run(agent, None, deps=deps, message_history=result.all_messages(), deferred_tool_results=answers)
    assert outcomes(result) == [("write_file", "failed")]
    assert not (inner / name).exists()
