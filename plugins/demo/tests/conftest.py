"""A copy of the sample project, and agents of the real plugins with the scripted model."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deep_backends
import deep_demo
import deep_filesystem
import deep_todo
import pytest
from deep_backends import local_backend
from deep_demo import copy_sample_project
from pydantic_ai import Agent

from deep_core import Kernel

PLUGINS: dict[str, Any] = {
    "backends": deep_backends,
    "demo": deep_demo,
    "filesystem": deep_filesystem,
    "todo": deep_todo,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return copy_sample_project(tmp_path / "project")


Maker = Callable[..., Agent[Any, Any]]


@pytest.fixture
def make_agent() -> Iterator[Maker]:
    """`make_agent(folder, without=["todo"], model="demo:tour", **settings)`."""
    kernels: list[Kernel] = []

    def make(folder: Path, *, without: list[str] | None = None, model: str = "demo:tour", **settings: Any) -> Any:
        kernel = Kernel(plugins=[v for k, v in PLUGINS.items() if k not in (without or [])], discover=False)
        kernels.append(kernel)
        return kernel.create_agent(model, backend=local_backend(folder), **settings)

    yield make
    for kernel in kernels:
        kernel.close()


def passes(folder: Path) -> bool:
    """Whether the tests in a folder pass."""
    done = subprocess.run([sys.executable, "-m", "unittest"], cwd=folder, capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture
def tests_pass() -> Callable[[Path], bool]:
    return passes
