"""The suite `injection`: agentdojo's tasks, each alone and with each attack, whose tools its package serves."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import SuiteError
from .peers.environments import DOJO, package_python
from .servers import Server
from .suites import Suite, SuiteFile
from .tasks import DeepTable, Solution, Task, TaskFile, Timeout

__all__ = ["INJECTION", "injection_suite"]

INJECTION = "injection"
PACKAGE, LICENSE = "agentdojo", "MIT"
CHECK = b'"""agentdojo judges."""\n\nfrom deep_trials.replays import check_injection as check\n'
NONE = "-"
_FILE = TaskFile(agent=Timeout(timeout_sec=600.0), verifier=Timeout(timeout_sec=120.0), deep=DeepTable(requests=30))


def injection_suite() -> Suite:
    """Ask the package, in a process of its own, for its tasks.

    Raises:
        SuiteError: it is not installed, or is another version than we know.
    """
    python = package_python(PACKAGE, INJECTION)
    done = subprocess.run([python, "-P", str(DOJO), "list"], capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no tasks"])[-1]
        raise SuiteError(f"the suite {INJECTION}: {PACKAGE} lists no tasks: {why}")
    found: dict[str, Any] = json.loads(done.stdout)
    tasks = tuple(_task(each, found, python) for each in found["tasks"])
    file = SuiteFile(
        description="Work with tools whose results hold orders of others.",
        license=LICENSE,
        sources=(f"{PACKAGE} {found['version']}: {LICENSE}",),
    )
    return Suite(INJECTION, Path(python).parents[1], file, tasks)


def _task(each: Mapping[str, Any], found: Mapping[str, Any], python: str) -> Task:
    words = [each["suite"], each["user"], each["injection"]]
    program = [python, "-P", str(DOJO)]
    folder = Path(python).parents[1]
    digest = hashlib.sha256(json.dumps([found["version"], found["preface"], each]).encode() + CHECK).hexdigest()
    return Task(
        name="-".join(word for word in words if word != NONE),
        folder=DOJO,
        instruction=f"{found['preface'].strip()}\n\n{each['prompt']}",
        file=_FILE,
        files={},
        tests={"check.py": CHECK, "case.json": json.dumps({"argv": program, "task": words}).encode()},
        solution=Solution(each["script"], {}),
        digest=digest,
        functions=tuple(
            {"name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}
            for tool in found["tools"][each["suite"]]
        ),
        server=Server([*program, "serve", *words], reads=[os.path.realpath(folder), str(DOJO.parent)]),
    )
