"""`deep doctor`: finds what is wrong, names it, and survives it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from plugins.cli.tests.conftest import made, started
from tests.drawn import sample
from tests.environments import Distribution
from tests.local_wheels import write_wheel

HOOK = """
from deep_core import PromptSection, hookimpl

@hookimpl
def deep_prompt_sections(context):
    return [PromptSection.static("word", "A word.")]
"""


def acme(name: str, code: str, **more: Any) -> Distribution:
    return Distribution(f"acme-{name}", {name: f"acme_{name}"}, {f"acme_{name}.py": code}, **more)


def checks(deep: Any, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    done = deep("doctor", "--json", *arguments, env=env)
    found = json.loads(done.out)
    assert set(found) == {"schema", "checks"}
    assert found["schema"] == 1
    assert all(set(check) == {"name", "ok", "message", "fix", "plugin"} for check in found["checks"])
    return done.code, {check["name"]: check for check in found["checks"]}


@pytest.mark.slow
def test_all_is_well_with_a_model_and_its_key(deep: Any) -> None:
    code, found = checks(deep, env={"DEEP_MODEL": "openai-chat:x", "OPENAI_API_KEY": "k"})
    assert code == 0, found
    assert {
        "python",
        "deep-agent-core",
        "entry-point-index",
        "tool-expressions",
        "pydantic-ai-slim",
        "config",
        "ripgrep",
        "bubblewrap",
        "agent",
        "backend",
        "model",
    } < set(found)
    assert found["plugin:filesystem"]["plugin"] == "filesystem"
    assert str(deep.work) in found["backend"]["message"]


FAILING = "#!/bin/sh\necho no namespaces >&2\nexit 1\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "options", "bwrap", "ok"),
    [
        ("local", "", None, True),
        ("sandbox", "", None, False),
        ("composite", 'routes = { "notes/" = "sandbox" }', FAILING, False),
    ],
)
def test_a_sandbox_that_cannot_be_made_is_a_problem_where_it_is_configured(
    deep: Any, tmp_path: Path, profile: str, options: str, bwrap: str | None, ok: bool
) -> None:
    programs, config = tmp_path / "programs", tmp_path / "chosen.toml"
    programs.mkdir()
    if bwrap is not None:
        (programs / "bwrap").write_text(bwrap)
        (programs / "bwrap").chmod(0o755)
    config.write_text(f'[agent.runtime_policy]\nprofile = "{profile}"\n[plugins.backends.options]\n{options}\n')
    env = {"PATH": str(programs), "DEEP_MODEL": "openai-chat:x", "OPENAI_API_KEY": "k"}
    code, found = checks(deep, "--config", str(config), env=env)
    assert found["bubblewrap"]["ok"] is ok
    assert found["bubblewrap"]["fix"]
    assert (code == 0) is ok


def section(name: str, value: str = '"A word."') -> str:
    """The code of a plugin with a section named after it."""
    return HOOK.replace('"word"', repr(name)).replace('"A word."', value)


OWNED = """
from deep_core import hookimpl

@hookimpl(of="OWNER")
def deep_cities(context):
    return ["Oslo"]
