"""Which installed plugins may load: `disable`, `allow`, `require`, and what plugins rest on; all told before import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.environments import SECTION_PLUGIN, Distribution, Environment, plugin

SUN, RAIN = plugin("sun"), plugin("rain")


@pytest.fixture
def installed(environment: Environment) -> Environment:
    environment.install(SUN, RAIN)
    return environment


# -- the lists ---------------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def user_config(environment: Environment, text: str) -> None:
    """Write the user's configuration file where the environment's own interpreter looks for it."""
    path = environment.ask("from deep_core.plugins.config import user_file; answer(str(user_file()))", start=False)
    write(Path(path), text)


@pytest.mark.parametrize("entry", ["sun", "acme-sun", "ACME_Sun"])
def test_disabled_in_code_by_plugin_or_distribution_name(installed: Environment, entry: str) -> None:
    outcome = installed.loaded(disable=[entry])
    assert outcome.statuses == {"rain": "active", "sun": "disabled"}
    assert "code" in outcome["sun"]["reason"]
    assert "acme_sun" not in outcome.imported
    assert outcome.warnings == []


def test_disabled_in_the_environment(installed: Environment) -> None:
    outcome = installed.loaded(env={"DEEP_PLUGINS_DISABLE": "sun, rain"})
    assert outcome.statuses == {"rain": "disabled", "sun": "disabled"}
    assert "environment" in outcome["sun"]["reason"]
    assert not {"acme_sun", "acme_rain"} & set(outcome.imported)


@pytest.mark.parametrize("text", ['[plugins]\ndisable = ["sun"]\n', "[plugins.sun]\nenabled = false\n"])
def test_disabled_in_the_users_configuration(installed: Environment, text: str) -> None:
    user_config(installed, text)
    outcome = installed.loaded()
    assert outcome.statuses == {"rain": "active", "sun": "disabled"}
    assert "config.toml" in outcome["sun"]["reason"]
    assert "acme_sun" not in outcome.imported


@pytest.mark.parametrize("text", ['[plugins]\ndisable = ["sun"]\n', "[plugins.sun]\nenabled = false\n"])
def test_a_projects_file_cannot_disable_a_plugin(installed: Environment, text: str) -> None:
    write(installed.work / "deep.toml", text)
    outcome = installed.loaded()
    assert outcome.statuses == {"rain": "active", "sun": "active"}
    (warning,) = outcome.warnings
    assert "deep config trust" in warning


def test_the_allow_list_is_closed_and_acts_before_import(installed: Environment) -> None:
    outcome = installed.loaded(allow=["acme-rain"])
    assert outcome.statuses == {"rain": "active", "sun": "blocked"}
    assert "plugins.allow" in outcome["sun"]["reason"]
    assert "acme_sun" not in outcome.imported


def test_the_allow_list_of_the_environment(installed: Environment) -> None:
    outcome = installed.loaded(env={"DEEP_PLUGINS_ALLOW": "rain"})
    assert outcome.statuses == {"rain": "active", "sun": "blocked"}
    assert "environment" in outcome["sun"]["reason"]


def test_an_empty_allow_list_lets_nothing_in(installed: Environment) -> None:
    assert installed.loaded(env={"DEEP_PLUGINS_ALLOW": ""}).statuses == {"rain": "blocked", "sun": "blocked"}
    assert installed.loaded(allow=[]).statuses == {"rain": "blocked", "sun": "blocked"}


def test_code_overrides_the_environments_allow_list(installed: Environment) -> None:
    outcome = installed.loaded(allow=["sun"], env={"DEEP_PLUGINS_ALLOW": "rain"})
    assert outcome.statuses == {"rain": "blocked", "sun": "active"}


@pytest.mark.parametrize("what", ["allow", "require"])
def test_an_unknown_name_in_allow_or_require_is_an_error_with_a_suggestion(installed: Environment, what: str) -> None:
    listed: dict[str, Any] = {what: ["rian"]}
    outcome = installed.loaded(**listed)
    assert outcome.message == f"code: plugins.{what} names 'rian', which is not installed. Did you mean 'rain'?"


def test_an_unknown_name_in_disable_is_a_warning_with_a_suggestion(installed: Environment) -> None:
    outcome = installed.loaded(disable=["rian"])
    assert outcome.statuses == {"rain": "active", "sun": "active"}
    assert outcome.warnings == ["code: plugins.disable names 'rian', which is not installed. Did you mean 'rain'?"]


def test_a_leftover_section_of_an_uninstalled_plugin_is_a_warning(installed: Environment) -> None:
    user_config(installed, "[plugins.snow]\nprefix = 'snow'\n")
    outcome = installed.loaded()
    assert outcome.statuses == {"rain": "active", "sun": "active"}
    (warning,) = outcome.warnings
    assert "config.toml: [plugins.snow]" in warning
    assert "not installed" in warning


# -- require fails closed ----------------------------------------------------------------------------------------------


def test_a_required_plugin_that_is_there_changes_nothing(installed: Environment) -> None:
    outcome = installed.loaded(require=["sun"])
    assert outcome.error is None
    assert outcome.statuses == {"rain": "active", "sun": "active"}


@pytest.mark.parametrize("entry", ["guard", "acme-guard", "ACME_guard"])
@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"disable": ["guard"]}, "disabled"),
        ({"allow": ["sun"]}, "blocked"),
        ({"config": {"plugins": {"guard": {"enabled": False}}}}, "disabled"),
    ],
)
def test_a_required_plugin_that_may_not_load_stops_everything(
    installed: Environment, entry: str, how: dict[str, Any], status: str
) -> None:
    installed.install(plugin("guard"))
    outcome = installed.loaded(require=[entry], **how)
    assert outcome.message.startswith(f"plugin guard 1.0 (acme-guard) is {status}: ")


@pytest.mark.parametrize("entry", ["guard", "acme-guard", "ACME_guard"])
@pytest.mark.parametrize(
    ("body", "requires", "status"),
    [
        ("raise ImportError('gone')", (), "failed"),
        ("", (), "failed"),
        ("from deep_core import MissingExtra\nraise MissingExtra('guard[x]')", (), "needs-extra"),
        (SECTION_PLUGIN.format(name="guard"), ("deep-agent-core>=99",), "incompatible"),
        (SECTION_PLUGIN.format(name="guard"), ("deep-nowhere",), "needs-plugin"),
    ],
)
def test_a_required_plugin_that_cannot_load_stops_everything(
    installed: Environment, entry: str, body: str, requires: tuple[str, ...], status: str
) -> None:
    installed.install(Distribution("acme-guard", {"guard": "acme_guard"}, {"acme_guard.py": body}, requires=requires))
    outcome = installed.loaded(require=[entry])
    assert outcome.message.startswith(f"plugin guard 1.0 (acme-guard) is {status}: ")


def test_a_required_plugin_that_fails_to_contribute_leaves_no_agent_however_often_one_is_made(
    environment: Environment,
) -> None:
    body = "from deep_core import hookimpl\n@hookimpl\ndef deep_toolsets(context): raise RuntimeError('no')\n"
    environment.install(Distribution("acme-guard", {"guard": "acme_guard"}, {"acme_guard.py": body}))
    raised = environment.ask(
        """
