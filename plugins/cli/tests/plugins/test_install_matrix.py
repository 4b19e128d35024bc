"""`deep plugins install` in every environment that people have: real wheels, the real tools, no index.

venv with and without pip, uv tool, pipx, uvx, and a site that its user cannot write: not by
permission bits, which say nothing to root, but by a mount that is read-only or a user who lacks the right.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.drawn import sample
from tests.environments import BELOW, FIXTURES, REPOSITORY, Distribution, Finished, plugin
from tests.local_wheels import made_once, of_the_checkout, repack, write_wheel

pytestmark = pytest.mark.wheels

BIN = Path(sys.executable).parent
SYSTEM = "/usr/bin:/bin"
WEATHER = "plugin weather 0.3.0 (acme-weather) is active: "


def tool(name: str) -> Path:
    """A tool of the environment that runs the tests (requirements/dev.txt has it)."""
    path = shutil.which(name, path=str(BIN))
    if path is None:
        pytest.skip(f"{name} is not installed beside the tests: python -m pip install {name}")
    return Path(path)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheels of ours, of a third party, and of everything that they require."""
    ours = of_the_checkout(tmp_path_factory)
    return made_once(tmp_path_factory, "shop", lambda folder: stock(folder, ours))


def stock(folder: Path, ours: Mapping[str, Path]) -> None:
    """Fill the shop."""
    folder.mkdir()
    plugins = REPOSITORY / "plugins"
    projects = [REPOSITORY, plugins / "cli", plugins / "sessions", *(plugins / name for name in BELOW)]
    projects += [FIXTURES / "acme-weather", FIXTURES / "acme-cities"]
    names = {"deep-agent-core", "deep-cli", "deep-sessions", *BELOW, "acme-weather", "acme-cities"}
    for name in names:
        shutil.copy(ours[name], folder)
    required = {canonicalize_name(Requirement(text).name) for project in projects for text in dependencies(project)}
    repack([*(required - names), "hatchling", "editables", "pip"], folder)
    write_wheel(plugin("future", requires=("deep-agent-core>=2,<3",)), folder)
    write_wheel(plugin("past", requires=("deep-agent-core<0.1",)), folder)
    write_wheel(Distribution("acme-nothing", files={"acme_nothing.py": ""}), folder)


def dependencies(project: Path) -> list[str]:
    """The requirements of a project of this checkout."""
    return tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"].get("dependencies", [])


