"""Which plugins there are and what status each has, told from metadata, before any is imported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deep_core import Kernel
from deep_core.names import NAME
from deep_core.plugins.index import MARKER, scan
from tests.environments import REPOSITORY, SECTION_PLUGIN, Distribution, Environment, Here, plugin

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
    found = installed.listed(start=True)
    assert found.statuses == {"rain": "active", "sun": "active"}
    roots = {module.partition(".")[0] for module in found.imported}
    assert not roots & {"acme_sun", "acme_rain", "pydantic", "pydantic_ai", "pydantic_core"}


@pytest.mark.parametrize("start", ["list", "load"])
def test_only_the_first_start_imports_the_libraries_that_read_metadata(environment: Environment, start: str) -> None:
    environment.install(SUN, RAIN)
    first = environment.listed(start=True)
    assert {"importlib_metadata", "packaging"} <= set(first.imported)
    warm: Callable[[], Any] = environment.listed if start == "list" else environment.loaded
    roots = {module.partition(".")[0] for module in warm(start=True).imported}
    assert not roots & {"importlib_metadata", "packaging"}


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


NAMESPACE = Distribution(
    "acme-snow", {"snow": "acme.snow"}, {"acme/snow/__init__.py": SECTION_PLUGIN.format(name="snow")}
)


def test_a_plugin_in_a_namespace_package_loads(environment: Environment) -> None:
    other = Distribution("acme-ice", {"ice": "acme.ice"}, {"acme/ice.py": SECTION_PLUGIN.format(name="ice")})
    environment.install(NAMESPACE, other)
    assert environment.loaded().statuses == {"ice": "active", "snow": "active"}


def test_a_plugin_two_namespaces_deep_loads(environment: Environment) -> None:
    environment.install(
        Distribution("acme-snow", {"snow": "acme.sky.snow"}, {"acme/sky/snow.py": SECTION_PLUGIN.format(name="snow")})
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
    installed.install(
        Distribution("other-sun", {"sun": "other_sun"}, {"other_sun.py": SECTION_PLUGIN.format(name="sun")})
    )
    outcome = installed.loaded(disable=[way_out])
    left_out = way_out.lower().replace("_", "-")
    for record in outcome.plugins:
        if record["name"] == "sun":
            assert record["status"] == ("disabled" if record["distribution"] == left_out else "active")


def test_one_distribution_may_bring_several_plugins(environment: Environment) -> None:
    both = {"acme_sun.py": SECTION_PLUGIN.format(name="sun"), "acme_rain.py": SECTION_PLUGIN.format(name="rain")}
    environment.install(Distribution("acme-sky", {"sun": "acme_sun", "rain": "acme_rain"}, both))
    assert environment.loaded().statuses == {"rain": "active", "sun": "active"}
    assert environment.loaded(disable=["acme-sky"]).statuses == {"rain": "disabled", "sun": "disabled"}


@pytest.mark.parametrize("name", ["Sun", "1sun", "sun-shine", "s" * 41, "model", "tools", "kernel"])
def test_a_name_that_no_plugin_can_have_is_reported_before_import(environment: Environment, name: str) -> None:
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
        (
            "METADATA",
            b"Metadata-Version: 2.1\nName: acme-sun\nVersion: 1.0\nRequires-Dist: deep-agent-core; sky=='blue'\n",
        ),
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


def test_a_plugin_whose_metadata_is_cut_off_keeps_its_name(installed: Environment) -> None:
    shone = plugin("shone")
    environment, folder = installed, installed.site / "acme_light-1.0.dist-info"
    environment.install(Distribution("acme-light", {"shone": "acme_shone"}, shone.files))
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nNam", encoding="utf-8")
    found = environment.listed(disable=["shone"])
    assert found["shone"]["status"] == "failed"
    assert "pip install --force-reinstall acme-light" in found["shone"]["reason"]
    assert found.told == []  # nobody says that there is no plugin `shone` to disable
    assert "acme-light" in environment.loaded(require=["shone"]).message


@pytest.mark.parametrize("name", ["deep-light", "Deep_Light"])
def test_a_plugin_whose_entry_points_cannot_be_read_is_named_after_its_distribution(here: Here, name: str) -> None:
    folder = Distribution(name, {"light": "deep_light"}).write(here.site)
    (folder / "entry_points.txt").write_bytes(b"[deep]\n\xff\n")
    (found,) = scan()
    assert (found.record.name, found.record.status) == ("light", "failed")
    assert found.record.reason.startswith("its metadata cannot be read (UnicodeDecodeError: ")
    assert found.record.reason.endswith(f"; pip install --force-reinstall {found.record.distribution}")


def test_an_egg_info_folder_is_a_distribution(installed: Environment) -> None:
    """As `setup.py install` and Debian's packages leave it."""
    dist_info = installed.site / SUN.dist_info
    egg_info = dist_info.rename(dist_info.with_name("acme_sun-1.0-py3.11.egg-info"))
    (egg_info / "METADATA").rename(egg_info / "PKG-INFO")
    (egg_info / "PKG-INFO").write_text("Metadata-Version: 1.2\nName: acme-sun\nVersion: 1.0\n")
    (egg_info / "requires.txt").write_text("deep-agent-core>=99\n\n[pdf]\nacme-pdf\n")
    (egg_info / "RECORD").unlink()
    outcome = installed.loaded()
    assert (outcome["sun"]["status"], outcome["sun"]["version"]) == ("incompatible", "1.0")
    assert "needs deep-agent-core >=99" in outcome["sun"]["reason"]
    (egg_info / "requires.txt").write_text("deep-agent-core<1\nacme-rain\n")
    assert installed.loaded().statuses == {"rain": "active", "sun": "active"}


