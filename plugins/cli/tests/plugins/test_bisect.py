"""`deep plugins bisect`: the plugin that breaks a command is found, in few runs, which are counted."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from deep_cli.plugins.bisect import requirements, row, search

from deep_core.plugins.status import find_plugins
from tests.drawn import sample
from tests.environments import Distribution, Here, plugin

NAMES = [f"p{number:02}" for number in range(16)]


class Command:
    """A command that some sets of plugins break; its runs are counted."""

    def __init__(self, *breaks: Collection[str], always: bool = False) -> None:
        self.breaks, self.always = [set(group) for group in breaks], always
        self.runs: list[set[str]] = []

    def __call__(self, enabled: Collection[str]) -> bool:
        self.runs.append(set(enabled))
        return not self.always and not any(group <= set(enabled) for group in self.breaks)


# -- the search --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("culprit", NAMES)
def test_one_of_sixteen_is_found_in_five_runs(culprit: str) -> None:
    command = Command({culprit})
    assert search(NAMES, command).culprits == ((culprit,),)
    assert len(command.runs) <= 5


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 15, 17, 30, 31, 100])
def test_any_number_takes_the_logarithm(count: int) -> None:
    names = [f"p{number:03}" for number in range(count)]
    most = math.ceil(math.log2(count + 2))
    for culprit in names:
        command = Command({culprit})
        assert search(names, command).culprits == ((culprit,),)
        assert len(command.runs) <= most


def test_a_command_that_fails_anyway_and_one_that_never_does_are_distinguished_in_five_runs() -> None:
    anyway, never = Command(always=True), Command()
    assert search(NAMES, anyway).outcome == "fails-without"
    assert search(NAMES, never).outcome == "succeeds-with-all"
    assert (set() in anyway.runs, set(NAMES) in never.runs) == (True, True)  # what is said was tried
    assert max(len(anyway.runs), len(never.runs)) <= 5


def test_of_two_that_break_it_only_together_one_is_found_and_thoroughly_both() -> None:
    for first in NAMES:
        for second in NAMES:
            if first < second:
                assert search(NAMES, Command({first, second})).culprits == ((second,),)
                finding = search(NAMES, Command({first, second}), thorough=True)
                assert (finding.culprits, finding.complete) == (((first, second),), True)


def test_of_two_that_break_it_each_by_itself_one_is_found_and_thoroughly_both() -> None:
    for first in NAMES:
        for second in NAMES:
            if first < second:
                assert search(NAMES, Command({first}, {second})).culprits == ((first,),)
                finding = search(NAMES, Command({first}, {second}), thorough=True)
                assert finding.culprits == ((first,), (second,))


def test_thoroughly_three_together_and_one_alone_are_found() -> None:
    finding = search(NAMES, Command({"p01", "p07", "p12"}, {"p09"}), thorough=True)
    assert finding.culprits == (("p09",), ("p01", "p07", "p12"))


def test_a_plugin_is_never_enabled_without_what_it_requires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEP_PLUGINS_ALLOW")
    needs = {"a": "d", "b": "c", "d": "e"}
    Here(tmp_path / "site", monkeypatch).install(
        *(
            plugin(name, requires=("deep-agent-core>=0.1,<1", *([f"acme-{needs[name]}"] if name in needs else [])))
            for name in "abcde"
        )
    )
    found = find_plugins().candidates
    plugins = row(found)
    assert sorted(plugins) == list("abcde")
    assert all(plugins.index(needed) < plugins.index(name) for name, needed in needs.items())
    for culprit in "abcde":
        command = Command({culprit})
        assert search(plugins, command, requirements(found), thorough=True).culprits == ((culprit,),)
        broken = [run for run in command.runs for name, needed in needs.items() if name in run and needed not in run]
        # Only what stands after a culprit that was taken out may lack it: the kernel leaves that out by itself.
        assert all(culprit not in run for run in broken)


# -- at a terminal -----------------------------------------------------------------------------------------------------

SCRIPT = """
import os, sys
with open({log!r}, "a") as log:
    log.write(os.environ["DEEP_PLUGINS_DISABLE"] + "\\n")
