"""`deep doctor`: finds what is wrong, names it, and survives it."""

from __future__ import annotations

import json
from typing import Any

import pytest

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


def test_all_is_well_with_a_model_and_its_key(deep: Any) -> None:
    code, found = checks(deep, env={"DEEP_MODEL": "openai-chat:x", "OPENAI_API_KEY": "k"})
    assert code == 0, found
    assert {"python", "deep-core", "pydantic-ai-slim", "config", "ripgrep", "agent", "backend", "model"} < set(found)
    assert found["plugin:filesystem"]["plugin"] == "filesystem"
    assert str(deep.work) in found["backend"]["message"]


def test_a_missing_model_or_key_is_told_with_what_to_set(deep: Any) -> None:
    code, found = checks(deep)
    assert (code, found["model"]["ok"]) == (1, False)
    assert "DEEP_MODEL" in found["model"]["fix"]
    code, found = checks(deep, env={"DEEP_MODEL": "openai-chat:x", "GROQ_API_KEY": "g"})
    assert code == 1
    assert found["model"]["fix"] == "export OPENAI_API_KEY=…"
    assert "keys are set for: GROQ_API_KEY" in found["model"]["message"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os._exit(0)", "ends the process (exit code 0) while it is imported"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "is killed by SIGKILL while it is imported"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("1 / 0", "ZeroDivisionError"),
        (HOOK.replace("return [", "import os; os._exit(7); return ["), "exit code 7) while an agent is assembled"),
        (HOOK.replace('"A word."', "3 / 0"), "ZeroDivisionError"),
        (HOOK.replace("deep_prompt_sections", "deep_promt_sections"), "Did you mean 'deep_prompt_sections'?"),
        ("import os\nif os.fork(): os._exit(0)\n" + HOOK, "ends the process (exit code 0) while it is imported"),
        ("import os\nos.fork()\n" + HOOK, "forks the process while it is loaded"),
        (
            "import atexit, os\natexit.register(os._exit, 5)\n" + HOOK,
            "ends the process (exit code 5) after all was done",
        ),
    ],
)
def test_a_plugin_that_breaks_is_named_and_the_others_are_looked_at(make_deep: Any, code: str, said: str) -> None:
    deep = make_deep(others=(acme("bad", code), acme("good", HOOK)))
    exit_code, found = checks(deep)
    assert exit_code == 1
    assert found["plugin:bad"]["ok"] is False
    assert said in found["plugin:bad"]["message"]
    assert "plugins.disable = ['bad']" in found["plugin:bad"]["fix"]
    assert found["plugin:good"]["ok"] is True


def test_a_plugin_that_hangs_is_stopped_with_all_it_started(make_deep: Any) -> None:
    code = "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
    deep = make_deep(others=(acme("stuck", code + "time.sleep(300)"),))
    exit_code, found = checks(deep, "--timeout", "5")
    assert exit_code == 1
    assert "hangs (stopped after 5 s) while it is imported" in found["plugin:stuck"]["message"]


def test_a_plugin_that_keeps_the_process_from_ending_is_told(make_deep: Any) -> None:
    code = "import threading\nthreading.Thread(target=threading.Event().wait).start()\n"
    _, found = checks(make_deep(others=(acme("stays", code + HOOK),)), "--timeout", "10")
    assert "hangs (stopped after 10 s) after all was done" in found["plugin:stays"]["message"]


def test_a_plugin_that_floods_both_streams_is_no_trouble(make_deep: Any) -> None:
    code = "import os\nfor _ in range(3000):\n    os.write(1, b'x' * 9999)\n    os.write(2, b'y' * 9999)\n"
    _, found = checks(make_deep(others=(acme("loud", code + HOOK),)))
    assert found["plugin:loud"]["ok"] is True


GARBAGE = {
    "no METADATA": ("METADATA", None),
    "METADATA not UTF-8": ("METADATA", b"\xff\xfe\x00"),
    "METADATA empty": ("METADATA", b""),
    "entry points garbage": ("entry_points.txt", b"[deep]\nnot an entry point\n"),
    "entry points not UTF-8": ("entry_points.txt", b"[deep]\n\xff\xfe = x\n"),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_a_broken_dist_info_is_named_and_what_mends_it_does(make_deep: Any, tmp_path: Any, what: str) -> None:
    bad, good = acme("bad", HOOK), acme("good", HOOK.replace('"word"', '"good"'))
    deep = make_deep(others=(bad, good))
    file, content = GARBAGE[what]
    broken = deep.environment.site / bad.dist_info / file
    broken.unlink() if content is None else broken.write_bytes(content)
    code, found = checks(deep)
    assert code == 1
    check = found["plugin:acme_bad"]
    assert (check["ok"], "its metadata cannot be read" in check["message"]) == (False, True)
    assert found["plugin:good"]["ok"] is True
    assert found["agent"]["ok"] is True

    write_wheel(bad, tmp_path / "shop")
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "shop"), "PIP_CONFIG_FILE": "/dev/null"}
    deep.environment.run("/bin/sh", "-c", check["fix"], env=offline).ok()
    _, found = checks(deep)
    assert found["plugin:bad"]["ok"] is True


def test_entry_points_of_anything_that_do_not_parse_are_named(make_deep: Any) -> None:
    deep = make_deep(others=(acme("good", HOOK),))
    folder = deep.environment.site / "some_thing-2.0.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text("[console_scripts]\nnot an entry point\n")
    code, found = checks(deep)
    assert code == 1
    check = found["distribution:some-thing"]
    assert str(folder) in check["message"]
    assert check["fix"].startswith(f"rm -r {folder} && ")
    assert found["plugin:good"]["ok"] is True


