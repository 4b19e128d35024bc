"""`deep plugins install` and `uninstall`, by the real pip on an environment of their own, without an index."""

from __future__ import annotations

import json
import re
import shlex
import stat
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from deep_cli.failure import Failure
from deep_cli.plugins.installing.distributions import Dist, names_of
from deep_cli.plugins.installing.records import Entry, file, record
from deep_cli.plugins.installing.spec import parse

from plugins.cli.tests.conftest import offline, started
from tests.drawn import sample
from tests.environments import Distribution, Finished, plugin
from tests.local_wheels import write_wheel

SUN = plugin("sun")
MOON = plugin("moon")
OFF = {"DEEP_PLUGINS_DISABLE": "moon,sun"}
"""Disables both plugins, so that an installation does not load them."""
OURS = {"cli": "active", "sessions": "active"}
COMMAND = "import click\n\n@click.command()\ndef command():\n    click.echo('sunny')\n"


class Shop:
    """The command `deep`, with a folder of wheels instead of an index."""

    def __init__(self, deep: Any, folder: Path) -> None:
        self.deep, self.folder = deep, folder
        folder.mkdir()

    def offer(self, *distributions: Distribution) -> list[Path]:
        return [write_wheel(distribution, self.folder) for distribution in distributions]

    def __call__(self, *arguments: str | Path, env: dict[str, str] | None = None) -> Finished:
        return self.deep("plugins", *arguments, env={**offline(self.folder), **(env or {})})

    @property
    def statuses(self) -> dict[str, str]:
        return {p["name"]: p["status"] for p in json.loads(self("list", "--json").ok().out)["plugins"]}

    @property
    def record(self) -> Path:
        return self.deep.environment.home / ".local" / "share" / "deep" / "installed.json"

    @property
    def recorded(self) -> list[dict[str, Any]]:
        data = json.loads(self.record.read_text("utf-8"))
        assert data["schema"] == 1
        return data["installed"]


@pytest.fixture
def shop(make_deep: Any, tmp_path: Path) -> Shop:
    return Shop(make_deep(), tmp_path / "shop")


@pytest.fixture
def started_shop(shop: Shop) -> Shop:
    """The command and its probes as processes of their own, not forks: what is loaded in them, and what they take."""
    shop.deep = started(shop.deep)
    return shop


# -- what was installed is told ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_name_is_installed_listed_recorded_and_uninstalled_again(started_shop: Shop) -> None:
    shop = started_shop
    shop.offer(SUN)
    out = shop("install", "acme-sun").ok().out
    assert "Installed acme-sun 1.0" in out
    assert "plugin sun 1.0 (acme-sun) is active: deep_prompt_sections" in out
    assert shop.statuses == {**OURS, "sun": "active"}
    environment = str((shop.deep.environment.root / "env").resolve())
    entry = {"environment": environment, "name": "acme-sun", "requirement": "acme-sun", "editable": False}
    assert shop.recorded == [{**entry, "version": "1.0"}]
    assert stat.S_IMODE(shop.record.stat().st_mode) == 0o600
    assert {path.name for path in shop.record.parent.iterdir()} == {"installed.json", "installed.lock"}

    assert shop("uninstall", "sun", "--yes").ok().out == "Uninstalled acme-sun.\n"
    assert shop.statuses == OURS
    assert shop.recorded == []


@pytest.mark.slow
def test_uninstalling_names_what_still_needs_it(shop: Shop) -> None:
    shop.offer(SUN)
    shop("install", "acme-sun").ok()
    shop.deep.environment.install(
        replace(plugin("moon", requires=["deep-agent-core>=0.1,<1", "acme-sun>=1"]), name="acme-moon"),
        replace(plugin("star", requires=["deep-agent-core>=0.1,<1", "acme-sun; extra == 'x'"]), name="acme-star"),
    )
    out = shop("uninstall", "sun", "--yes").ok().out
    assert out.splitlines() == [
        "Uninstalled acme-sun.",
        "  Still installed, and in need of it: acme-moon. To have it back: deep plugins install acme-sun",
    ]