"""
ENDS = {
    "leaves": ("import os; os._exit(0)", "ends the process (exit code 0) while it is imported"),
    "dies": (
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "is killed by SIGKILL while it is imported"
    ),
    "late": (
        HOOK.replace("return [", "import os; os._exit(7); return ["),
        "ends the process (exit code 7) while an agent is assembled",
    ),
    "moves": (
        "import os\nif os.fork(): os._exit(0)\n" + section("moves"),
        "ends the process (exit code 0) while it is imported",
    ),
}  # fmt: skip
BREAKS = {
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "raises": ("1 / 0", "ZeroDivisionError"),
    "hooked": (section("hooked", "3 / 0"), "ZeroDivisionError"),
    "misspelt": (HOOK.replace("deep_prompt_sections", "deep_promt_sections"), "Did you mean 'deep_prompt_sections'?"),
    "forks": ("import os\nos.fork()\n" + section("forks"), "forks the process while it loads"),
}
LOUD = "import os\nfor _ in range(3000):\n    os.write(1, b'x' * 9999)\n    os.write(2, b'y' * 9999)\n"
SPOILS = "import sys\nsys.modules['wave'] = None\n"
CROWD = (
    *(acme(name, code) for name, (code, _) in BREAKS.items()),
    acme("alone", OWNED.replace("OWNER", "calendar")),
    acme("owned", OWNED.replace("OWNER", "goood")),
    acme("good", section("good")),
    acme("loud", LOUD + section("loud")),
    acme("maps", 'from deep_core import MissingExtra\nraise MissingExtra("acme-maps[pdf]")'),
    acme("needy", section("needy"), requires=("deep-agent-core>=0.1,<1", "acme-good")),
    acme("off", "1 / 0"),
    acme("old", HOOK, requires=("deep-agent-core<0.1",)),
    acme("one", section("twin")),
    acme("orphan", HOOK, requires=("deep-absent",)),
    acme("spoils", SPOILS + section("spoils")),
    acme("spoilt", "import wave\n" + section("spoilt")),
    acme("two", section("twin")),
)
"""Broken plugins that do not end the process."""


def assert_named(found: dict[str, Any], broken: dict[str, tuple[str, str]]) -> None:
    for name, (_, said) in broken.items():
        check = found[f"plugin:{name}"]
        assert (check["ok"], said in check["message"]) == (False, True), check
        assert f"plugins.disable = ['{name}']" in check["fix"]


@pytest.mark.exhaustive
def test_every_plugin_that_ends_the_process_is_named_and_the_others_are_looked_at(make_deep: Any) -> None:
    bad = [acme(name, code) for name, (code, _) in ENDS.items()]
    code, found = checks(make_deep(others=(*bad, acme("good", section("good")), acme("zeal", section("zeal")))))
    assert code == 1
    assert_named(found, ENDS)
    assert [found[f"plugin:{name}"]["ok"] for name in ("cli", "good", "zeal")] == [True, True, True]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, int, dict[str, Any]]:
    """The command with all of these plugins, and doctor's report of one run, for the tests below."""
    deep = made(tmp_path_factory.mktemp("crowd"), others=CROWD)
    return deep, *checks(deep, env={"DEEP_PLUGINS_DISABLE": "off"})


@pytest.mark.slow
def test_every_plugin_that_breaks_is_named_and_the_others_are_looked_at(crowd: Any) -> None:
    _, code, found = crowd
    assert code == 1
    assert_named(found, BREAKS)
    assert [found[f"plugin:{name}"]["ok"] for name in ("cli", "good")] == [True, True]


@pytest.mark.slow
def test_a_misspelt_owner_of_a_hook_is_reported_with_what_to_correct(crowd: Any) -> None:
    check = crowd[2]["plugin:owned"]
    assert check["ok"] is False
    assert "acme-owned) implements deep_cities of='goood', but no plugin is called 'goood'." in check["message"]
    assert "Did you mean 'good'?" in check["message"]
    assert check["fix"] == "correct of='goood' in acme_owned"


@pytest.mark.slow
def test_a_hook_of_a_plugin_that_is_not_installed_is_no_failure(crowd: Any) -> None:
    check = crowd[2]["plugin:alone"]
    assert check["ok"] is True
    assert "deep_cities has no effect without plugin calendar" in check["message"]


