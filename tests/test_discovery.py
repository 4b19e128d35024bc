"""Which plugins there are and what status each has, told from metadata, before any is imported."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.environments import REPOSITORY, Distribution, Environment

HOOK = """
from deep_core import PromptSection, hookimpl

@hookimpl
def deep_prompt_sections(context):
    return [PromptSection.static({name!r}, "This is {name}.")]
"""


def plugin(name: str, *, requires: tuple[str, ...] = ("deep-core>=0.1,<1",), version: str = "1.0") -> Distribution:
    """The distribution `acme-<name>` with the plugin `<name>`."""
    module = f"acme_{name}"
    return Distribution(
        f"acme-{name}", {name: module}, {f"{module}.py": HOOK.format(name=name)}, version=version, requires=requires
    )


SUN, RAIN = plugin("sun"), plugin("rain")


@pytest.fixture
def installed(environment: Environment) -> Environment:
    environment.install(SUN, RAIN)
    return environment


# -- what is found -----------------------------------------------------------------------------------------------------


def test_installed_means_active_and_uninstalled_means_gone(installed: Environment) -> None:
    assert installed.loaded().statuses == {"rain": "active", "sun": "active"}
    installed.uninstall(SUN)
    assert installed.loaded().statuses == {"rain": "active"}


def test_a_record_tells_distribution_version_path_and_hooks(installed: Environment) -> None:
    sun = installed.loaded()["sun"]
    assert (sun["distribution"], sun["version"], sun["editable"]) == ("acme-sun", "1.0", False)
    assert Path(sun["path"]) == installed.site.resolve()
    assert sun["hooks"] == ["deep_prompt_sections"]
    assert sun["import_ms"] > 0


def test_a_survey_imports_no_plugin_and_neither_pydantic_nor_pydantic_ai(installed: Environment) -> None:
    found = installed.listed()
    assert found.statuses == {"rain": "active", "sun": "active"}
    roots = {module.partition(".")[0] for module in found.imported}
    assert not roots & {"acme_sun", "acme_rain", "pydantic", "pydantic_ai", "pydantic_core"}


def test_a_kernel_without_discovery_sees_only_what_it_is_given(installed: Environment) -> None:
    assert installed.loaded(discover=False).statuses == {}


def test_an_editable_install_is_found_in_its_project(environment: Environment, tmp_path: Path) -> None:
    project = tmp_path / "a project" / "src"
    project.mkdir(parents=True)
    (project / "acme_sun.py").write_text(SUN.files["acme_sun.py"], encoding="utf-8")
    environment.install(Distribution("acme-sun", {"sun": "acme_sun"}, editable=project))
    sun = environment.loaded()["sun"]
    assert (sun["status"], sun["editable"]) == ("active", True)
    assert Path(sun["path"]) == project.resolve()


def test_a_module_outside_the_editable_project_is_refused(environment: Environment, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    environment.install(Distribution("acme-sun", {"sun": "acme_sun"}, editable=project))
    (environment.work / "acme_sun.py").write_text("print('shadow ran')", encoding="utf-8")
    sun = environment.loaded()["sun"]
    assert sun["status"] == "failed"
    assert str(environment.work / "acme_sun.py") in sun["reason"]
    assert "acme_sun" not in environment.loaded().imported


@pytest.mark.parametrize("flag", ["-P", "-I"])
def test_isolated_interpreters_find_the_same_plugins(installed: Environment, flag: str) -> None:
    (installed.work / "acme_sun.py").write_text("raise SystemExit('shadow ran')", encoding="utf-8")
    assert installed.loaded(flags=[flag]).statuses == {"rain": "active", "sun": "active"}


NAMESPACE = Distribution("acme-snow", {"snow": "acme.snow"}, {"acme/snow/__init__.py": HOOK.format(name="snow")})


def test_a_plugin_in_a_namespace_package_loads(environment: Environment) -> None:
    other = Distribution("acme-ice", {"ice": "acme.ice"}, {"acme/ice.py": HOOK.format(name="ice")})
    environment.install(NAMESPACE, other)
    assert environment.loaded().statuses == {"ice": "active", "snow": "active"}


def test_a_plugin_two_namespaces_deep_loads(environment: Environment) -> None:
    environment.install(
        Distribution("acme-snow", {"snow": "acme.sky.snow"}, {"acme/sky/snow.py": HOOK.format(name="snow")})
    )
    assert environment.loaded().statuses == {"snow": "active"}


@pytest.mark.parametrize("path", ["acme/snow.py", "acme/__init__.py", "acme/snow/__init__.py"])
def test_a_file_in_the_working_directory_cannot_extend_a_namespace(environment: Environment, path: str) -> None:
    environment.install(NAMESPACE)
    forged = environment.work / path
    forged.parent.mkdir(parents=True)
    forged.write_text("print('forged ran'); FORGED = True", encoding="utf-8")
    outcome = environment.loaded()
    assert outcome["snow"]["status"] == "failed"
    assert str(forged) in outcome["snow"]["reason"]
    assert "-P" in outcome["snow"]["reason"]
    assert environment.loaded(flags=["-P"]).statuses == {"snow": "active"}


def test_two_distributions_with_one_plugin_name_are_both_listed_and_neither_runs(installed: Environment) -> None:
    installed.install(Distribution("other-sun", {"sun": "other_sun"}, {"other_sun.py": "print('ran')"}, version="2.0"))
    outcome = installed.loaded()
    suns = [record for record in outcome.plugins if record["name"] == "sun"]
    assert [(r["distribution"], r["status"]) for r in suns] == [("acme-sun", "failed"), ("other-sun", "failed")]
    for record in suns:
        assert "acme-sun" in record["reason"]
        assert "other-sun" in record["reason"]
        assert "pip uninstall" in record["reason"]
    assert not {"acme_sun", "other_sun"} & set(outcome.imported)
    assert outcome["rain"]["status"] == "active"


@pytest.mark.parametrize("way_out", ["acme-sun", "other-sun", "Other_Sun"])
def test_disabling_one_of_two_distributions_by_its_name_frees_the_other(installed: Environment, way_out: str) -> None:
    installed.install(Distribution("other-sun", {"sun": "other_sun"}, {"other_sun.py": HOOK.format(name="sun")}))
    outcome = installed.loaded(disable=[way_out])
    left_out = way_out.lower().replace("_", "-")
    for record in outcome.plugins:
        if record["name"] == "sun":
            assert record["status"] == ("disabled" if record["distribution"] == left_out else "active")


def test_one_distribution_may_bring_several_plugins(environment: Environment) -> None:
    both = {"acme_sun.py": HOOK.format(name="sun"), "acme_rain.py": HOOK.format(name="rain")}
    environment.install(Distribution("acme-sky", {"sun": "acme_sun", "rain": "acme_rain"}, both))
    assert environment.loaded().statuses == {"rain": "active", "sun": "active"}
    assert environment.loaded(disable=["acme-sky"]).statuses == {"rain": "disabled", "sun": "disabled"}


@pytest.mark.parametrize("name", ["Sun", "1sun", "sun-shine", "s" * 41, "model", "tools", "kernel"])
def test_a_name_that_no_plugin_can_have_is_told_before_import(environment: Environment, name: str) -> None:
    environment.install(Distribution("acme-sun", {name: "acme_sun"}, SUN.files))
    outcome = environment.loaded()
    assert outcome[name]["status"] == "failed"
    assert "author must rename" in outcome[name]["reason"]
    assert "acme_sun" not in outcome.imported


# -- broken metadata ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("METADATA", None),
        ("METADATA", b""),
        ("METADATA", b"Metadata-Version: 2.1\nName: acme-sun\nVersion: 1.0\nRequires-Dist: ~~~\n"),
        ("METADATA", b"Metadata-Version: 2.1\nName: acme-sun\nVersion: 1.0\nRequires-Dist: deep-core; sky=='blue'\n"),
        ("METADATA", b"\xff\xfe\x00"),
        ("entry_points.txt", b"[deep]\nsun\n"),
        ("entry_points.txt", b"[deep]\nsun = \n"),
        ("entry_points.txt", b"[deep]\nsun = acme sun!\n"),
        ("entry_points.txt", b"[deep]\nsun = acme_sun\n\xff\n"),
        ("RECORD", None),
        ("RECORD", b"\xff\xff"),
        ("direct_url.json", b"{"),
        ("direct_url.json", b"[]"),
        ("direct_url.json", b'{"url": "file:///x", "dir_info": 3}'),
        ("direct_url.json", b'{"url": 7, "dir_info": {"editable": true}}'),
    ],
)
def test_broken_metadata_of_one_distribution_stops_nothing(
    installed: Environment, file: str, content: bytes | None
) -> None:
    target = installed.site / SUN.dist_info / file
    if content is None:
        target.unlink()
    else:
        target.write_bytes(content)
    assert installed.listed()["rain"]["status"] == "active"
    assert installed.loaded()["rain"]["status"] == "active"


# -- the lists ---------------------------------------------------------------------------------------------------------


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def user_config(environment: Environment, text: str) -> None:
    """Write the user's configuration file where the environment's own interpreter looks for it."""
    path = environment.ask("from deep_core.config import user_file; answer(str(user_file()))")
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
    outcome = installed.loaded(**{what: ["rian"]})
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


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"plugins": {"sun": {"prefixx": "s"}}}, "code: plugins.sun.prefixx: unknown key. Did you mean 'prefix'?"),
        ({"plugins": {"sun": {"enabled": "no"}}}, "code: plugins.sun.enabled: must be true or false, not 'no'"),
        ({"plugins": {"allow": "sun"}}, "code: plugins.allow must be a list of names, not 'sun'"),
        ({"plugins": {"sun": {"order": {"prompt_section": 3}}}}, "Did you mean 'prompt_sections'?"),
        ({"plugins": {"sun": {"order": {"prompt_sections": "first"}}}}, "plugins.sun.order.prompt_sections"),
    ],
)
def test_a_wrong_setting_of_a_plugin_is_one_clear_error(
    installed: Environment, config: dict[str, Any], wanted: str
) -> None:
    assert wanted in installed.loaded(config=config).message


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
        (HOOK.format(name="guard"), ("deep-core>=99",), "incompatible"),
        (HOOK.format(name="guard"), ("deep-nowhere",), "needs-plugin"),
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
    raised = environment.ask("""
