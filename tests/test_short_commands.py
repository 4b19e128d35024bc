"""Commands that run no agent load no Pydantic AI, which takes most of a second. Counts, not seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = (
    "config show", "config schema", "folders list", "keys list", "mcp list", "plugins list", "plugins search todo",
    "sessions list", "skills check", "workers",
)  # fmt: skip
PROGRAM = """
import sys
from deep_cli.main import main

for command in sys.argv[1:]:
    try:
        main(command.split())
    except SystemExit as end:
        assert not end.code, (command, end.code)
    heavy = {"pydantic_ai", "openai", "anthropic", "httpx"} & set(sys.modules)
    assert not heavy, (command, heavy)
    assert len(sys.modules) < 700, (command, len(sys.modules))
"""


@pytest.mark.slow
def test_commands_that_run_no_agent_load_no_pydantic_ai(tmp_path: Path) -> None:
    """With every plugin of the checkout, whose options and commands are loaded."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_INDEX_URL": "http://127.0.0.1:9/simple/"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *COMMANDS],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
