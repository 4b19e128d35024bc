"""What models write is bash: `execute` gives bash's own result for 200 idioms of its manual."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deep_backends import local_backend, sandbox_backend
from deep_filesystem import FilesystemOptions
from deep_filesystem.commands import render_result
from deep_filesystem.operations import Operations
from pydantic_ai.workspaces import CommandResult, Workspace

from deep_core import DeepAgentDeps
from plugins.filesystem.tests.bash_idioms import IDIOMS
from tests.drawn import sample

BASH = shutil.which("bash") or ""
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(not BASH, reason="bash is not installed")]


async def directly(command: str, folder: Path) -> str:
    """What bash gives, in the words of the tool."""
    folder.mkdir()
    env = {**os.environ, "SHELL": BASH}
    done = subprocess.run(
        [BASH, "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=env,
    )
    code = 128 - done.returncode if done.returncode < 0 else done.returncode
    ctx: Any = SimpleNamespace(deps=None)
    return await render_result(ctx, CommandResult(exit_code=code, stdout=done.stdout, stderr=done.stderr), 20_000)


def test_there_are_two_hundred() -> None:
    every = [idiom for idioms in IDIOMS.values() for idiom in idioms]
    assert len({*every}) == len(every) == 200


@pytest.mark.slow
@pytest.mark.parametrize("chapter", sample([*IDIOMS], *IDIOMS))
async def test_execute_gives_what_bash_gives(tmp_path: Path, chapter: str) -> None:
    await same_as_bash(tmp_path, local_backend, IDIOMS[chapter])


@pytest.mark.slow
@pytest.mark.needs("bubblewrap")
async def test_so_does_the_sandbox(tmp_path: Path) -> None:
    await same_as_bash(tmp_path, sandbox_backend, [idiom for idioms in IDIOMS.values() for idiom in idioms[::5]])


async def same_as_bash(base: Path, make: Any, idioms: list[str]) -> None:
    tools, differ = Operations(FilesystemOptions()), list[str]()
    for number, idiom in enumerate(idioms):
        (base / f"through{number}").mkdir()
        ctx: Any = SimpleNamespace(
            tool_call_id="c1",
            tool_call_approved=True,
            workspace=Workspace(make(base / f"through{number}")),
            deps=DeepAgentDeps(),
        )
        found, wanted = await tools.execute(ctx, idiom), await directly(idiom, base / f"directly{number}")
        if found != wanted.replace(f"directly{number}", f"through{number}"):
            differ.append(f"{idiom}\n  bash: {wanted!r}\n  tool: {found!r}")
    assert differ == [], "\n".join(differ)