MANY = "".join(f"p{number} = acme_many:p{number}\n" for number in range(50_000))
LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))  # of the processor: a busy machine changes nothing
from deep_core import Kernel
answer({record.name: [record.status, record.reason] for record in Kernel().records})
"""


@pytest.mark.slow
def test_fifty_thousand_commands_of_others_beside_a_plugin_are_read_in_one_go(installed: Environment) -> None:
    folder = Distribution("acme-many").write(installed.site)
    (folder / "entry_points.txt").write_text(f"[console_scripts]\n{MANY}\n[deep]\nmany = acme_many\nmany = acme_many\n")
    for _ in range(2):
        statuses = installed.ask(LIMITED)
        assert {name: status for name, (status, _) in statuses.items()} == {
            "sun": "active",
            "rain": "active",
            "many": "failed",
        }


@pytest.mark.slow
def test_a_distribution_with_too_many_plugins_fails_as_one(installed: Environment) -> None:
    """Each would cost a check, and two of them a comparison: a minute at every start."""
    code = "from deep_core import hookimpl\\nclass P:\\n    @hookimpl\\n    def deep_prompt_sections(self, context):\\n"
    code += "        return []\\nfor number in range(50_000): globals()[f'p{number}'] = P()\\n"
    folder = Distribution("acme-many", files={"acme_many.py": code}).write(installed.site)
    (folder / "entry_points.txt").write_text(f"[deep]\n{MANY}")
    for _ in range(2):
        statuses = installed.ask(LIMITED)
        assert statuses.keys() == {"sun", "rain", "acme_many"}
        status, reason = statuses["acme_many"]
        assert (status, statuses["sun"][0]) == ("failed", "active")
        assert "50,000 entry points of deep, more than 1,000" in reason


def test_a_distribution_with_a_huge_description_is_read(installed: Environment) -> None:
    with (installed.site / SUN.dist_info / "METADATA").open("a", encoding="utf-8") as file:
        file.write("\n" + "A line of a description.\n" * 1_000_000)
    assert installed.listed().statuses == {"rain": "active", "sun": "active"}


def test_an_editable_install_of_the_root_folder_opens_nothing(installed: Environment) -> None:
    url = {"url": "file:///", "dir_info": {"editable": True}}
    (installed.site / SUN.dist_info / "direct_url.json").write_text(json.dumps(url), encoding="utf-8")
    (installed.work / "acme_sun.py").write_text("print('shadow ran')", encoding="utf-8")
    outcome = installed.loaded()
    assert outcome["sun"]["status"] == "failed"
    assert str(installed.work / "acme_sun.py") in outcome["sun"]["reason"]
    assert "acme_sun" not in outcome.imported


def test_a_module_may_be_followed_by_extras(environment: Environment) -> None:
    environment.install(Distribution("acme-sun", {"sun": "acme_sun [pdf]"}, SUN.files))
    assert environment.loaded().statuses == {"sun": "active"}


def test_a_plugin_whose_module_is_gone_says_what_brings_it_back(installed: Environment) -> None:
    (installed.site / "acme_sun.py").unlink()
    sun = installed.loaded()["sun"]
    assert sun["status"] == "failed"
    assert sun["reason"].endswith("; pip install --force-reinstall acme-sun, or plugins.disable = ['sun']")


# -- strictness --------------------------------------------------------------------------------------------------------

FAILING = Distribution("acme-ice", {"ice": "acme_ice"}, {"acme_ice.py": "raise RuntimeError('melted')"})


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
    active = installed.ask(
        """
from deep_core import Kernel
one, two = Kernel(disable=["sun"]), Kernel(disable=["rain"])
answer([one.active, two.active, Kernel().active])
""",
        start=False,
    )
    assert active == [["rain"], ["sun"], ["rain", "sun"]]


def test_the_checkouts_own_plugins_are_not_in_a_fresh_environment(environment: Environment) -> None:
    assert environment.loaded().statuses == {}
    assert (REPOSITORY / "plugins").is_dir()


# -- distributions without code ----------------------------------------------------------------------------------------


def test_a_marker_makes_a_distribution_a_plugin_without_code(here: Here) -> None:
    marker = {"acme_docs-1.0.dist-info/agent_plugins.json": "{}"}
    reader = Distribution("deep-folders", {"folders": "acme_sun"}, SUN.files)
    here.install(Distribution("acme-docs", files=marker), reader)
    with_code = Distribution(
        "acme-rain", RAIN.plugins, {**RAIN.files, "acme_rain-1.0.dist-info/agent_plugins.json": "{}"}
    )
    here.install(with_code)
    with Kernel() as kernel:
        assert {name: record.status for name, record in kernel.plugins.items()} == dict.fromkeys(
            ("acme_docs", "folders", "rain"), "active"
        )
        assert kernel.active == ("folders", "rain")
    (docs,) = (candidate for candidate in scan() if candidate.point.value == MARKER)
    assert (docs.record.distribution, docs.point.requires, docs.point.missing) == ("acme-docs", ("deep-folders",), ())
    assert scan(group="deep.commands") == []


def test_a_plugin_without_code_has_a_name_that_plugins_may_have(here: Here) -> None:
    name = "acme-" + "documents-" * 5 + "x"
    here.install(Distribution(name, files={f"{name.replace('-', '_')}-1.0.dist-info/agent_plugins.json": "{}"}))
    (found,) = scan()
    assert NAME.fullmatch(found.record.name)
