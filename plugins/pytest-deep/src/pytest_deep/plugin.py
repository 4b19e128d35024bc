"""The pytest plugin: fixtures for a kernel of a test's plugins, a scripted model, and a session."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import DeepAgentDeps, Kernel

    from .recorder import Recorder
    from .script import ScriptedModel, Step

__all__ = ["ENVIRONMENT", "deep_deps", "deep_home", "deep_kernel", "deep_loop", "deep_recorder", "scripted_model"]

ENVIRONMENT = dict(os.environ)
"""The environment in which pytest started: tests and plugins may change it."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Turn warnings about plugins into errors for these tests: a plugin that they name must not be left out."""
    if "deep_kernel" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.filterwarnings("error::deep_core.errors.PluginWarning"), append=False)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Import what conformance needs before the first test runs.

    pytest parses these modules to rewrite their assertions. Later, a garbage collection during that may log
    the traceback of a forgotten task, for which Python 3.11 parses too, and then fails with a SystemError.
    """
    if any("bench" in getattr(item, "fixturenames", ()) for item in session.items):
        for name in ("behavior", "bench", "declarations", "factories", "holdings", "importing", "stepping"):
            importlib.import_module(f"pytest_deep.{name}")


@pytest.fixture
def deep_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set up a user without configuration, data or cache, and an environment without settings of deep."""
    home = tmp_path_factory.mktemp("home")
    for key in [key for key in os.environ if key.startswith(("DEEP_", "XDG_"))]:
        monkeypatch.delenv(key)
    for key in ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(key, str(home))
    return home


@pytest.fixture
def deep_recorder() -> Recorder:
    """Record what the test's kernels and scripted models saw: `.requests`, `.events`, `.hook_calls`, `.incidents`."""
    from .recorder import Recorder

    return Recorder()


@pytest.fixture
def deep_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Provide an event loop for `agent.run_sync()`, which would leave its own open; an async test has its own."""
    if inspect.iscoroutinefunction(getattr(request, "function", None)):
        yield
        return
    import asyncio  # every run of pytest loads this module, and few need a loop

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


@pytest.fixture
def deep_kernel(deep_home: Path, deep_loop: None, deep_recorder: Recorder) -> Iterator[Callable[..., Kernel]]:
    """Return a function that creates kernels: `deep_kernel("acme_weather", **options_of_Kernel)`.

    Plugins are named by entry point or module, or passed as objects. Nothing else is loaded: no installed plugin, no
    configuration file, no environment variable. Kernels are strict unless `strict=False`, and closed after the test.
    """
    from .factories import make_kernel

    def make(*plugins: object, strict: bool = True, **options: Any) -> Kernel:
        return make_kernel(deep_recorder, plugins, strict=strict, **options)

    yield make
    for kernel in reversed(deep_recorder.kernels):
        kernel.close()


@pytest.fixture
def scripted_model(deep_recorder: Recorder) -> Callable[..., ScriptedModel]:
    """Return a function that creates scripted models: `scripted_model(call("forecast", city="Oslo"), "Sunny.")`."""
    from .script import ScriptedModel

    def make(*steps: Step, then: str = "done") -> ScriptedModel:
        model = ScriptedModel(*steps, then=then)
        deep_recorder.models.append(model)
        return model

    return make


@pytest.fixture
def deep_deps(tmp_path: Path) -> Callable[..., DeepAgentDeps[Any]]:
    """Return a function that creates sessions in `tmp_path/"workspace"`: `deep_deps(kernel, files={"a.txt": "…"})`."""
    from .factories import make_deps

    def make(
        kernel: Kernel | None = None,
        *,
        files: Mapping[str, str | bytes] | None = None,
        backend: WorkspaceBackend | None = None,
        app: Any = None,
    ) -> DeepAgentDeps[Any]:
        return make_deps(kernel, tmp_path / "workspace", files=files or {}, backend=backend, app=app)

    return make
