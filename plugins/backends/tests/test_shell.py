"""The shell of commands: bash where it is installed, since models write bash; another one is named."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deep_backends import LocalBackend, local_backend, sandbox_backend
from deep_backends.describe import describe
from deep_backends.docker import IN_SHELL

if TYPE_CHECKING:
    from conftest import World

BASH = shutil.which("bash") or ""

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not BASH, reason="bash is not installed")]

# What dash refuses, or reads as something else without an error.
IDIOMS = [
    "(echo out; echo err >&2; exit 3) &> both.txt; echo $?; cat both.txt",
    "false &>> log.txt || echo failed",
    "ls missing |& grep -c missing",
    "[[ abc == a* ]] && echo match",
    "[[ file-12 =~ -([0-9]+)$ ]] && echo ${BASH_REMATCH[1]}",
    "names=(one two 'th ree'); echo ${#names[@]} ${names[2]}",
    "declare -A ages=([ann]=3); echo ${ages[ann]}",
    "echo {1..5} {a,b}.txt",
    "diff <(printf '1\\n2\\n') <(printf '1\\n3\\n')",
    "while read -r line; do echo \"<$line>\"; done < <(printf 'x\\ny\\n')",
    "cat <<< 'here string'",
    "for ((i = 0; i < 3; i++)); do echo $i; done",
    "((2 + 2 == 4)) && echo right; echo $((2 ** 10))",
    "text=hello.tar.gz; echo ${text/tar/zip} ${text:0:5} ${text^^}",
    "echo $'tab\\there'",
    "set -o pipefail; false | cat; echo $?",
    "false | true; echo ${PIPESTATUS[0]}",
    "function greet { local who=$1; echo hi $who; }; greet you",
    "source /dev/stdin <<< 'value=7'; echo $value",
    "select_one() { case $1 in a|b) echo letter;;& *) echo any;; esac; }; select_one a",
    "printf -v padded '%03d' 7; echo $padded",
    "mapfile -t lines < <(printf 'a\\nb\\n'); echo ${lines[1]}",
    "shopt -s globstar nullglob; mkdir -p d/e; touch d/e/f.py; echo **/*.py",
    "trap 'echo bye' EXIT; echo hi",
    "echo a; exit 7",
]


@pytest.mark.parametrize("command", IDIOMS)
async def test_a_command_gives_what_bash_gives(world: World, tmp_path: Path, command: str) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    expected = subprocess.run([BASH, "-c", command], cwd=aside, capture_output=True, text=True, check=False)
    result = await world.backend.run(command, shell=True)
    assert (result.exit_code, result.stdout) == (expected.returncode, expected.stdout)


@pytest.mark.needs("bubblewrap")
async def test_the_sandbox_has_the_same_shell(world: World) -> None:
    result = await sandbox_backend(world.root).run("[[ -n $BASH_VERSION ]] && echo $SHELL", shell=True)
    assert result.stdout == f"{BASH}\n"


async def test_the_variable_shell_names_the_shell_of_commands(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert (await world.backend.run("echo $SHELL", shell=True)).stdout == f"{BASH}\n"


@pytest.fixture
def without_bash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH that has programs, and no bash."""
    for name in ("ls", "cat", "echo", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("without_bash")
async def test_without_bash_the_model_reads_which_shell_it_is(world: World) -> None:
    backend = local_backend(world.root)
    assert isinstance(backend, LocalBackend)
    assert describe(backend) == "Commands run in /bin/sh: there is no bash."
    assert (await backend.run("echo $SHELL", shell=True)).stdout == "/bin/sh\n"


async def test_with_bash_the_model_reads_nothing_of_it(world: World) -> None:
    assert describe(world.backend) is None


async def test_a_bash_of_the_workspace_is_not_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.root / "bash").write_text("#!/bin/sh\necho of the workspace\n")
    (world.root / "bash").chmod(0o755)
    monkeypatch.setenv("PATH", f"{world.root}:/usr/bin:/bin")
    assert (await local_backend(world.root).run("echo safe", shell=True)).stdout == "safe\n"


def test_a_container_runs_bash_where_its_image_has_it() -> None:
    """The same words that `docker exec` would start; no engine runs here."""
    words = ["/bin/sh", "-c", IN_SHELL, "sh", "[[ a == a ]] && echo $SHELL"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == f"{BASH}\n"


def test_a_container_without_bash_says_so(without_bash: Path) -> None:
    words = ["/bin/sh", "-c", IN_SHELL, "sh", 'echo it is "$0"; exit 5']
    result = subprocess.run(words, capture_output=True, text=True, check=False, env={"PATH": str(without_bash)})
    assert (result.returncode, result.stdout) == (5, "it is /bin/sh\n")
    assert result.stderr == "note: there is no bash here; /bin/sh runs this command\n"
