"""A file in the working directory can neither be a plugin nor shadow one, however Python was started."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from tests.drawn import sample
from tests.environments import REPOSITORY, SECTION_PLUGIN, Distribution, Environment, plugin

SUN = plugin("sun")
CLI, SESSIONS = (Distribution.of_project(REPOSITORY / "plugins" / name) for name in ("cli", "sessions"))
RAN = "import pathlib; pathlib.Path(__file__).with_name('RAN').touch()\n"
FORGED = plugin("forged", text=RAN)
PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
from deep_core import Kernel
from deep_core.plugins.status import find_plugins
listed = {r.name: r.status for r in find_plugins().records}
kernel = Kernel()
print(json.dumps([listed, {r.name: [r.status, r.reason] for r in kernel.records}, sys.path[0]]))
"""
STARTS: Mapping[str, Sequence[str]] = {
    "-c": ["-c", PROGRAM],
    "-m": ["-m", "program"],
    "script": ["program.py"],
    "-c -P": ["-P", "-c", PROGRAM],
    "-I script": ["-I", "program.py"],
}


@pytest.fixture
def hostile(environment: Environment) -> Environment:
    """A real plugin, and a working directory with a forged distribution and a module that shadows the real one."""
    environment.install(SUN)
    work = environment.work
    FORGED.write(work)
    (work / "acme_sun.py").write_text(RAN, encoding="utf-8")
    (work / "program.py").write_text(PROGRAM, encoding="utf-8")
    return environment


def ran(environment: Environment) -> bool:
    """Whether any of the planted files was executed."""
    return (environment.work / "RAN").exists()


def test_the_planted_files_would_tell_if_they_ran(hostile: Environment) -> None:
    hostile.run(hostile.python, "-c", "import acme_forged").ok()
    assert ran(hostile)
    (hostile.work / "RAN").unlink()
    hostile.run(hostile.python, "-c", "import acme_sun").ok()
    assert ran(hostile)


@pytest.mark.parametrize("start", STARTS)
def test_a_forged_distribution_is_never_listed_and_a_shadow_never_run(hostile: Environment, start: str) -> None:
    listed, loaded, first = json.loads(hostile.run(hostile.python, *STARTS[start]).ok().out)
    assert listed == {"sun": "active"}
    assert loaded.keys() == {"sun"}
    assert not ran(hostile)
    status, reason = loaded["sun"]
    searched = first == "" or Path(first).resolve() == hostile.work.resolve()
    if searched:  # the file stands before the plugin: refused, not guessed
        assert status == "failed"
        assert "acme_sun.py" in reason
        assert "acme-sun did not install" in reason
    else:
        assert (status, reason) == ("active", "")


@pytest.mark.parametrize("start", ["-c", "-m", "script"])
def test_a_forged_distribution_on_pythonpath_is_never_listed(hostile: Environment, start: str) -> None:
    done = hostile.run(hostile.python, *STARTS[start], env={"PYTHONPATH": str(hostile.work)}).ok()
    listed, loaded, _ = json.loads(done.out)
    assert listed == {"sun": "active"}
    assert "forged" not in loaded
    assert not ran(hostile)


@pytest.mark.parametrize("shape", ["acme_sun/__init__.py", "acme_sun.pyc"])
def test_other_shapes_of_a_shadow_are_refused_too(hostile: Environment, shape: str) -> None:
    (hostile.work / "acme_sun.py").unlink()
    target = hostile.work / shape
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(RAN.encode())
    _, loaded, _ = json.loads(hostile.run(hostile.python, "-c", PROGRAM).ok().out)
    assert loaded["sun"][0] == "failed"
    assert not any(hostile.work.rglob("RAN"))


def test_a_shadow_that_the_application_has_imported_is_not_taken_for_the_plugin(hostile: Environment) -> None:
    (hostile.work / "acme_sun.py").write_text("", encoding="utf-8")
    _, loaded, _ = json.loads(hostile.run(hostile.python, "-c", "import acme_sun\n" + PROGRAM).ok().out)
    assert loaded["sun"][0] == "failed"
    assert "acme_sun.py" in loaded["sun"][1]


def test_a_stray_package_in_the_site_directory_shadows_nothing(hostile: Environment) -> None:
    """It belongs to no distribution: a model that may write there makes no plugin."""
    stray = hostile.site / "acme_sun"
    stray.mkdir()
    (stray / "__init__.py").write_text(RAN, encoding="utf-8")
    outcome = hostile.loaded(flags=["-P"])
    assert outcome["sun"]["status"] == "failed"
    assert not (stray / "RAN").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    sample([["plugins", "list", "--json"], ["explain", "--json"], ["doctor", "--json"]], ["explain", "--json"]),
)
def test_the_command_line_lists_and_runs_none_of_it(hostile: Environment, command: list[str]) -> None:
    hostile.install(CLI, SESSIONS)
    done = hostile.run(hostile.python, "-m", "deep_cli", *command)
    assert "forged" not in done.out
    assert not ran(hostile)
    assert json.loads(done.out)["schema"] == 1


HELPERS = {
    "module": ("moon_helper", ("moon_helper.py",)),
    "package": ("moon_helper", ("moon_helper/__init__.py", "moon_helper/more.py")),
    "namespace": ("luna.helper", ("luna/helper.py",)),
}


@pytest.mark.parametrize(
    ("start", "kind"),
    sample(product(["-c", "-m", "script"], HELPERS), ("-c", "module"), ("-m", "package"), ("script", "namespace")),
)
def test_no_other_module_of_a_plugin_is_shadowed(environment: Environment, start: str, kind: str) -> None:
    module, files = HELPERS[kind]
    text = SECTION_PLUGIN.format(name="moon") + f"import {module}\n"
    moon = Distribution("acme-moon", {"moon": "acme_moon"}, {"acme_moon.py": text, **dict.fromkeys(files, "")})
    environment.install(moon)
    (environment.work / "program.py").write_text(PROGRAM, encoding="utf-8")
    _, loaded, _ = json.loads(environment.run(environment.python, *STARTS[start]).ok().out)
    assert loaded["moon"] == ["active", ""]
    shadow = environment.work / f"{module.replace('.', '/')}.py"
    shadow.parent.mkdir(exist_ok=True)
    shadow.write_text(RAN, encoding="utf-8")
    _, loaded, _ = json.loads(environment.run(environment.python, *STARTS[start]).ok().out)
    assert loaded["moon"][0] == "failed"
    assert f"module {module!r} would come from" in loaded["moon"][1]
    assert not any(environment.work.rglob("RAN"))


def test_tests_that_a_distribution_installs_by_mistake_do_not_stop_it(environment: Environment) -> None:
    moon = plugin("moon")
    environment.install(replace(moon, files={**moon.files, "tests/__init__.py": "", "setup.py": ""}))
    (environment.work / "tests").mkdir()
    (environment.work / "tests" / "__init__.py").touch()
    (environment.work / "setup.py").touch()
    _, loaded, _ = json.loads(environment.run(environment.python, "-c", PROGRAM).ok().out)
    assert loaded["moon"] == ["active", ""]