@dataclass
class Place:
    """A user's machine: a home, a PATH, and wheels instead of an index.

    Attributes:
        root: an empty folder.
        shop: where wheels are.
        path: the PATH.
        deep: the command.
    """

    root: Path
    shop: Path
    path: str = SYSTEM
    deep: Path = Path("deep")
    before: Sequence[str] = ()
    more: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def variables(self) -> dict[str, str]:
        home = self.root / "home"
        home.mkdir(exist_ok=True)
        return {
            "HOME": str(home), "PATH": self.path, "PYTHONUTF8": "1",
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.shop), "PIP_CONFIG_FILE": "/dev/null",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_COMPILE": "1",
            "UV_OFFLINE": "1", "UV_FIND_LINKS": str(self.shop), "UV_PYTHON_DOWNLOADS": "never",
            "UV_CACHE_DIR": f"{self.shop}-uv-cache", "UV_PYTHON": sys.executable,
            **self.more,
        }  # fmt: skip

    def run(self, *command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Finished:
        done = subprocess.run(
            [*self.before, *map(str, command)],
            cwd=cwd or self.root,
            env={**self.variables, **(env or {})},
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def plugins(self, *arguments: str | Path, env: Mapping[str, str] | None = None) -> Finished:
        return self.run(self.deep, "plugins", *arguments, env=env)

    @property
    def active(self) -> set[str]:
        listed = json.loads(self.plugins("list", "--json").ok().out)["plugins"]
        return {p["name"] for p in listed if p["status"] == "active"} - {"cli", "sessions"}

    @property
    def checks(self) -> dict[str, Any]:
        return {check["name"]: check for check in json.loads(self.run(self.deep, "doctor", "--json").out)["checks"]}


def venv(root: Path, shop: Path, *, pip: bool, path: str = SYSTEM) -> Place:
    """A virtual environment with deep-cli. uv installs it and pip: pip and ensurepip take ten times as long."""
    place = Place(root, shop, path=path)
    place.run(sys.executable, "-m", "venv", "--without-pip", "env").ok()
    wanted = ["deep-cli", *(["pip"] if pip else [])]
    place.run(tool("uv"), "pip", "install", "--python", root / "env" / "bin" / "python", *wanted).ok()
    place.deep = root / "env" / "bin" / "deep"
    return place


def comes_and_goes(place: Place, how: str) -> None:
    """Assertions for every environment in which plugins can be installed."""
    before = place.run(place.deep, "--version").ok().out
    out = place.plugins("install", "acme-weather").ok().out
    assert f"Installed acme-weather 0.3.0 into {how}" in out
    assert WEATHER in out
    assert "command deep weather" in out
    assert place.active == {"weather"}
    assert place.run(place.deep, "weather", "Paris").ok().out == "Paris: sunny\n"

    for name, needs in (("acme-future", "deep-agent-core"), ("acme-past", "deep-agent-core<0.1")):
        clash = place.plugins("install", name)
        assert clash.code == 1
        log = re.search(r"Full pip output in file:\s+(\S+)", clash.err)  # pipx, if it uses pip
        why = Path(log[1]).read_text("utf-8") if log else clash.err
        assert re.search(f"{name}.* depends? on {needs}", why)  # as pip and uv say it
        assert f"{name} was not installed, for the reason above. deep-agent-core 0.1.0 and " in clash.err
    nothing = place.plugins("install", "acme-nothing")
    assert (nothing.code, "It has no plugin" in nothing.out) == (1, True)
    missing = place.plugins("install", "acme-no-such-thing")
    assert (missing.code, "acme-no-such-thing was not installed" in missing.err) == (1, True)
    assert place.active == {"weather"}

    (wheel,) = place.shop.glob("acme_cities-*.whl")
    place.plugins("install", wheel).ok()
    assert place.active == {"cities", "weather"}
    assert place.run(place.deep, "--version").ok().out == before
    checks = place.checks
    environment = checks["environment"]
    assert (environment["ok"], how in environment["message"], environment["fix"]) == (True, True, "")
    assert checks["plugin:weather"]["ok"]

    assert place.plugins("uninstall", "weather", "--yes").ok().out == "Uninstalled acme-weather.\n"
    assert place.active == {"cities"}
    assert place.plugins("restore").ok().out == "acme-cities is installed.\n"


# -- virtual environments ----------------------------------------------------------------------------------------------


def test_a_venv_with_pip(tmp_path: Path, shop: Path) -> None:
    comes_and_goes(venv(tmp_path, shop, pip=True), "an environment with pip")


@pytest.mark.exhaustive
def test_a_venv_without_pip_where_uv_is_on_the_path(tmp_path: Path, shop: Path) -> None:
    place = venv(tmp_path, shop, pip=False, path=f"{only(tmp_path, tool('uv'))}:{SYSTEM}")
    comes_and_goes(place, "an environment without pip, changed by uv")


def only(root: Path, *tools: Path) -> Path:
    """A folder for the PATH with these tools alone."""
    folder = root / "tools"
    folder.mkdir(exist_ok=True)
    for path in tools:
        (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.exhaustive
def test_a_venv_without_pip_and_without_uv_says_what_to_type_and_that_works(tmp_path: Path, shop: Path) -> None:
    if importlib.util.find_spec("ensurepip") is None:
        pytest.skip("this Python has no ensurepip")
    place = venv(tmp_path, shop, pip=False)
    done = place.plugins("install", "acme-weather")
    assert (done.code, done.out) == (1, "")
    assert "has no pip, and uv is not on the PATH" in done.err
    typed = done.err.partition("Type: ")[2].strip()
    assert typed == f"{tmp_path / 'env' / 'bin' / 'python'} -m ensurepip"
    assert place.active == set()
    assert typed in place.checks["environment"]["fix"]

    place.run(tool("uv"), "pip", "install", "--python", tmp_path / "env" / "bin" / "python", "acme-cities").ok()
    kept = place.plugins("uninstall", "cities", "--yes")
    assert (kept.code, typed in kept.err, place.active) == (1, True, {"cities"})
    place.run("sh", "-c", typed).ok()
    place.plugins("uninstall", "cities", "--yes").ok()
    place.plugins("install", "acme-weather").ok()
    assert place.active == {"weather"}


@pytest.mark.exhaustive
def test_a_new_python_in_the_same_place_gets_its_plugins_back(tmp_path: Path, shop: Path) -> None:
    place = venv(tmp_path, shop, pip=True)
    place.plugins("install", "acme-weather", "acme-cities").ok()
    shutil.rmtree(tmp_path / "env")
    again = venv(tmp_path, shop, pip=True)
    assert again.active == set()
    again.plugins("restore").ok()
    assert again.active == {"cities", "weather"}


# -- a site that its user cannot write ---------------------------------------------------------------------------------


def read_only(folder: Path) -> list[str]:
    """The command prefix that prevents writing to a folder: the first that works here."""
    mount = f'mount --bind "{folder}" "{folder}" && mount -o remount,bind,ro "{folder}" && exec "$0" "$@"'
    nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"]
    ways = [
        ["unshare", "--mount", "sh", "-c", mount],
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
        # Somebody who may read what root may, and write nothing of it.
        ["setpriv", *nobody, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"],
        ["setpriv", *nobody],
    ]
    probe = f"test -r '{folder}' && ! touch '{folder}/written' 2>/dev/null"
    told: list[str] = []
    for way in ways:
        if shutil.which(way[0]) is None:
            told.append(f"{way[0]} is not here")
            continue
        done = subprocess.run([*way, "sh", "-c", probe], capture_output=True, text=True, check=False)
        (folder / "written").unlink(missing_ok=True)
        if done.returncode == 0:
            return way
        told.append(f"{shlex.join(way[:2])}: {done.stderr.strip() or 'it could be written'}")
    pytest.skip("no way to make a folder read-only here: " + "; ".join(told))


@pytest.mark.parametrize("pip", sample([True, False], True))
def test_in_a_read_only_environment_nothing_is_half_done(tmp_path: Path, shop: Path, pip: bool) -> None:
    path = SYSTEM if pip else f"{only(tmp_path, tool('uv'))}:{SYSTEM}"
    place = venv(tmp_path, shop, pip=pip, path=path)
    place.variables  # noqa: B018 - makes the home, before it is mounted
    environment = tmp_path / "env"
    before = sorted(str(found) for found in environment.rglob("*"))
    place.before = read_only(environment)
    done = place.plugins("install", "acme-weather", env={"TMPDIR": "/tmp"})
    assert (done.code, done.out) == (1, "")
    assert "acme-weather was not installed, for the reason above" in done.err
    assert place.plugins("uninstall", "cli", "--yes", env={"TMPDIR": "/tmp"}).code == 1
    found = place.checks
    assert (found["plugin:cli"]["ok"], found["agent"]["ok"]) == (True, True)
    assert before == sorted(str(found) for found in environment.rglob("*"))

    place.before = ()
    place.plugins("install", "acme-weather").ok()
    assert place.active == {"weather"}


def test_the_doctor_works_where_nothing_at_all_can_be_written(tmp_path: Path, shop: Path) -> None:
    place = venv(tmp_path, shop, pip=True)
    home = Path(place.variables["HOME"])
    place.before = read_only(home)
    found = place.checks
    assert (found["plugin:cli"]["ok"], found["agent"]["ok"]) == (True, True)
    for name, variable in (("folder:cache", "XDG_CACHE_HOME"), ("folder:data", "XDG_DATA_HOME")):
        assert "is not writable" in found[name]["message"]
        assert f"export {variable}=" in found[name]["fix"]
    assert place.plugins("list", "--json").ok()


@pytest.mark.exhaustive
def test_where_the_environment_cannot_be_written_pip_takes_the_users_own_site(tmp_path: Path, shop: Path) -> None:
    if Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file():
        pytest.skip("this Python is the system's, whose pip changes nothing")
    place = venv(tmp_path, shop, pip=True)
    # Made into what an interpreter that belongs to root is: no virtual environment, and its user has a site too.
    (site,) = (tmp_path / "env").glob("lib/python3*/site-packages")
    (site / "zz_no_venv.pth").write_text("import sys; sys.base_prefix = sys.prefix\n")
    settings = tmp_path / "env" / "pyvenv.cfg"
    text = settings.read_text("utf-8")
    settings.write_text(text.replace("include-system-site-packages = false", "include-system-site-packages = true"))
    Path(place.variables["HOME"]).chmod(0o777)
    place.before = read_only(tmp_path / "env")
    place.more["TMPDIR"] = "/tmp"
    out = place.plugins("install", "acme-weather").ok().out
    assert "Installed acme-weather 0.3.0 into " in out
    assert place.active == {"weather"}

    kept = place.plugins("uninstall", "deep-cli", "--yes")
    assert (kept.code, kept.out) == (1, "")
    assert kept.err.endswith("To disable it: export DEEP_PLUGINS_DISABLE=deep-cli\n")
    place.plugins("uninstall", "weather", "--yes").ok()
    assert place.active == set()


# -- uv tool -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def uv_tool(tmp_path: Path, shop: Path) -> Place:
    """deep-cli, installed by `uv tool install`."""
    uv = tool("uv")
    place = Place(tmp_path, shop, path=f"{only(tmp_path, uv)}:{SYSTEM}")
    place.run("uv", "tool", "install", "deep-cli").ok()
    place.deep = tmp_path / "home" / ".local" / "bin" / "deep"
    return place


def receipt(place: Place) -> str:
    (path,) = (place.root / "home").rglob("uv-receipt.toml")
    return path.read_text("utf-8")


def test_a_uv_tool(uv_tool: Place) -> None:
    comes_and_goes(uv_tool, "the uv tool deep-cli")
    # What was installed is in uv's own receipt, and the constraint that kept deep-agent-core is not.
    assert "acme-cities" in receipt(uv_tool)
    assert "deep-agent-core" not in receipt(uv_tool)
    uv_tool.run("uv", "tool", "upgrade", "--reinstall", "deep-cli").ok()
    assert uv_tool.active == {"cities"}


@pytest.mark.exhaustive
def test_what_a_uv_tool_was_made_with_is_kept(uv_tool: Place) -> None:
    (wheel,) = uv_tool.shop.glob("acme_cities-*.whl")
    constraints = uv_tool.root / "constraints.txt"
    constraints.write_text("rich<99\n")
    uv_tool.run(
        "uv", "tool", "install", "deep-cli>=0.1", "--with", wheel, "--with-executables-from", "pygments",
        "--constraints", constraints,
    ).ok()  # fmt: skip
    before = receipt(uv_tool)
    # Nothing in the environment says where the wheels are now: the receipt does.
    uv_tool.plugins("install", "acme-weather", env={"UV_FIND_LINKS": ""}).ok()
    after = receipt(uv_tool)
    assert uv_tool.active == {"cities", "weather"}
    added = [line for line in after.splitlines() if line not in before.splitlines()]
    assert added == ['    { name = "acme-weather" },']
    assert (uv_tool.root / "home" / ".local" / "bin" / "pygmentize").exists()


@pytest.mark.exhaustive
def test_a_uv_tool_that_was_made_anew_without_plugins_gets_them_back(uv_tool: Place) -> None:
    uv_tool.plugins("install", "acme-weather").ok()
    uv_tool.run("uv", "tool", "install", "--reinstall", "deep-cli").ok()
    assert uv_tool.active == set()
    uv_tool.plugins("restore").ok()
    assert uv_tool.active == {"weather"}


@pytest.mark.exhaustive
def test_a_folder_is_linked_into_a_uv_tool(uv_tool: Place) -> None:
    project = uv_tool.root / "acme weather"
    shutil.copytree(FIXTURES / "acme-weather", project)
    assert WEATHER in uv_tool.plugins("install", "-e", project).ok().out
    uv_tool.plugins("install", "acme-cities").ok()
    assert uv_tool.active == {"cities", "weather"}
    assert f'editable = "{project}"' in receipt(uv_tool)


@pytest.mark.exhaustive
def test_a_uv_tool_where_uv_is_not_on_the_path_is_not_changed(uv_tool: Place) -> None:
    uv_tool.plugins("install", "acme-cities").ok()
    path, uv_tool.path = uv_tool.path, SYSTEM
    for command in (["install", "acme-weather"], ["uninstall", "cities", "--yes"]):
        done = uv_tool.plugins(*command)
        assert (done.code, "is changed by uv, which is not on the PATH: add it" in done.err) == (1, True)
    uv_tool.path = path
    assert uv_tool.active == {"cities"}

    # What uninstalls it takes it out of the receipt too: else the next `uv tool upgrade` brings it back.
    uv_tool.plugins("uninstall", "cities", "--yes").ok()
    assert "acme-cities" not in receipt(uv_tool)


@pytest.mark.exhaustive
def test_in_a_receipt_that_has_another_form_nothing_is_written(uv_tool: Place) -> None:
    (path,) = (uv_tool.root / "home").rglob("uv-receipt.toml")
    text = path.read_text("utf-8").replace("[tool]", '[tool]\nnews = "from the future"', 1)
    path.write_text(text)
    uv_tool.plugins("install", "acme-weather").ok()
    assert 'news = "from the future"' in receipt(uv_tool)
    path.write_text(text.replace("requirements =", '"requirements" ='))
    done = uv_tool.plugins("install", "acme-cities").ok()
    assert "uv tool upgrade will remove it, because uv's receipt cannot be changed" in done.out
    assert uv_tool.active == {"cities", "weather"}
    assert "acme-cities" not in receipt(uv_tool)


@pytest.mark.exhaustive
def test_an_environment_of_uvx_is_not_changed(tmp_path: Path, shop: Path) -> None:
    uv = tool("uv")
    place = Place(tmp_path, shop, path=f"{only(tmp_path, uv)}:{SYSTEM}")
    done = place.run("uv", "tool", "run", "--from", "deep-cli", "deep", "plugins", "install", "acme-weather")
    assert done.code == 1
    assert "an environment that a tool made for one run" in done.err
    assert "uv tool install deep-cli --with PLUGIN" in done.err


# -- pipx --------------------------------------------------------------------------------------------------------------


@pytest.fixture(params=sample(["pip", "uv"], "uv"))
def pipx(request: pytest.FixtureRequest, tmp_path: Path, shop: Path) -> Place:
    """deep-cli, installed by pipx, which installs with pip or with uv."""
    tools = only(tmp_path, tool("pipx"), tool("uv"))
    more = {
        "PIPX_DEFAULT_BACKEND": request.param, "PIPX_DISABLE_SHARED_LIBS_AUTO_UPGRADE": "1",
        "PIPX_DEFAULT_PYTHON": sys.executable, "PIPX_HOME": str(tmp_path / "pipx"), "UV_PYTHON": "",
    }  # fmt: skip
    place = Place(tmp_path, shop, path=f"{tools}:{SYSTEM}", more=more)
    place.run("pipx", "install", "deep-cli", "--skip-maintenance").ok()
    place.deep = tmp_path / "home" / ".local" / "bin" / "deep"
    del more["PIPX_HOME"]  # the environment itself says where pipx's home is
    return place


def test_a_pipx_environment(pipx: Place) -> None:
    (kernel,) = (pipx.root / "pipx" / "venvs" / "deep-cli").rglob("deep_agent_core-*.dist-info")
    before = kernel.stat()
    comes_and_goes(pipx, "the pipx environment deep-cli")
    after = kernel.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)  # it was not installed again
    metadata = (pipx.root / "pipx" / "venvs" / "deep-cli" / "pipx_metadata.json").read_text("utf-8")
    assert set(json.loads(metadata)["injected_packages"]) == {"acme-cities", "acme-nothing"}
    assert "constraint" not in metadata


@pytest.mark.parametrize("pipx", ["uv"], indirect=True)  # whichever it installs with, it is not asked
def test_a_pipx_environment_where_pipx_is_not_on_the_path_is_not_changed(pipx: Place) -> None:
    path, pipx.path = pipx.path, SYSTEM
    done = pipx.plugins("install", "acme-weather")
    assert done.code == 1
    assert "is changed by pipx, which is not on the PATH: add it" in done.err
    pipx.path = path
    assert pipx.active == set()
