"""deepagents: its default agent on its own file system backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deepagents import create_deep_agent  # type: ignore[import-not-found]
from deepagents.backends import FilesystemBackend  # type: ignore[import-not-found]

from benchmarks.contenders.langchain_contender import Calls, LangChainContender
from benchmarks.work import Step

__all__ = ["CONTENDER"]


def _build(model: Any, root: Path) -> Any:
    return create_deep_agent(model, backend=FilesystemBackend(root_dir=root, virtual_mode=True))


def _calls(this: Step) -> Calls:
    return [
        ("write_file", {"file_path": f"/{this.write}", "content": this.content}),
        ("read_file", {"file_path": f"/{this.read}"}),
        ("ls", {"path": f"/{this.ls}"}),
    ]


CONTENDER = LangChainContender(_build, _calls)
