"""A hook's `if`, beside what a real shell runs: a guard that it narrows sees every command that it is about."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest
from deep_folders.matching import may_be
from hypothesis import given, settings
from hypothesis import strategies as st

SPELLED = st.sampled_from(
    [
        "git push", "git  push", "git\tpush", "g'i't push", "'git' push", 'git "push"', "git pu''sh", "g\\it push",
        "{git,push}", "git push origin 'a b'", "$(echo git) push", "`echo git` push", "gi${X}t push", "PLACE/git push",
        "PLACE/gi? push", "PLACE/g[i]t push", "git pu$'sh'", "git \\\n push",
    ]
)  # fmt: skip
BEFORE = st.sampled_from(
    [
        "", "A=1 ", "A=1 B='x y' ", "env ", "env A=1 ", "command ", "exec ", "eval ", "nice -n 1 ", "nohup ",
        "time -p ", "! ", "builtin eval ", "timeout 9 ", "setsid -w ", "xargs -n 1 < /dev/null ", "coproc ",
    ]
)  # fmt: skip
AROUND = st.sampled_from(
    [
        "{}", "ls; {}", "ls && {}", "false || {}", "ls | {}", "ls\n{}", "if true; then {}; fi",
        "for x in 1; do {}; done",
        "({})", "{{ {}; }}", "f() {{ {}; }}; f", "bash -c \"{}\"", "echo push | xargs git", "echo git push | sh",
        "cat <<< x; {}", "ls & {}", "find . -maxdepth 0 -exec git push {{}} +", "trap \"{}\" EXIT",
        "case x in x) {};; esac",
        "while {}; do break; done", "function g {{ {}; }}; g", "echo 'a; b'; {}", "git log; {}", "echo {} # {}",
    ]
)  # fmt: skip


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bool]:
    """Run a command in bash; return whether it has called `git push`."""
    place = tmp_path_factory.mktemp("shell")
    git, called = place / "bin" / "git", place / "called"
    git.parent.mkdir()
    git.write_text(f'#!/bin/sh\n[ "$1" = push ] && echo yes >> {called}\n')
    git.chmod(0o755)

    def run(command: str) -> bool:
        called.unlink(missing_ok=True)
        environ = {"PATH": f"{git.parent}:{os.defpath}", "HOME": str(place)}
        subprocess.run(["bash", "-c", command], cwd=place, env=environ, capture_output=True, check=False, timeout=60)
        return called.exists()

    run.__dict__["bin"] = str(git.parent)
    return run


@settings(deadline=None)
@given(SPELLED, BEFORE, AROUND)
def test_a_command_that_a_shell_runs_is_seen(
    shell: Callable[[str], bool], spelled: str, before: str, around: str
) -> None:
    command = around.format(*[before + spelled] * around.count("{}")).replace("PLACE", shell.__dict__["bin"])
    if shell(command):
        assert may_be("Bash(git push *)", "Bash", {"command": command})


@pytest.mark.parametrize(
    "command",
    [
        "git pull", "git log if git push", "git add -A && git commit -m 'a b' | tail", "echo 'git push'", "ls *.py",
        "find . -name push", "time git log", "if true; then git log; fi", "[ -f x ] && git log", "bash run.sh git",
        "curl -d '{\"a\": 1}' x", "", " ; ",
    ],
)  # fmt: skip
def test_another_command_is_left_alone(command: str) -> None:
    assert not may_be("Bash(git push *)", "Bash", {"command": command})


@pytest.mark.parametrize(
    ("only", "command"),
    [
        ('Bash(git commit -m "wip*)', "git commit -m 'wip 2'"),
        ("Bash(npm test && npm *)", "npm test && npm publish"),
        ("Bash(git  push *)", "git push"),
        ("Bash", "ls"),
        ("Bash(*)", ""),
    ],
)
def test_a_pattern_may_have_quotes_and_several_commands(only: str, command: str) -> None:
    assert may_be(only, "Bash", {"command": command})