from deep_core import Kernel, PluginError
kernel = Kernel(require=["acme-guard"])
raised = []
for attempt in range(2):
    try:
        kernel.create_agent("test")
    except PluginError as error:
        raised.append(error.plugin)
answer(raised)
""")
    assert raised == ["guard", "guard"]


def test_a_required_plugin_cannot_be_left_out_of_an_agent(environment: Environment) -> None:
    environment.install(plugin("guard"))
    raised = environment.ask("""
from deep_core import Kernel, PluginError, Without
kernel = Kernel(require=["guard"])
raised = []
for how in ({"plugins": [Without("guard")]}, {"guard": False}, {"include_guard": False}):
    try:
        kernel.create_agent("test", **how)
    except PluginError as error:
        raised.append(str(error))
answer(raised)
""")
    assert len(raised) == 3
    assert all("required" in text for text in raised)


# -- what a plugin rests on --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted", ["deep-core>=99", "deep-core<0.1", "deep_core == 0.0.1", "Deep.Core>=2; python_version>'3'"]
)
def test_incompatible_is_told_before_import(installed: Environment, wanted: str) -> None:
    installed.install(plugin("snow", requires=(wanted,)))
    outcome = installed.loaded()
    assert outcome["snow"]["status"] == "incompatible"
    assert "pip install" in outcome["snow"]["reason"]
    assert "this is" in outcome["snow"]["reason"]
    assert "acme_snow" not in outcome.imported
    assert outcome["sun"]["status"] == "active"


@pytest.mark.parametrize(
    "wanted",
    ["deep-core", "deep-core>=0.1.0.dev0,<1", "deep-core>=99; extra == 'x'", "deep-core>=99; python_version<'3'"],
)
def test_a_range_that_includes_this_kernel_loads(environment: Environment, wanted: str) -> None:
    environment.install(plugin("snow", requires=(wanted,)))
    assert environment.loaded().statuses == {"snow": "active"}


NEEDY = plugin("needy", requires=("deep-core>=0.1,<1", "acme.Rain>=1"))


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
    installed.install(plugin("snow", requires=("deep-core", "deep-nowhere>=0.1")))
    snow = installed.loaded()["snow"]
    assert (snow["status"], snow["reason"]) == (
        "needs-plugin",
        "requires deep-nowhere, which is not installed: pip install deep-nowhere",
    )


def test_a_plugin_whose_requirement_failed_is_tried_all_the_same(installed: Environment) -> None:
    """Needing is about installing: only the plugin itself knows whether it can do without what failed."""
    broken = Distribution("acme-ice", {"ice": "acme_ice"}, {"acme_ice.py": "raise RuntimeError('melted')"})
    installed.install(broken, plugin("snow", requires=("deep-core", "acme-ice")))
    statuses = installed.loaded().statuses
    assert (statuses["ice"], statuses["snow"]) == ("failed", "active")


# -- the outcome of the last load --------------------------------------------------------------------------------------

FAILING = Distribution("acme-ice", {"ice": "acme_ice"}, {"acme_ice.py": "raise RuntimeError('melted')"})


def test_a_survey_shows_the_outcome_of_the_last_load_without_importing(installed: Environment) -> None:
    installed.install(FAILING)
    assert installed.listed().statuses == {"ice": "active", "rain": "active", "sun": "active"}
    assert installed.listed()["sun"]["hooks"] is None
    loaded = installed.loaded()
    listed = installed.listed()
    assert listed.statuses == {"ice": "failed", "rain": "active", "sun": "active"}
    assert listed["ice"]["reason"] == loaded["ice"]["reason"]
    assert listed["sun"]["hooks"] == ["deep_prompt_sections"]
    assert not {"acme_ice", "acme_sun", "acme_rain"} & set(listed.imported)


def test_a_survey_shows_what_failed_when_the_last_agent_was_made(environment: Environment) -> None:
    body = "from deep_core import hookimpl\n@hookimpl\ndef deep_toolsets(context): raise RuntimeError('no')\n"
    environment.install(Distribution("acme-ice", {"ice": "acme_ice"}, {"acme_ice.py": body}))
    assert environment.loaded(agent=True)["ice"]["status"] == "failed"
    assert environment.listed()["ice"]["status"] == "failed"


def test_reinstalling_forgets_the_outcome(installed: Environment) -> None:
    installed.install(FAILING)
    installed.loaded()
    installed.uninstall(FAILING)
    mended = Distribution("acme-ice", {"ice": "acme_ice"}, {"acme_ice.py": HOOK.format(name="ice")})
    folder = mended.write(installed.site)
    os.utime(folder, (1, 1))  # an installer's clock may stand still between the two; the times differ for certain
    assert installed.listed()["ice"]["status"] == "active"
    assert installed.loaded()["ice"]["status"] == "active"


def test_what_failed_last_time_is_tried_again(installed: Environment) -> None:
    installed.install(FAILING)
    installed.loaded()
    (installed.site / "acme_ice.py").write_text(HOOK.format(name="ice now"), encoding="utf-8")
    assert installed.loaded()["ice"]["status"] == "active"
    assert installed.listed()["ice"]["status"] == "active"


def cache_file(environment: Environment) -> Path:
    """Where the environment's interpreter keeps the outcomes."""
    return Path(environment.ask("from deep_core.outcomes import _file; answer(str(_file()))"))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"x": 3}', '{"KEY": {}}', '{"KEY": {"stamp": 1}}', '{"KEY": []}']
)
def test_a_cache_that_cannot_be_read_is_no_cache(installed: Environment, text: str) -> None:
    installed.loaded()
    cache = cache_file(installed)
    (key,) = (key for key in json.loads(cache.read_text(encoding="utf-8")) if key.endswith("#sun"))
    cache.write_text(text.replace("KEY", key.replace("\\", "\\\\")), encoding="utf-8")
    assert installed.listed().statuses == {"rain": "active", "sun": "active"}
    outcome = installed.loaded()
    assert outcome.statuses == {"rain": "active", "sun": "active"}
    assert outcome.warnings == []