@pytest.mark.slow
def test_a_missing_model_or_key_is_reported_with_what_to_set(crowd: Any) -> None:
    deep, code, found = crowd
    assert (code, found["model"]["ok"]) == (1, False)
    assert "DEEP_MODEL" in found["model"]["fix"]
    # The allow list leaves the plugins out, so this is of the model alone.
    env = {"DEEP_MODEL": "openai-chat:x", "GROQ_API_KEY": "g", "DEEP_PLUGINS_ALLOW": "cli"}
    code, found = checks(deep, env=env)
    assert code == 1
    assert found["model"]["fix"] == "deep keys set OPENAI_API_KEY"
    assert "keys set for: GROQ_API_KEY" in found["model"]["message"]


@pytest.mark.slow
def test_a_plugin_that_floods_both_streams_is_no_trouble(crowd: Any) -> None:
    assert crowd[2]["plugin:loud"]["ok"] is True


@pytest.mark.slow
def test_a_plugin_is_not_blamed_for_what_another_left_behind(crowd: Any) -> None:
    assert crowd[2]["plugin:spoils"]["ok"] is True
    assert crowd[2]["plugin:spoilt"]["ok"] is True


@pytest.mark.slow
def test_a_plugin_is_probed_with_what_it_requires(crowd: Any) -> None:
    deep, _, found = crowd
    assert found["plugin:needy"]["ok"] is True
    assert "incompatible" in found["plugin:old"]["message"]
    # deep plugins install leaves deep-agent-core alone, so this one is for pip.
    assert found["plugin:old"]["fix"].startswith(f"{deep.environment.python} -m pip install 'deep-agent-core<0.1'")
    assert "needs-plugin" in found["plugin:orphan"]["message"]
    assert found["plugin:orphan"]["fix"] == "deep plugins install deep-absent"
    assert (found["plugin:old"]["ok"], found["plugin:orphan"]["ok"]) == (False, False)


@pytest.mark.slow
def test_an_optional_dependency_that_is_missing_is_reported_with_what_brings_it(crowd: Any) -> None:
    check = crowd[2]["plugin:maps"]
    assert "needs-extra" in check["message"]
    assert "maps[pdf]" in check["fix"]
    assert check["fix"].startswith("deep plugins install ")


@pytest.mark.slow
def test_a_disabled_plugin_is_no_failure(crowd: Any) -> None:
    check = crowd[2]["plugin:off"]
    assert check["ok"] is True
    assert "disabled" in check["message"]


@pytest.mark.slow
def test_two_plugins_that_clash_are_found_together(crowd: Any) -> None:
    found = crowd[2]
    assert (found["plugin:one"]["ok"], found["plugin:two"]["ok"], found["agent"]["ok"]) == (True, True, False)
    assert "acme-one" in found["agent"]["message"]
    assert "acme-two" in found["agent"]["message"]


def stuck(started: Path) -> Distribution:
    """A plugin whose import starts a process, notes it, and never ends."""
    return acme(
        "stuck",
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        f"with open({str(started)!r}, 'a') as f: f.write(f'{{child.pid}}\\n')\n"
        "time.sleep(300)\n",
    )


def assert_stopped(found: dict[str, Any], started: Path) -> None:
    assert "hangs (stopped after 4 s) while it is imported" in found["plugin:stuck"]["message"]
    assert started.read_text().split()
    for pid in started.read_text().split():
        assert not running(int(pid))


@pytest.mark.slow
def test_a_plugin_that_hangs_is_reported_and_stopped_with_all_it_started(make_deep: Any, tmp_path: Path) -> None:
    exit_code, found = checks(make_deep(others=(stuck(tmp_path / "started"),)), "--timeout", "4")
    assert exit_code == 1
    assert_stopped(found, tmp_path / "started")


@pytest.mark.exhaustive
def test_what_does_not_let_the_process_end_is_reported_beside_what_hangs(make_deep: Any, tmp_path: Path) -> None:
    stays = "import threading\nthreading.Thread(target=threading.Event().wait).start()\n"
    ends = "import atexit, os\natexit.register(os._exit, 5)\n"
    others = (acme("ends", ends + section("ends")), acme("stays", stays + section("stays")))
    exit_code, found = checks(make_deep(others=(*others, stuck(tmp_path / "started"))), "--timeout", "4")
    assert exit_code == 1
    assert_stopped(found, tmp_path / "started")
    assert "hangs (stopped after 4 s) after all was done" in found["plugin:stays"]["message"]
    assert "ends the process (exit code 5) after all was done" in found["plugin:ends"]["message"]


