"""Sessions over real directories and memory, of a kernel with only the plugins uploads and backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deep_backends
import deep_uploads
import pytest
from deep_backends import LocalBackend, local_backend, memory_backend
from pydantic_ai import Agent

from deep_core import DeepAgentDeps, Kernel, create_default_deps


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    with Kernel(plugins=[deep_uploads, deep_backends], discover=False, strict=True) as kernel:
        yield kernel


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


@pytest.fixture
def local(root: Path) -> LocalBackend:
    return local_backend(root)


@pytest.fixture
def deps(kernel: Kernel, local: LocalBackend) -> DeepAgentDeps[None]:
    return create_default_deps(local, kernel=kernel)


@pytest.fixture
def in_memory(kernel: Kernel) -> DeepAgentDeps[None]:
    return create_default_deps(memory_backend(), kernel=kernel)


@pytest.fixture
def make_agent(kernel: Kernel) -> Callable[..., Agent[Any, Any]]:
    def make(model: Any, **settings: Any) -> Agent[Any, Any]:
        return kernel.create_agent(model, **{"backend": "memory", **settings})

    return make


@pytest.fixture
def limited() -> Iterator[Callable[..., DeepAgentDeps[None]]]:
    """Sessions whose configuration sets options."""
    kernels: list[Kernel] = []

    def make(backend: Any, **options: Any) -> DeepAgentDeps[None]:
        config = {"plugins": {"uploads": {"options": options}}}
        kernel = Kernel(plugins=[deep_uploads, deep_backends], discover=False, strict=True, config=config)
        kernels.append(kernel)
        return create_default_deps(backend, kernel=kernel)

    yield make
    for kernel in kernels:
        kernel.close()


def everything(root: Path) -> list[str]:
    """All files below a directory, including temporary ones."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.fixture(name="everything")
def _everything() -> Callable[[Path], list[str]]:
    return everything