def test_without_a_folder_for_temporary_files_the_rest_is_looked_at(make_deep: Any) -> None:
    deep = make_deep(others=(acme("good", HOOK),))
    code = "import tempfile; tempfile._candidate_tempdir_list = lambda: []\n"
    (deep.environment.site / "zz_no_tmp.pth").write_text(code)
    exit_code, found = checks(deep)
    assert (exit_code, found["folder:temporary"]["ok"]) == (1, False)
    assert "TMPDIR" in found["folder:temporary"]["fix"]
    assert "could not be probed" in found["plugin:good"]["message"]


def test_a_plugin_that_takes_two_seconds_to_import_is_told_with_how_to_find_out_why(make_deep: Any) -> None:
    deep = make_deep(others=(acme("slow", "import time; time.sleep(2)\n" + HOOK),))
    exit_code, found = checks(deep)
    assert exit_code == 1
    assert "to import" in found["plugin:slow"]["message"]
    assert "-X importtime -c 'import acme_slow'" in found["plugin:slow"]["fix"]


def test_doctor_itself_imports_no_plugin(make_deep: Any, tmp_path: Any) -> None:
    mark = tmp_path / "mark"
    code = f"import sys\nwith open({str(mark)!r}, 'a') as f: f.write(' '.join(sys.orig_argv) + '\\n')\n"
    checks(make_deep(others=(acme("good", code + HOOK),)))
    lines = [line for line in mark.read_text().splitlines() if line]
    assert lines
    assert all("deep_cli.probe" in line for line in lines)


def test_a_plugin_is_probed_with_what_it_requires(make_deep: Any) -> None:
    needy = acme("needy", HOOK.replace('"word"', '"needy"'), requires=("deep-core>=0.1,<1", "acme-good"))
    old = acme("old", HOOK, requires=("deep-core<0.1",))
    orphan = acme("orphan", HOOK, requires=("deep-absent",))
    deep = make_deep(others=(needy, acme("good", HOOK), old, orphan))
    _, found = checks(deep)
    assert found["plugin:needy"]["ok"] is True
    assert "incompatible" in found["plugin:old"]["message"]
    # deep plugins install leaves deep-core alone, so this one is for pip.
    assert found["plugin:old"]["fix"].startswith(f"{deep.environment.python} -m pip install 'deep-core<0.1'")
    assert "needs-plugin" in found["plugin:orphan"]["message"]
    assert found["plugin:orphan"]["fix"] == "deep plugins install deep-absent"
    assert (found["plugin:old"]["ok"], found["plugin:orphan"]["ok"]) == (False, False)


def test_an_optional_dependency_that_is_missing_is_told_with_what_brings_it(make_deep: Any) -> None:
    code = 'from deep_core import MissingExtra\nraise MissingExtra("acme-maps[pdf]")'
    _, found = checks(make_deep(others=(acme("maps", code),)))
    assert "needs-extra" in found["plugin:maps"]["message"]
    assert "maps[pdf]" in found["plugin:maps"]["fix"]
    assert found["plugin:maps"]["fix"].startswith("deep plugins install ")


def test_what_somebody_disabled_is_no_failure(make_deep: Any) -> None:
    _, found = checks(make_deep(others=(acme("bad", "1 / 0"),)), env={"DEEP_PLUGINS_DISABLE": "bad"})
    assert found["plugin:bad"]["ok"] is True
    assert "disabled" in found["plugin:bad"]["message"]


def test_rules_of_the_agent_about_other_plugins_tools_fail_no_single_plugin(deep: Any) -> None:
    deep.config("[agent]\ninterrupt_on = { ls = true }\ntool_filter = 'plugin:filesystem'\n")
    _, found = checks(deep)
    assert all(check["ok"] for name, check in found.items() if name.startswith("plugin:"))
    assert found["agent"]["ok"] is True
    deep.config("[agent]\ninterrupt_on = { sl = true }\n")
    _, found = checks(deep)
    assert found["agent"]["ok"] is False
    assert "there is no tool 'sl'" in found["agent"]["message"]


def test_two_plugins_that_clash_are_found_together(make_deep: Any) -> None:
    deep = make_deep(others=(acme("one", HOOK), acme("two", HOOK)))
    _, found = checks(deep)
    assert (found["plugin:one"]["ok"], found["plugin:two"]["ok"], found["agent"]["ok"]) == (True, True, False)
    assert "acme-one" in found["agent"]["message"]
    assert "acme-two" in found["agent"]["message"]


def test_a_wrong_configuration_is_a_failed_check_not_the_end(deep: Any) -> None:
    deep.config("[agent]\nmodle = 1\n")
    code, found = checks(deep)
    assert code == 1
    assert "agent.modle" in found["config"]["message"]
    assert "python" in found


def test_a_projects_untrusted_file_is_told_with_what_is_ignored(deep: Any) -> None:
    (deep.work / "deep.toml").write_text('[agent]\nmodel = "openai:x"\n')
    _, found = checks(deep)
    trust = found["config:trust"]
    assert "agent.model" in trust["message"]
    assert f"deep config trust {deep.work / 'deep.toml'}" in trust["fix"]


def test_a_backend_that_nobody_provides_is_told(make_deep: Any) -> None:
    _, found = checks(make_deep())
    assert found["backend"]["ok"] is False
    assert "deep plugins install deep-backends" in found["backend"]["fix"]


def test_for_people_each_check_is_a_line_and_its_mending_the_next(make_deep: Any) -> None:
    done = make_deep(others=(acme("bad", "1 / 0"),))("doctor")
    assert done.code == 1
    lines = done.out.splitlines()
    bad = next(number for number, line in enumerate(lines) if "acme-bad" in line)
    assert lines[bad].startswith("FAIL")
    assert lines[bad + 1].lstrip().startswith("->")
    assert lines[-1].endswith("checks failed.")
