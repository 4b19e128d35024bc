"""Agents with prompted tools, and the dialects that deep-universe has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import deep_backends
import deep_filesystem
import deep_prompted_tools
import deep_subagents
import deep_todo
import deep_universe
import pytest
from pydantic_ai import Agent

from deep_core import Kernel

PLUGINS: dict[str, Any] = {
    "backends": deep_backends,
    "filesystem": deep_filesystem,
    "prompted_tools": deep_prompted_tools,
    "subagents": deep_subagents,
    "todo": deep_todo,
    "universe": deep_universe,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def own_home(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A cache of the test's own, for what providers refused."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def make_kernel() -> Iterator[Callable[..., Kernel]]:
    """`make_kernel("todo", "filesystem")`: a kernel with these plugins, prompted tools and a backend."""
    kernels: list[Kernel] = []

    def make(*names: str, more: tuple[Any, ...] = ()) -> Kernel:
        wanted = {"backends", "prompted_tools", "universe", *names}
        plugins = [plugin for name, plugin in PLUGINS.items() if name in wanted]
        kernels.append(Kernel(plugins=[*plugins, *more], discover=False, strict=True))
        return kernels[-1]

    yield make
    for kernel in kernels:
        kernel.close()


@pytest.fixture
def make_agent(make_kernel: Callable[..., Kernel], own_home: Any) -> Callable[..., Agent[Any, Any]]:
    """`make_agent(model, "todo", mode="always", output_type=…)`: prompted tools take `mode`, `dialect`, `recover`."""

    def make(model: Any, *names: str, more: tuple[Any, ...] = (), **settings: Any) -> Agent[Any, Any]:
        ours = {key: settings.pop(key) for key in ("mode", "dialect", "recover", "retries") if key in settings}
        options = deep_prompted_tools.PromptedToolsOptions(**ours)
        kernel = make_kernel(*names, more=more)
        settings.setdefault("backend", "memory")
        return kernel.create_agent(model, plugins=[options], **settings)

    return make
