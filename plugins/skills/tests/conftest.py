"""A temporary home and working directory, functions that write skills into them, and agents with the plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import deep_skills
import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ToolReturnPart

from deep_core import Kernel
from deep_core.plugin_api import live_text


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep tests away from the skills and the cache of the user who runs them."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / f".{name.lower()}"))
    return home


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def write(root: Path, name: str, description: str = "", body: str = "Do it.", extra: str = "") -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    text = f"---\nname: {name}\ndescription: {description or f'Use it for {name}.'}\n{extra}---\n\n{body}\n"
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def skill() -> Callable[..., Path]:
    return write


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    with Kernel(
        plugins=[deep_skills, deep_backends, deep_filesystem], discover=False, strict=True, config={}
    ) as kernel:
        yield kernel


@pytest.fixture
def make_agent(kernel: Kernel) -> Callable[..., Agent[Any, Any]]:
    def make(model: Any, **settings: Any) -> Agent[Any, Any]:
        return kernel.create_agent(model, **{"backend": "memory", **settings})

    return make


def returns(messages: list[ModelMessage]) -> list[str]:
    """The text of every tool result, in order."""
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return [str(part.content) for part in parts]


@pytest.fixture
def results() -> Callable[[list[ModelMessage]], list[str]]:
    return returns


def said(messages: list[Any], section: str) -> list[str]:
    """The texts of one live section, as the conversation has them."""
    texts = [live_text(part) for message in messages for part in message.parts]
    return [live.text for live in texts if live is not None and live.section == f"skills.{section}"]


@pytest.fixture
def contexts() -> Callable[[list[Any], str], list[str]]:
    return said
