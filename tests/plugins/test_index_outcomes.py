"""What a list says of plugins that were loaded before, and when it forgets that."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import pytest

from deep_core import Kernel, PluginRecord
from deep_core.plugins.status import find_plugins
from tests.environments import SECTION_PLUGIN, Distribution, Environment, Here, plugin

SUN = plugin("sun")
ICE = "raise RuntimeError('melted')"
WELL = SECTION_PLUGIN.format(name="ice")
FAILING = Distribution("acme-ice", {"ice": "acme_ice"}, {"acme_ice.py": ICE})
PACKAGE = {"acme_ice/__init__.py": "from acme_ice.inner.snow import *", "acme_ice/inner/snow.py": ICE}


def listed(name: str = "ice") -> PluginRecord:
    """The plugin's record in a list."""
    (record,) = (record for record in find_plugins().records if record.name == name)
    return record


def load(here: Here, **how: object) -> None:
    """Load the plugins as another process would."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Kernel(**how).close()  # type: ignore[arg-type]
    here.forget()
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_ice"]:
        del sys.modules[name]  # from a project, or of a package that half came


def rewrite(file: Path, text: str) -> None:
    """Change a file: its time differs for certain, though the clock of the file system may stand still."""
    before = file.stat().st_mtime_ns
    file.write_text(text, encoding="utf-8")
    os.utime(file, ns=(before, before + 1))


# -- what is remembered ------------------------------------------------------------------------------------------------


def test_a_list_shows_the_outcome_of_the_last_load_and_says_so_without_importing(environment: Environment) -> None:
    environment.install(SUN, FAILING)
    assert environment.listed().statuses == {"ice": "active", "sun": "active"}
    assert environment.listed()["sun"]["hooks"] is None
    loaded, shown = environment.loaded(), environment.listed()
    assert shown.statuses == {"ice": "failed", "sun": "active"}
    assert shown["ice"]["reason"] == f"at its last load: {loaded['ice']['reason']}"
    assert (shown["sun"]["hooks"], shown["sun"]["reason"]) == (["deep_prompt_sections"], "")
    assert not {"acme_ice", "acme_sun"} & set(shown.imported)


def test_a_plugin_that_failed_for_an_agent_is_active_in_a_list(environment: Environment) -> None:
    body = "from deep_core import hookimpl\n@hookimpl\ndef deep_toolsets(context): raise RuntimeError('no')\n"
    environment.install(Distribution("acme-ice", {"ice": "acme_ice"}, {"acme_ice.py": body}))
    assert environment.loaded(agent=True)["ice"]["status"] == "active"
    assert environment.listed()["ice"]["status"] == "active"


def test_what_failed_last_time_is_tried_again(here: Here) -> None:
    here.install(FAILING)
    load(here)
    with pytest.warns(UserWarning, match="melted"), Kernel() as kernel:
        assert kernel.plugins["ice"].reason.startswith("RuntimeError: melted")


def test_a_list_that_remembers_writes_nothing(here: Here) -> None:
    here.install(SUN, FAILING)
    load(here)
    (file,) = Path(os.environ["HOME"]).rglob("plugin-index/*.json")
    inode = file.stat().st_ino
    load(here)
    listed()
    assert file.stat().st_ino == inode


def test_two_environments_remember_for_themselves(tmp_path: Path) -> None:
    first, second = Environment.create(tmp_path / "a"), Environment.create(tmp_path / "b")
    shared = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for environment in (first, second):
        environment.install(FAILING)
        environment.loaded(env=shared)
    second.uninstall(FAILING)
    second.install(Distribution("acme-ice", {"ice": "acme_ice"}, {"acme_ice.py": WELL}))
    second.loaded(env=shared)
    assert first.listed(env=shared)["ice"]["status"] == "failed"
    assert second.listed(env=shared)["ice"]["status"] == "active"


# -- what a fix makes the list forget ----------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["acme_ice/__init__.py", "acme_ice/inner/snow.py"])
@pytest.mark.parametrize("editable", [False, True])
def test_a_changed_file_of_the_plugin_makes_the_list_forget(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, editable: bool
) -> None:
    project = tmp_path / "project" / "src"
    monkeypatch.setattr(sys, "path", [str(project), *sys.path])
    root = project if editable else here.site
    for path, text in PACKAGE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    here.install(Distribution("acme-ice", {"ice": "acme_ice"}, {}, editable=project if editable else None))
    if not editable:
        (here.site / "acme_ice-1.0.dist-info" / "RECORD").unlink()
    load(here)
    assert listed().reason.startswith("at its last load: RuntimeError: melted")
    rewrite(root / file, WELL)
    assert (listed().status, listed().reason) == ("active", "")


def test_installing_the_missing_library_makes_the_list_forget(here: Here) -> None:
    here.install(Distribution("acme-ice", {"ice": "acme_ice"}, {"acme_ice.py": "import acme_library"}))
    load(here)
    assert "pip install acme_library" in listed().reason
    here.install(Distribution("acme-library", files={"acme_library.py": ""}))
    os.utime(here.site, (1, 1))  # installing changes it, but a clock may stand still meanwhile
    assert listed().status == "active"


def test_disabling_the_rival_makes_the_list_forget_that_there_were_two(here: Here) -> None:
    here.install(SUN, Distribution("other-sun", {"sun": "other_sun"}, {"other_sun.py": WELL}))
    load(here)
    assert {record.status for record in find_plugins().records} == {"failed"}
    mine, other = find_plugins(disable=["other-sun"]).records
    assert (mine.status, mine.reason, other.status) == ("active", "", "disabled")


def test_a_plugin_that_is_disabled_is_disabled_whatever_is_remembered(here: Here) -> None:
    here.install(FAILING)
    load(here)
    (record,) = find_plugins(disable=["ice"]).records
    assert record.status == "disabled"


def test_a_plugin_without_its_module_is_remembered_until_the_module_is_there(here: Here) -> None:
    here.install(FAILING)
    module = here.site / "acme_ice.py"
    module.unlink()
    load(here)
    assert "its module 'acme_ice' does not exist" in listed().reason
    module.write_text(WELL, encoding="utf-8")
    assert listed().status == "active"


# -- what one plugin may do to a list ----------------------------------------------------------------------------------


class _Raising:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "acme_ice":
            raise RuntimeError("no finder")


def test_a_finder_that_raises_ends_no_list(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.install(SUN, FAILING)
    load(here)
    monkeypatch.setattr(sys, "meta_path", [_Raising, *sys.meta_path])
    assert listed().status == "active"
    assert listed("sun").hooks == ("deep_prompt_sections",)