@pytest.mark.slow
def test_uninstalling_names_the_data_that_stays_and_how_to_delete_it(shop: Shop) -> None:
    code = "context.data_dir.joinpath('seen.txt').write_text('1'); return []"
    text = f"from deep_core import hookimpl\n@hookimpl\ndef deep_toolsets(context):\n    {code}\n"
    shop.offer(plugin("sun", text=text))
    shop("install", "acme-sun").ok()
    shop.deep("explain").ok()
    data = shop.record.parent / "plugins" / "sun"
    assert (data / "seen.txt").is_file()
    told, way = shop("uninstall", "sun", "--yes").ok().out.splitlines()[1].split(". To delete it: ")
    assert told == f"  Its data stays in {data}"
    assert shop.deep.environment.run(*shlex.split(way)).code == 0
    assert not data.exists()


@pytest.mark.exhaustive
def test_a_path_is_taken_from_the_current_folder_and_recorded_whole(shop: Shop) -> None:
    (wheel,) = shop.offer(SUN)
    wheel.rename(shop.deep.work / wheel.name)
    shop("install", wheel.name, env=OFF).ok()
    assert shop.recorded[0]["requirement"] == str((shop.deep.work / wheel.name).resolve())
    assert shop.recorded[0]["name"] == "acme-sun"


@pytest.mark.slow
def test_a_folder_can_be_installed_as_a_link(shop: Shop) -> None:
    project = shop.deep.work / "sun project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "acme_sun.py").write_text(SUN.files["acme_sun.py"], "utf-8")
    (project / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'hatchling.build'\n"
        "[project]\nname = 'acme-sun'\nversion = '1.0'\ndependencies = ['deep-agent-core>=0.1,<1']\n"
        "[project.entry-points.deep]\nsun = 'acme_sun'\n"
        "[tool.hatch.build.targets.wheel]\nsources = ['src']\nonly-include = ['src']\n",
        "utf-8",
    )
    out = shop("install", "-e", "./sun project", env={"PIP_NO_BUILD_ISOLATION": "0"}).ok().out
    assert "plugin sun 1.0 (acme-sun) is active" in out
    (listed,) = [p for p in json.loads(shop("list", "--json").ok().out)["plugins"] if p["name"] == "sun"]
    assert (listed["editable"], listed["path"]) == (True, str(project.resolve()))
    assert shop.recorded[0]["editable"] is True


@pytest.mark.slow
def test_an_address_is_installed_and_named_by_what_it_was(shop: Shop) -> None:
    (wheel,) = shop.offer(SUN)
    assert "Installed acme-sun 1.0" in shop("install", wheel.as_uri(), env=OFF).ok().out
    assert shop.recorded[0]["requirement"] == wheel.as_uri()


@pytest.mark.slow
def test_several_come_together_or_not_at_all(shop: Shop) -> None:
    shop.offer(SUN)
    done = shop("install", "acme-sun", "acme-moon", env=OFF)
    assert done.code == 1
    assert "acme-sun, acme-moon were not installed" in done.err
    assert "acme-moon" in done.err
    assert shop.statuses == OURS
    shop.offer(MOON)
    shop("install", "acme-sun", "acme-moon", env=OFF).ok()
    assert shop.statuses == {**OURS, "moon": "active", "sun": "active"}
    assert [entry["name"] for entry in shop.recorded] == ["acme-sun", "acme-moon"]


@pytest.mark.exhaustive
def test_what_is_there_already_is_said_to_be_and_upgraded_when_asked(shop: Shop) -> None:
    shop.offer(SUN)
    shop("install", "acme-sun", env=OFF).ok()
    shop.offer(plugin("sun", version="1.1"))
    assert "acme-sun 1.0 is already installed" in shop("install", "acme-sun", env=OFF).ok().out
    assert "Installed acme-sun 1.1" in shop("install", "-U", "acme-sun", env=OFF).ok().out
    assert [entry["version"] for entry in shop.recorded] == ["1.1"]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["name", "path"])