off = os.environ["DEEP_PLUGINS_DISABLE"].split(",")
if {bad!r} not in off:
    sys.exit("cannot go on")
"""


@pytest.fixture
def sixteen(make_deep: Any) -> Any:
    """The command `deep` with sixteen plugins besides itself."""
    return make_deep(others=tuple(plugin(name) for name in NAMES))


def script(deep: Any, bad: str) -> list[str]:
    path = deep.work / "script.py"
    path.write_text(SCRIPT.format(log=str(deep.work / "log"), bad=bad), "utf-8")
    return [sys.executable, str(path)]


@pytest.mark.slow
@pytest.mark.parametrize("bad", sample(["p00", "p07", "p15"], "p07"))
def test_a_script_is_bisected_and_each_step_is_reported(sixteen: Any, bad: str) -> None:
    done = sixteen("plugins", "bisect", "--json", "--", *script(sixteen, bad)).ok()
    report = json.loads(done.out)
    assert report["schema"] == 1
    assert (report["outcome"], report["culprits"], report["complete"], report["kept"]) == ("found", [[bad]], False, [])
    lines = (sixteen.work / "log").read_text().splitlines()
    assert len(lines) == len(report["runs"]) <= 5
    for line, run in zip(lines, report["runs"], strict=True):
        assert set(line.split(",")) | set(run["enabled"]) >= set(NAMES)
        assert run["ok"] == (bad not in run["enabled"])
    assert [line.split(":")[0] for line in done.err.splitlines()] == [f"run {n + 1}" for n in range(len(lines))]


@pytest.mark.slow
def test_what_was_disabled_before_stays_so(sixteen: Any) -> None:
    env = {"DEEP_PLUGINS_DISABLE": "p01,acme-p02"}
    report = json.loads(sixteen("plugins", "bisect", "--json", "--", *script(sixteen, "p09"), env=env).ok().out)
    assert report["culprits"] == [["p09"]]
    for line in (sixteen.work / "log").read_text().splitlines():
        assert line.startswith("p01,acme-p02")
    assert not {"p01", "p02"} & {name for run in report["runs"] for name in run["enabled"]}
    said = sixteen("plugins", "bisect", "--", *script(sixteen, "p09"), env=env).ok().out
    assert "Without it: DEEP_PLUGINS_DISABLE=p01,acme-p02,p09 " in said


@pytest.mark.slow
def test_a_command_of_deep_is_bisected_with_the_command_line_kept(make_deep: Any) -> None:
    culprit = "p10"
    broken = plugin(culprit, text="import os; os._exit(9)")
    deep = make_deep(others=(*(plugin(name) for name in NAMES if name != culprit), broken))
    done = deep("plugins", "bisect", "--", "deep", "explain").ok()
    assert done.out.startswith(f"{culprit} breaks it: deep explain\n")
    assert f"DEEP_PLUGINS_DISABLE={culprit} deep explain" in done.out
    assert "exit code 9" in done.err
    assert len(done.err.splitlines()) <= 5
    assert deep("explain", env={"DEEP_PLUGINS_DISABLE": culprit}).code == 0


@pytest.mark.exhaustive
def test_the_plugins_that_a_command_of_deep_is_made_of_are_kept(make_deep: Any) -> None:
    code = "import click\n\n@click.command()\ndef command():\n    raise SystemExit(4)\n"
    files = {**plugin("sun").files, "acme_sun_command.py": code}
    sun = Distribution("acme-sun", {"sun": "acme_sun"}, files, commands={"sunny": "acme_sun_command:command"})
    deep = make_deep("backends", "demo", others=(sun, plugin("moon")))
    for words, kept in ([["sunny"], ["cli", "sun"]], [["run", "x"], ["backends", "cli", "demo"]]):
        done = deep("plugins", "bisect", "--json", "--keep", "acme-moon", "--", "deep", *words)
        report = json.loads(done.out)
        assert report["kept"] == sorted([*kept, "moon", "sessions"])
        assert (done.code, report["outcome"]) == (1, "fails-without")


@pytest.mark.slow
def test_what_the_configuration_requires_is_kept(sixteen: Any) -> None:
    sixteen.config("[plugins]\nrequire = ['acme-p04']\n")
    report = json.loads(sixteen("plugins", "bisect", "--json", "--", *script(sixteen, "p05")).ok().out)
    assert (report["kept"], report["culprits"]) == (["p04"], [["p05"]])


@pytest.mark.slow
def test_both_ways_not_to_find_one_are_said_with_exit_code_1(sixteen: Any) -> None:
    done = sixteen("plugins", "bisect", sys.executable, "-c", "import sys; sys.exit('no disk')")
    assert done.code == 1
    assert "No plugin is the cause" in done.out
    assert "exit code 1: no disk" in done.out
    done = sixteen("plugins", "bisect", sys.executable, "-c", "")
    assert (done.code, "succeeds with all plugins" in done.out) == (1, True)


@pytest.mark.slow
def test_together_and_each_alone_are_said_when_asked_for(sixteen: Any) -> None:
    code = "import os, sys; off = os.environ['DEEP_PLUGINS_DISABLE'].split(','); sys.exit({})"
    together = code.format("not {'p02', 'p11'} & {*off}")
    done = sixteen("plugins", "bisect", "--thorough", sys.executable, "-c", together).ok()
    assert done.out.startswith("p02 with p11 breaks it")
    assert "break it together; without one of them it succeeds" in done.out
    each = code.format("not {'p02', 'p11'} <= {*off}")
    done = sixteen("plugins", "bisect", "--thorough", sys.executable, "-c", each).ok()
    assert "DEEP_PLUGINS_DISABLE=p02,p11" in done.out
    assert "Each of these breaks it" in done.out


def test_a_command_that_hangs_has_failed(make_deep: Any) -> None:
    deep = make_deep(others=(plugin("stuck"),))
    code = "import os, time\nif 'stuck' not in os.environ['DEEP_PLUGINS_DISABLE'].split(','): time.sleep(600)"
    done = deep("plugins", "bisect", "--timeout", "2", sys.executable, "-c", code).ok()
    assert done.out.startswith("stuck breaks it")
    assert "time limit" in done.err


@pytest.mark.slow
def test_no_such_program_or_plugin_is_a_usage_error(sixteen: Any) -> None:
    done = sixteen("plugins", "bisect", "--", "no-such-program-here")
    assert (done.code, "no such program" in done.err) == (2, True)
    done = sixteen("plugins", "bisect", "--keep", "p1", "--", "deep", "explain")
    assert (done.code, "Did you mean" in done.err) == (2, True)
    assert sixteen("plugins", "bisect").code == 2
    garbage = sixteen.work / "garbage"
    garbage.write_text("no program\n")
    garbage.chmod(0o755)
    done = sixteen("plugins", "bisect", "--", garbage)
    assert (done.code, f"{garbage} cannot be started (Exec format error)" in done.err) == (2, True)


@pytest.mark.slow
def test_ctrl_c_ends_the_command_too_and_says_what_is_in_question(sixteen: Any, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # The command says who it is, then waits for an end that does not come by itself.
    code = f"import os, signal; open({str(fifo)!r}, 'w').write(str(os.getpid())); signal.pause()"
    process: subprocess.Popen[str] = sixteen.start("plugins", "bisect", "--", sys.executable, "-c", code)
    pid = int(fifo.read_text())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "interrupted after 0 runs; still suspected: sessions, cli, p00" in err
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