from deep_core import Kernel, PluginError
kernel = Kernel(require=["acme-guard"])
raised = []
for attempt in range(2):
    try:
        kernel.create_agent("test")
    except PluginError as error:
        raised.append(error.plugin)
answer(raised)
""",
        start=False,
    )
    assert raised == ["guard", "guard"]


def test_a_required_plugin_cannot_be_left_out_of_an_agent(environment: Environment) -> None:
    environment.install(plugin("guard"))
    raised = environment.ask(
        """
from deep_core import Kernel, PluginError, Without
kernel = Kernel(require=["guard"])
raised = []
for how in ({"plugins": [Without("guard")]}, {"guard": False}, {"include_guard": False}):
    try:
        kernel.create_agent("test", **how)
    except PluginError as error:
        raised.append(str(error))
answer(raised)
""",
        start=False,
    )
    assert len(raised) == 3
    assert all("required" in text for text in raised)


# -- what a plugin rests on --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted",
    [
        "deep-agent-core>=99",
        "deep-agent-core<0.1",
        "deep_agent_core == 0.0.1",
        "Deep.Agent.Core>=2; python_version>'3'",
    ],
)
def test_incompatible_is_reported_before_import(installed: Environment, wanted: str) -> None:
    installed.install(plugin("snow", requires=(wanted,)))
    outcome = installed.loaded()
    assert outcome["snow"]["status"] == "incompatible"
    assert "pip install" in outcome["snow"]["reason"]
    assert "this is" in outcome["snow"]["reason"]
    assert "acme_snow" not in outcome.imported
    assert outcome["sun"]["status"] == "active"


@pytest.mark.parametrize(
    "wanted",
    [
        "deep-agent-core",
        "deep-agent-core>=0.1.0.dev0,<1",
        "deep-agent-core>=99; extra == 'x'",
        "deep-agent-core>=99; python_version<'3'",
    ],
)
def test_a_range_that_includes_this_kernel_loads(environment: Environment, wanted: str) -> None:
    environment.install(plugin("snow", requires=(wanted,)))
    assert environment.loaded().statuses == {"snow": "active"}


NEEDY = plugin("needy", requires=("deep-agent-core>=0.1,<1", "acme.Rain>=1"))


def test_a_plugin_whose_requirement_is_active_loads(installed: Environment) -> None:
    installed.install(NEEDY)
    assert installed.loaded()["needy"]["status"] == "active"


@pytest.mark.parametrize(
    "how", [{"disable": ["rain"]}, {"allow": ["sun", "needy"]}, {"config": {"plugins": {"rain": {"enabled": False}}}}]
)
def test_a_plugin_needs_the_plugins_it_requires(installed: Environment, how: dict[str, Any]) -> None:
    installed.install(NEEDY)
    outcome = installed.loaded(**how)
    assert outcome["needy"]["status"] == "needs-plugin"
    assert outcome["rain"]["status"] in outcome["needy"]["reason"]
    assert "acme_needy" not in outcome.imported
    assert outcome["sun"]["status"] == "active"


def test_a_chain_of_needs_is_followed(installed: Environment) -> None:
    installed.install(NEEDY, plugin("needier", requires=("acme-needy",)))
    statuses = installed.loaded(disable=["rain"]).statuses
    assert (statuses["needy"], statuses["needier"]) == ("needs-plugin", "needs-plugin")


def test_a_first_party_plugin_that_is_not_installed_is_named_with_the_command(installed: Environment) -> None:
    installed.install(plugin("snow", requires=("deep-agent-core", "deep-nowhere>=0.1")))
    snow = installed.loaded()["snow"]
    assert (snow["status"], snow["reason"]) == (
        "needs-plugin",
        "requires deep-nowhere, which is not installed: pip install deep-nowhere",
    )


def test_a_plugin_whose_requirement_failed_is_tried_all_the_same(installed: Environment) -> None:
    """Needing is about installing: only the plugin itself knows whether it can do without what failed."""
    broken = Distribution("acme-ice", {"ice": "acme_ice"}, {"acme_ice.py": "raise RuntimeError('melted')"})
    installed.install(broken, plugin("snow", requires=("deep-agent-core", "acme-ice")))
    statuses = installed.loaded().statuses
    assert (statuses["ice"], statuses["snow"]) == ("failed", "active")