@pytest.mark.parametrize("broken", ["fails", "has none"])
def test_the_way_back_from_a_broken_version_works_as_printed(by: str, broken: str, shop: Shop) -> None:
    (wheel,) = shop.offer(SUN)
    if by == "path":
        (kept := shop.deep.work / "kept wheels").mkdir()
        wheel = wheel.rename(kept / wheel.name)
    shop("install", "acme-sun" if by == "name" else wheel).ok()
    newer = Distribution("acme-sun", version="1.2", files={"acme_sun.py": ""})
    shop.offer(plugin("sun", version="1.2", text="1 / 0") if broken == "fails" else newer)
    upgraded = shop("install", "-U", "acme-sun")
    assert upgraded.code == 1
    assert ("is failed" if broken == "fails" else "It has no plugin") in upgraded.out
    way = upgraded.out.partition("To go back to what was there: deep plugins ")[2].splitlines()[0]
    assert "plugin sun 1.0 (acme-sun) is active" in shop(*shlex.split(way)).ok().out
    assert shop.statuses == {**OURS, "sun": "active"}


@pytest.mark.exhaustive
def test_plugins_that_do_not_load_are_installed_and_reported_with_the_reason(shop: Shop) -> None:
    breaks = {
        "fails": ("1 / 0", "is failed: ZeroDivisionError"),
        "leaves": ("import os; os._exit(3)", "ends the process (exit code 3) while it is imported"),
        "needs": (
            'from deep_core import MissingExtra\nraise MissingExtra("acme-needs[hot]")',
            "is needs-extra",
        ),
    }
    shop.offer(SUN, *(plugin(name, text=code) for name, (code, _) in breaks.items()))
    names = [*(f"acme-{name}" for name in breaks), "acme-sun"]
    done = shop("install", *names)
    assert done.code == 1
    for name, (_, said) in breaks.items():
        assert f"plugin {name} 1.0 (acme-{name}) {said}" in done.out
    assert "plugin sun 1.0 (acme-sun) is active" in done.out
    assert [entry["name"] for entry in shop.recorded] == names


@pytest.mark.slow
def test_a_plugin_that_the_user_has_disabled_is_reported_as_disabled(shop: Shop) -> None:
    shop.offer(SUN)
    assert "is disabled: " in shop("install", "acme-sun", env={"DEEP_PLUGINS_DISABLE": "sun"}).ok().out


@pytest.mark.slow
def test_nothing_that_was_installed_is_imported_by_the_installing_process(started_shop: Shop) -> None:
    shop = started_shop
    mark = shop.deep.work / "mark"
    code = f"import sys\nwith open({str(mark)!r}, 'a') as f: f.write(' '.join(sys.orig_argv) + '\\n')\n"
    shop.offer(plugin("sun", text=code))
    shop("install", "acme-sun")
    lines = mark.read_text("utf-8").splitlines()
    assert lines
    assert all("deep_cli.plugins.probe" in line for line in lines)


@pytest.mark.slow
def test_what_brings_no_plugin_is_reported_with_the_way_back_and_not_recorded(shop: Shop) -> None:
    shop.offer(Distribution("acme-nothing", files={"acme_nothing.py": ""}))
    done = shop("install", "acme-nothing")
    assert done.code == 1
    assert "It has no plugin: no entry point 'deep'" in done.out
    assert f"{shop.deep.environment.python} -m pip uninstall acme-nothing" in done.out
    assert not shop.record.exists()


@pytest.mark.exhaustive
def test_what_brings_a_command_alone_is_welcome(shop: Shop) -> None:
    shop.offer(Distribution("acme-c", files={"acme_c.py": COMMAND}, commands={"sunny": "acme_c:command"}))
    assert "command deep sunny" in shop("install", "acme-c").ok().out
    assert shop("uninstall", "acme-c", "--yes").ok().out == "Uninstalled acme-c.\n"


@pytest.mark.exhaustive
def test_a_distribution_of_distributions_brings_their_plugins(shop: Shop) -> None:
    shop.offer(SUN, MOON, Distribution("acme-all", requires=("acme-sun", "acme-moon")))
    out = shop("install", "acme-all").ok().out
    assert "plugin moon 1.0 (acme-moon) is active" in out
    assert "plugin sun 1.0 (acme-sun) is active" in out
    out = shop("install", "acme-all", env=OFF).ok().out  # nothing is new now
    assert "plugin moon 1.0 (acme-moon) is disabled" in out
    assert "plugin sun 1.0 (acme-sun) is disabled" in out


