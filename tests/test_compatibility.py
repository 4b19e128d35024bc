"""What was written against an earlier kernel runs on this one, unchanged: a plugin and an application of each version.

The sources in `fixtures/built-against` are frozen. A change of the kernel that breaks them is a change of its major
version; a new minor version adds a folder, it never edits one.
"""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path

import pytest

from deep_core.plugins import hookspecs
from tests.environments import FIXTURES, Distribution, Environment

VERSIONS = sorted((FIXTURES / "built-against").iterdir())


def digest(folder: Path) -> str:
    """Of every file's path and bytes."""
    summed = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            summed.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return summed.hexdigest()


FROZEN = {"0.1": "9e70b7bf71552f6e7b359f5a2da5857a6da01f9fa999ded5fc46af0d6baa90d0"}
EXPECTED = {
    "0.1": [
        "{'everything': 'active', 'everything_else': 'active'}",
        "1",
        "['visit']",
        "['20 kelvin in Oslo', 'visited Oslo', 'Denied: Atlantis has sunk', 'visited Far Away', 'stay'] done",
        "['Bergen', 'Oslo', 'Far Away'] {'requests': 6} {'user': 'ann'}",
        "['ApprovalEvent', 'RequestEvent', 'RunEndEvent', 'RunStartEvent', 'ToolEvent', 'created with 1 toolsets']",
        "['instructions', 'advice', 'first', 'visits'] ['forecast', 'leave', 'visit']",
        "['everything']",
        "echo Later",
        "[] True",
        "closed",
        "closed",
        "closed",
        "True",
    ],
}
"""What the application prints."""


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda path: path.name)
def test_the_sources_are_as_they_were(folder: Path) -> None:
    assert digest(folder) == FROZEN[folder.name], (
        f"{folder} was changed. It shows that the kernel still runs what strangers wrote against {folder.name}: mend "
        "the kernel, or give what it now lacks a deprecation (docs/publishing.md)."
    )


@pytest.mark.slow
@pytest.mark.parametrize("folder", VERSIONS, ids=lambda path: path.name)
def test_it_still_runs(environment: Environment, folder: Path) -> None:
    environment.install(Distribution.of_project(folder))
    done = environment.run(environment.python, "-W", "error::DeprecationWarning:deep_core", folder / "application.py")
    assert done.code == 0, done.err
    assert done.out.splitlines() == EXPECTED[folder.name]
    assert done.err == ""


ARGUMENTS = {
    "0.1": {
        "deep_hookspecs": [],
        "deep_options": [],
        "deep_state": [],
        "deep_session_methods": [],
        "deep_toolsets": ["context"],
        "deep_backends": ["context"],
        "deep_history_processors": ["context"],
        "deep_skill_loaders": ["context"],
        "deep_prompt_sections": ["context"],
        "deep_capabilities": ["context"],
        "deep_check_call": ["call", "context", "ctx"],
        "deep_resolve_model": ["model_id"],
        "deep_agent_created": ["agent", "context"],
        "deep_run_event": ["event", "context"],
    },
}
"""What plugins could ask for, also what the plugin above leaves out."""


@pytest.mark.parametrize("version", ARGUMENTS)
def test_no_hook_is_gone_and_no_argument_of_one(version: str) -> None:
    for hook, arguments in ARGUMENTS[version].items():
        assert set(arguments) <= inspect.signature(getattr(hookspecs, hook)).parameters.keys(), hook