def test_an_unwritable_cache_is_ignored(installed: Environment) -> None:
    cache = cache_file(installed)
    # A file where its folder should be: unwritable for root too.
    write(cache.parent, "")
    outcome = installed.loaded()
    assert outcome.statuses == {"rain": "active", "sun": "active"}
    assert outcome.warnings == []
    assert installed.listed().statuses == {"rain": "active", "sun": "active"}


# -- strictness --------------------------------------------------------------------------------------------------------


def test_a_failing_plugin_is_one_warning_that_names_it(installed: Environment) -> None:
    installed.install(FAILING)
    outcome = installed.loaded()
    (warning,) = outcome.warnings
    assert warning.startswith("plugin ice 1.0 (acme-ice) is failed: RuntimeError: melted at ")
    assert outcome["sun"]["status"] == "active"


@pytest.mark.parametrize("agent", [False, True])
def test_strict_raises_for_any_plugin(installed: Environment, agent: bool) -> None:
    hook = "from deep_core import hookimpl\n@hookimpl\ndef deep_toolsets(context): raise RuntimeError('melted')\n"
    body = hook if agent else "raise RuntimeError('melted')"
    installed.install(Distribution("acme-ice", {"ice": "acme_ice"}, {"acme_ice.py": body}))
    outcome = installed.loaded(strict=True, agent=agent)
    assert outcome.error is not None
    assert outcome.error[:2] == ["PluginError", "ice"]
    assert "melted" in outcome.message


def test_strict_leaves_alone_what_was_left_out_on_purpose(installed: Environment) -> None:
    assert installed.loaded(strict=True, disable=["sun"]).statuses == {"rain": "active", "sun": "disabled"}


def test_two_kernels_with_different_plugins_live_in_one_process(installed: Environment) -> None:
    active = installed.ask("""
from deep_core import Kernel
one, two = Kernel(disable=["sun"]), Kernel(disable=["rain"])
answer([one.active, two.active, Kernel().active])
""")
    assert active == [["rain"], ["sun"], ["rain", "sun"]]


def test_the_checkouts_own_plugins_are_not_in_a_fresh_environment(environment: Environment) -> None:
    assert environment.loaded().statuses == {}
    assert (REPOSITORY / "plugins").is_dir()