def running(pid: int) -> bool:
    """Whether the process is still running; a zombie has ended."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state) and not state.startswith("Z")


GARBAGE: dict[str, tuple[bytes | None, ...]] = {
    "METADATA": (None, b""),
    "METADATA, not UTF-8": (b"\xff\xfe\x00",),
    "entry_points.txt": (b"[deep]\nnot an entry point\n",),
    "entry_points.txt, not UTF-8": (b"[deep]\n\xff\xfe = x\n",),
}
"""File -> its content in distributions that pip can fix one after the other. With two of the others it stops."""


def named(distribution: Distribution, what: str) -> str:
    """The check of its plugin: the name is in entry_points.txt, or guessed if that file is not readable."""
    (plugin,) = distribution.plugins
    return f"plugin:{plugin if what.startswith('METADATA') else distribution.name.replace('-', '_')}"


@pytest.mark.slow
@pytest.mark.parametrize("what", sample(GARBAGE, "entry_points.txt"))
def test_a_broken_dist_info_is_named_and_the_fix_that_is_named_works(make_deep: Any, tmp_path: Any, what: str) -> None:
    bad = [acme(f"bad{number}", section(f"bad{number}")) for number in range(len(GARBAGE[what]))]
    deep = started(make_deep(others=(*bad, acme("good", section("good")))))
    for distribution, content in zip(bad, GARBAGE[what], strict=True):
        broken = deep.environment.site / distribution.dist_info / what.partition(",")[0]
        broken.unlink() if content is None else broken.write_bytes(content)
    code, found = checks(deep)
    assert code == 1
    for distribution in bad:
        check = found[named(distribution, what)]
        assert (check["ok"], "its metadata cannot be read" in check["message"]) == (False, True)
    assert found["plugin:good"]["ok"] is True
    assert found["agent"]["ok"] is True

    for distribution in bad:
        write_wheel(distribution, tmp_path / "shop")
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "shop"), "PIP_CONFIG_FILE": "/dev/null"}
        fix = found[named(distribution, what)]["fix"]
        deep.environment.run("/bin/sh", "-c", fix, env=offline).ok()
    sections = json.loads(deep("explain", "--json").ok().out)["sections"]
    assert {part["plugin"] for part in sections} == {"good", *(f"bad{number}" for number in range(len(bad)))}


@pytest.mark.slow
def test_entry_points_of_anything_that_do_not_parse_are_named(make_deep: Any) -> None:
    deep = started(make_deep(others=(acme("good", HOOK),)))
    folder = deep.environment.site / "some_thing-2.0.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text("[console_scripts]\nnot an entry point\n")
    code, found = checks(deep)
    assert code == 1
    check = found["distribution:some-thing"]
    assert str(folder) in check["message"]
    assert check["fix"].startswith(f"rm -r {folder} && ")
    assert found["plugin:good"]["ok"] is True


@pytest.mark.slow
def test_without_a_folder_for_temporary_files_the_rest_is_looked_at(make_deep: Any) -> None:
    deep = started(make_deep(others=(acme("good", HOOK),)))
    code = "import tempfile; tempfile._candidate_tempdir_list = lambda: []\n"
    (deep.environment.site / "zz_no_tmp.pth").write_text(code)
    exit_code, found = checks(deep)
    assert (exit_code, found["folder:temporary"]["ok"]) == (1, False)
    assert "TMPDIR" in found["folder:temporary"]["fix"]
    assert "could not be checked" in found["plugin:good"]["message"]


@pytest.mark.exhaustive
def test_plugins_that_take_two_seconds_to_import_are_reported_with_how_to_find_out_why(make_deep: Any) -> None:
    # The clock goes on by two seconds, for the first that imports the library they share.
    library = "import time\nclock = time.perf_counter\ntime.perf_counter = lambda: clock() + 2\n"
    slow = [acme(name, "import acme_library\n" + section(name)) for name in ("slow", "slow2")]
    deep = make_deep(others=(*slow, Distribution("acme-library", files={"acme_library.py": library})))
    exit_code, found = checks(deep)
    assert exit_code == 1
    for name in ("slow", "slow2"):
        assert "takes 2.0 s to import" in found[f"plugin:{name}"]["message"]
        assert f"-X importtime -c 'import acme_{name}'" in found[f"plugin:{name}"]["fix"]


@pytest.mark.exhaustive
def test_rules_of_the_agent_about_other_plugins_tools_fail_no_single_plugin(deep: Any) -> None:
    deep.config("[agent]\ninterrupt_on = { ls = true }\ntool_filter = 'plugin:filesystem'\n")
    _, found = checks(deep)
    assert all(check["ok"] for name, check in found.items() if name.startswith("plugin:"))
    assert found["agent"]["ok"] is True
    deep.config("[agent]\ninterrupt_on = { sl = true }\n")
    _, found = checks(deep)
    assert found["agent"]["ok"] is False
    assert "there is no tool 'sl'" in found["agent"]["message"]


def test_a_wrong_configuration_is_a_failed_check_not_the_end(deep: Any) -> None:
    deep.config("[agent]\nmodle = 1\n")
    code, found = checks(deep)
    assert code == 1
    assert "agent.modle" in found["config"]["message"]
    assert "python" in found


@pytest.mark.slow
def test_a_projects_untrusted_file_is_reported_with_what_is_ignored(deep: Any) -> None:
    text = '[agent]\nmodel = "openai:x"\n[plugins.filesystem.options]\nread_lines = 7\n'
    (deep.work / "deep.toml").write_text(text)
    _, found = checks(deep)
    trust = found["config:trust"]
    assert "these are ignored: agent.model; these may at most narrow: plugins.filesystem.opt" in trust["message"]
    assert f"deep config trust {deep.work / 'deep.toml'}" in trust["fix"]


def test_for_people_each_check_is_a_line_and_its_fix_the_next(make_deep: Any) -> None:
    done = make_deep(others=(acme("bad", "1 / 0"),))("doctor")
    assert done.code == 1
    lines = done.out.splitlines()
    bad = next(number for number, line in enumerate(lines) if "acme-bad" in line)
    assert lines[bad].startswith("FAIL")
    assert lines[bad + 1].lstrip().startswith("->")
    assert lines[-1].endswith("checks failed.")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """Doctor's report with a plugin and without a backend, and the processes that imported the plugin."""
    root = tmp_path_factory.mktemp("alone")
    mark = root / "mark"
    code = f"import sys\nwith open({str(mark)!r}, 'a') as f: f.write(' '.join(sys.orig_argv) + '\\n')\n"
    _, found = checks(made(root, others=(acme("good", code + HOOK),)))
    return found, mark.read_text()


def test_doctor_itself_imports_no_plugin(alone: tuple[dict[str, Any], str]) -> None:
    lines = [line for line in alone[1].splitlines() if line]
    assert lines
    assert all("deep_cli.plugins.probe" in line for line in lines)


def test_a_sound_plugin_costs_no_process_of_its_own(alone: tuple[dict[str, Any], str]) -> None:
    assert len(set(alone[1].splitlines())) == 1


def test_a_backend_that_no_plugin_provides_is_reported(alone: tuple[dict[str, Any], str]) -> None:
    found, _ = alone
    assert found["backend"]["ok"] is False
    assert "deep plugins install deep-backends" in found["backend"]["fix"]
