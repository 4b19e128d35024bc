"""`deep plugins restore`: what was installed comes back after the environment was made anew."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deep_cli.plugins.installing.records import Entry, forget, read, record

from plugins.cli.tests.conftest import offline
from tests.environments import plugin
from tests.local_wheels import write_wheel

SUN, MOON, STAR = plugin("sun"), plugin("moon"), plugin("star")


@pytest.fixture
def run(make_deep: Any, tmp_path: Path) -> Any:
    """`deep plugins …` with a folder of wheels in the place of an index; `run.deep` is the command `deep`."""
    deep, shop = make_deep(), tmp_path / "shop"

    def plugins(*arguments: str, load: bool = False) -> Any:
        # Do not load the installed plugins: these tests are not about that.
        off = {"DEEP_PLUGINS_DISABLE": "moon,star,sun"} if arguments[0] != "list" and not load else {}
        return deep("plugins", *arguments, env={**offline(shop), **off})

    for distribution in (SUN, MOON, STAR):
        write_wheel(distribution, shop)
    plugins.deep, plugins.shop = deep, shop  # type: ignore[attr-defined]
    return plugins


def active(run: Any) -> set[str]:
    return {p["name"] for p in json.loads(run("list", "--json").ok().out)["plugins"]} - {"cli", "sessions"}


@pytest.mark.slow
def test_what_is_gone_comes_back_and_what_is_there_is_left_alone(run: Any) -> None:
    run("install", "acme-sun", "acme-moon").ok()
    run.deep.environment.uninstall(SUN)  # like a new environment: without deep
    assert active(run) == {"moon"}
    out = run("restore", load=True).ok().out
    assert "acme-moon is installed." in out
    assert "Installed acme-sun 1.0" in out
    assert "plugin sun 1.0 (acme-sun) is active: deep_prompt_sections" in out
    assert active(run) == {"moon", "sun"}
    assert run("restore").ok().out == "acme-moon is installed.\nacme-sun is installed.\n"


@pytest.mark.exhaustive
def test_one_that_fails_stops_no_other_and_is_reported(run: Any) -> None:
    run("install", "acme-moon", "acme-star", "acme-sun").ok()
    for distribution in (SUN, MOON, STAR):
        run.deep.environment.uninstall(distribution)
    (run.shop / "acme_star-1.0-py3-none-any.whl").unlink()
    done = run("restore")
    assert done.code == 1
    assert active(run) == {"moon", "sun"}
    (line,) = [line for line in done.out.splitlines() if line.startswith("acme-star: ")]
    assert "was not installed" in line
    # It stays recorded: the next time it may work.
    write_wheel(STAR, run.shop)
    run("restore").ok()
    assert active(run) == {"moon", "star", "sun"}


@pytest.mark.slow
def test_a_path_that_is_gone_is_reported(run: Any) -> None:
    run("install", str(run.shop / "acme_sun-1.0-py3-none-any.whl")).ok()
    run.deep.environment.uninstall(SUN)
    (run.shop / "acme_sun-1.0-py3-none-any.whl").unlink()
    done = run("restore")
    assert done.code == 1
    assert "acme-sun: " in done.out
    assert "no such file or folder" in done.out


@pytest.mark.exhaustive
def test_another_version_than_was_asked_for_is_not_there(run: Any) -> None:
    run("install", "acme-sun<2").ok()
    run.deep.environment.uninstall(SUN)
    run.deep.environment.install(plugin("sun", version="2.0"))
    assert "Installed acme-sun 1.0" in run("restore").ok().out


@pytest.mark.exhaustive
def test_the_record_of_another_environment_is_restored_when_named(run: Any, tmp_path: Path) -> None:
    run("install", "acme-sun").ok()
    run.deep.environment.uninstall(SUN)
    file = run.deep.environment.home / ".local" / "share" / "deep" / "installed.json"
    old = str(tmp_path / "old environment")
    data = json.loads(file.read_text())
    data["installed"][0]["environment"] = old
    file.write_text(json.dumps(data))
    done = run("restore")
    assert done.code == 1
    assert f"deep plugins restore --from {old}" in done.err.replace("'", "")
    run("restore", "--from", old).ok()
    assert active(run) == {"sun"}
    here = str((run.deep.environment.root / "env").resolve())
    assert [entry["environment"] for entry in json.loads(file.read_text())["installed"]] == [old, here]


def test_nothing_recorded_is_reported(run: Any) -> None:
    done = run("restore")
    assert (done.code, done.out) == (1, "")
    assert "installed.json records nothing for " in done.err


@pytest.mark.exhaustive
def test_what_was_uninstalled_by_other_means_is_forgotten_when_uninstalled_here(run: Any) -> None:
    run("install", "acme-sun").ok()
    run.deep.environment.uninstall(SUN)
    assert "its record is removed" in run("uninstall", "acme-sun", "--yes").ok().out
    assert run("restore").code == 1


def test_what_installations_write_down_at_one_moment_is_all_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # Linux
    monkeypatch.setenv("HOME", str(tmp_path))  # macOS
    names = [f"acme-{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: record([Entry("env", name, name, False, "1")]), names))
        assert sorted(entry.name for entry in read()) == sorted(names)
        assert all(pool.map(lambda name: forget("env", name), names[1:]))
    assert [entry.name for entry in read()] == names[:1]