# -- deep-agent-core stays ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("requires", "needs"),
    sample(
        [
            ("deep-agent-core>=2,<3", "acme-old 1.0 depends on deep-agent-core<3 and >=2\n.*deep-agent-core==0.1.0"),
            ("deep-agent-core<0.1", "acme-old 1.0 depends on deep-agent-core<0.1\n.*deep-agent-core==0.1.0"),
            ("pydantic-ai-slim<2", "acme-old 1.0 depends on pydantic-ai-slim<2\n.*pydantic-ai-slim==2"),
        ],
        ("deep-agent-core>=2,<3", "acme-old 1.0 depends on deep-agent-core<3 and >=2\n.*deep-agent-core==0.1.0"),
    ),
)
def test_a_plugin_that_needs_another_kernel_is_a_conflict_that_says_which(
    shop: Shop, requires: str, needs: str
) -> None:
    shop.offer(plugin("old", requires=(requires,)), Distribution("deep-agent-core", version="2.0"))
    done = shop("install", "acme-old")
    assert (done.code, done.out) == (1, "")
    assert re.search(needs, done.err)  # as pip says it
    assert "acme-old was not installed, for the reason above. deep-agent-core 0.1.0 and pydantic-ai-slim 2." in done.err
    assert "--upgrade deep-cli deep-agent-core " in done.err
    assert shop.statuses == OURS
    assert not (shop.deep.environment.site / "deep_agent_core-2.0.dist-info").exists()


@pytest.mark.slow
def test_of_several_the_conflict_names_the_one_that_is_in_the_way(shop: Shop) -> None:
    shop.offer(SUN, MOON, plugin("old", requires=("deep-agent-core>=2,<3",)))
    done = shop("install", "acme-moon", "acme-sun", "acme-old")
    assert done.code == 1
    assert "acme-old 1.0 depends on deep-agent-core" in done.err
    assert "acme-moon, acme-sun, acme-old were not installed" in done.err
    assert shop.statuses == OURS


@pytest.mark.slow
def test_a_newer_kernel_that_is_offered_is_not_taken(shop: Shop) -> None:
    shop.offer(plugin("sun", requires=("deep-agent-core",)), Distribution("deep-agent-core", version="0.9"))
    shop("install", "--upgrade", "acme-sun", env=OFF).ok()
    assert not (shop.deep.environment.site / "deep_agent_core-0.9.dist-info").exists()


# -- what is typed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("todo", "deep plugins install deep-todo"),
        ("./nowhere", "no such file or folder"),
        ("--index-url=x", "is not an option"),
    ],
)
def test_what_cannot_be_installed_is_reported_before_anything_runs(typed: str, said: str) -> None:
    with pytest.raises(Failure, match=said) as raised:
        parse([typed])
    assert raised.value.exit_code == 2


def test_a_folder_of_that_name_does_not_stand_for_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme-sun").mkdir()
    (tmp_path / "acme-sun" / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    monkeypatch.chdir(tmp_path)
    by_name, by_path = parse(["acme-sun[x]>=1", "./acme-sun[x]"])
    assert (by_name.text, by_name.name, by_name.address) == ("acme-sun[x]>=1", "acme-sun", "")
    assert (by_path.text, by_path.name) == (f"{tmp_path.resolve() / 'acme-sun'}[x]", "other")


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("https://me:secret@host/acme_sun-1.0-py3-none-any.whl", "https://host/acme_sun-1.0-py3-none-any.whl"),
        ("git+https://host/sun.git@main#egg=acme-sun", "https://host/sun.git"),
        ("git+ssh://git@host/sun.git@v1", "ssh://git@host/sun.git"),
        ("Acme.Sun @ git+https://host/sun.git@main", "https://host/sun.git"),
        ("acme-sun[x] @ https://host/sun.tar.gz", "https://host/sun.tar.gz"),
    ],
)
def test_an_address_is_found_as_installers_write_it_down(tmp_path: Path, typed: str, written: str) -> None:
    """pip and uv write `direct_url.json` without a password."""
    (wanted,) = parse([typed])
    assert wanted.text == typed
    there = {name: Dist("1.0", str(tmp_path / name), 0) for name in ("acme-sun", "acme-moon")}
    for name, url in (("acme-sun", written), ("acme-moon", "https://host/moon.git")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "direct_url.json").write_text(json.dumps({"url": url}), "utf-8")
    assert names_of(wanted, there, there) == ["acme-sun"]


