"""pydantic-ai-harness: its file tools alone, and its coder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.workspaces import LocalWorkspaceBackend
from pydantic_ai_harness import Coder, FileSystem  # type: ignore[import-not-found]

from benchmarks.contenders.pydantic_ai_contender import PydanticAIContender
from benchmarks.scripted import Calls
from benchmarks.work import Step

__all__ = ["CODER", "FILES"]


def _calls(listing: str, this: Step) -> Calls:
    return [
        ("write_file", {"path": this.write, "content": this.content}),
        ("read_file", {"path": this.read}),
        (listing, {"path": this.ls}),
    ]


def _workspace(root: Path) -> dict[str, Any]:
    return {"workspace": LocalWorkspaceBackend(root)}


def _no_deps(root: Path) -> None:
    return None


def _files(model: Model) -> Agent[None, str]:
    return Agent(model, capabilities=[FileSystem()])


def _coder(model: Model) -> Agent[None, str]:
    return Agent(model, capabilities=[Coder()])


FILES = PydanticAIContender(_files, _no_deps, partial(_calls, "list_directory"), _workspace)
CODER = PydanticAIContender(_coder, _no_deps, partial(_calls, "list_files"), _workspace)
