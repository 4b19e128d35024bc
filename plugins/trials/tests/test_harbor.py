"""deep as an agent of Harbor, in its own classes: `make test-harbor` has an environment with its package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.trials.tests.test_commands import deep

PYTHON = os.environ.get("DEEP_HARBOR", "")

DRIVER = """
import asyncio, json, os, subprocess, sys
from pathlib import Path
from types import SimpleNamespace
from harbor.agents.factory import AgentFactory
from harbor.agents.installed.base import BaseInstalledAgent, NonZeroAgentExitCodeError
from harbor.models.agent.context import AgentContext
from deep_harbor import Deep

folder, place = Path(sys.argv[1]), sys.argv[2]
seen = []

class Here:
    async def exec(self, command, user=None, env=None, cwd=None, timeout_sec=None):
        seen.append((user, command))
        if "pip install" in command:
            return SimpleNamespace(return_code=0, stdout="", stderr="")
        words = {"cwd": folder, "env": {**os.environ, **(env or {})}, "capture_output": True, "text": True}
        done = subprocess.run(["bash", "-c", command], **words)
        return SimpleNamespace(return_code=done.returncode, stdout=done.stdout, stderr=done.stderr)
    async def upload_dir(self, source, target):
        seen.append(("upload", f"{source} {target}"))

async def main():
    assert issubclass(Deep, BaseInstalledAgent) and Deep.name() == "deep"
    agent = AgentFactory.create_agent_from_import_path(
        "deep_harbor:Deep", logs_dir=folder, model_name="demo/echo", wheels="dist", environment_logs_dir=folder
    )
    agent.place = place
    context = AgentContext()
    await agent.install(Here())
    await agent.run("it's done", Here(), context)
    agent.populate_context_post_run(context)
    agent.model_name = "nobody/none"
    try:
        await agent.run("x", Here(), context)
        failed = ""
    except NonZeroAgentExitCodeError as error:
        failed = type(error).__name__
    print(json.dumps({"seen": seen, "context": context.model_dump(), "failed": failed}))

asyncio.run(main())
"""


def test_the_file_is_written_and_the_command_named(tmp_path: Path) -> None:
    said = deep("harbor", folder=tmp_path).stdout
    assert "--agent deep_harbor:Deep" in said
    assert "class Deep(BaseInstalledAgent)" in (tmp_path / "deep_harbor.py").read_text(encoding="utf-8")


@pytest.mark.skipif(not PYTHON, reason="make test-harbor: needs Harbor")
def test_harbor_makes_and_runs_it(tmp_path: Path) -> None:
    deep("harbor", folder=tmp_path)
    words = [PYTHON, "-c", DRIVER, str(tmp_path), sys.prefix]
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["seen"][0] == ["upload", f"dist {sys.prefix}-wheels"]
    assert said["seen"][1][0] == "root"
    assert "deep-everything" in said["seen"][1][1]
    assert said["context"]["metadata"] == {"status": "done", "requests": 1}
    assert said["context"]["n_input_tokens"] > 0
    assert json.loads((tmp_path / "deep.json").read_bytes() or "{}") == {}, "the second run failed"
    assert said["failed"]