def test_nothing_typed_is_a_usage_error(shop: Shop) -> None:
    done = shop("install")
    assert (done.code, "nothing to install" in done.err) == (2, True)


@pytest.mark.slow
def test_a_projects_pip_and_configuration_are_not_used(shop: Shop) -> None:
    (shop.deep.work / "pip.py").write_text("import pathlib; pathlib.Path(__file__).with_name('RAN').touch()\n")
    (shop.deep.work / "setup.cfg").write_text("[install]\nprefix = /nowhere\n")
    shop.offer(SUN)
    done = shop.deep.environment.run(
        shop.deep.environment.python, "-m", "deep_cli", "plugins", "install", "acme-sun",
        env={**offline(shop.folder), **OFF},
    )  # fmt: skip
    assert "Installed acme-sun" in done.ok().out
    assert not (shop.deep.work / "RAN").exists()


# -- what may be in the way --------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_record_that_cannot_be_written_does_not_undo_an_installation(shop: Shop) -> None:
    shop.record.parent.parent.mkdir(parents=True)
    shop.record.parent.write_text("a file where the folder should be")
    shop.offer(SUN)
    out = shop("install", "acme-sun", env=OFF).ok().out
    assert "Not recorded" in out
    assert shop.statuses == {**OURS, "sun": "active"}
    assert "Still recorded" in shop("uninstall", "sun", "--yes").ok().out
    assert shop.statuses == OURS


@pytest.mark.slow
def test_a_record_that_cannot_be_read_is_reported_and_not_written_over(shop: Shop) -> None:
    shop.record.parent.mkdir(parents=True)
    shop.record.write_text("{")
    shop.offer(SUN)
    assert "installed.json" in shop("install", "acme-sun", env=OFF).ok().out
    assert shop.record.read_text() == "{"


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 2, "installed": []}', '{"schema": 1, "installed": [{}]}'])
def test_no_record_that_cannot_be_read_is_written_over(text: str) -> None:
    path = file()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(Failure, match=r"installed\.json"):
        record([Entry("/env", "acme-sun", "acme-sun", False, "1.0")])
    assert path.read_text() == text


@pytest.mark.exhaustive
def test_a_wrong_configuration_hinders_neither_installing_nor_uninstalling(shop: Shop) -> None:
    shop.deep.config("[plugins]\nrequire = ['sun']\n")
    shop.offer(SUN)
    assert "plugin sun 1.0 (acme-sun) is active" in shop("install", "acme-sun").ok().out
    shop.deep.config("[plugin]\n")
    done = shop("uninstall", "sun", "--yes")
    assert done.ok().out == "Uninstalled acme-sun.\n"


@pytest.mark.slow
def test_a_broken_distribution_among_the_others_hinders_nothing(shop: Shop) -> None:
    site = shop.deep.environment.site
    (site / "gone-1.0.dist-info").mkdir()
    (site / "odd.dist-info").mkdir()
    (site / "odd.dist-info" / "direct_url.json").write_text("[")
    (wheel,) = shop.offer(SUN)
    address = f"{wheel.as_uri()}#sha256={sha256(wheel.read_bytes()).hexdigest()}"
    assert "Installed acme-sun" in shop("install", address, env=OFF).out


@pytest.mark.slow
def test_what_no_installer_can_uninstall_stays_and_can_be_disabled(shop: Shop) -> None:
    shop.offer(SUN)
    shop("install", "acme-sun", env=OFF).ok()
    (shop.deep.environment.site / SUN.dist_info / "RECORD").unlink()
    done = shop("uninstall", "sun", "--yes")
    assert (done.code, "RECORD" in done.err) == (1, True)  # pip's own words, with what to type
    assert "acme-sun was not uninstalled, for the reason above" in done.err
    assert "export DEEP_PLUGINS_DISABLE=acme-sun" in done.err
    assert shop.statuses["sun"] == "active"
