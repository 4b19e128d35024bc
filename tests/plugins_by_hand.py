"""Throw-away plugins for `Kernel(plugins=[…], discover=False)`, and installed ones in a site directory of a test."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from entry_point_index import site_directories
from pydantic_ai import Agent, DeferredToolRequests, FunctionToolset
from pydantic_ai.messages import ModelMessage, ToolReturnPart

from deep_core import DeepAgentDeps, Kernel, create_default_deps, hookimpl
from tests.environments import Distribution
from tests.stubs import Script, ScriptedModel, function_model

__all__ = [
    "TRAVEL",
    "Site",
    "Tools",
    "agent_of",
    "kernel_of",
    "outcomes",
    "pending",
    "plugin",
    "returns",
    "run",
    "scripted",
    "site",
]

CONTRIBUTED = {
    "toolsets": "deep_toolsets",
    "sections": "deep_prompt_sections",
    "processors": "deep_history_processors",
    "capabilities": "deep_capabilities",
    "backends": "deep_backends",
    "skill_loaders": "deep_skill_loaders",
}
"""Builder keyword -> the hook that takes `context`."""
TRAVEL = """
import sys
from deep_core import PromptSection, hookimpl, hookspec

@hookspec(policy="collect")
def deep_cities(context):
    "Cities to forecast for."

@hookimpl
def deep_hookspecs():
    return [sys.modules[__name__]]

@hookimpl(tryfirst=True)
def deep_prompt_sections(context):
    found = [f"{item.plugin} {item.value}" for item in context.collect("deep_cities")]
    return [PromptSection.static("cities", "Cities: " + ", ".join(found))]
"""
"""A plugin with a hook of its own, for a site directory."""
OTHERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "state": ("deep_state", ()),
    "options": ("deep_options", ()),
    "hookspecs": ("deep_hookspecs", ()),
    "check_call": ("deep_check_call", ("call", "context")),
    "resolve_model": ("deep_resolve_model", ("model_id",)),
    "agent_created": ("deep_agent_created", ("agent", "context")),
    "run_event": ("deep_run_event", ("event", "context")),
}


def plugin(name: str, **contributions: Any) -> object:
    """A plugin object called `name`.

    Args:
        name: of the plugin.
        **contributions: what its hooks return, by the builder keywords above: a value, or a function. A contribution
            hook's function takes the context or nothing; the functions of the other hooks take the first so many of
            the hook's arguments. Parameters with a default are the test's own.
    """
    made = type(name, (), {})()
    for key, given in contributions.items():
        hook, arguments = (CONTRIBUTED[key], ("context",)) if key in CONTRIBUTED else OTHERS[key]
        setattr(made, hook, hookimpl(_hook(given, arguments)))
    return made


def _hook(given: Any, arguments: tuple[str, ...]) -> Callable[..., Any]:
    # pluggy reads argument names, so one function is needed for each signature.
    def answer(*values: Any) -> Any:
        if not inspect.isroutine(given):
            return given
        wanted = [p for p in inspect.signature(given).parameters.values() if p.default is p.empty]
        return given(*values[: len(wanted)])

    makers: dict[tuple[str, ...], Callable[..., Any]] = {
        (): lambda: answer(),
        ("context",): lambda context: answer(context),
        ("model_id",): lambda model_id: answer(model_id),
        ("call", "context"): lambda call, context: answer(call, context),
        ("agent", "context"): lambda agent, context: answer(agent, context),
        ("event", "context"): lambda event, context: answer(event, context),
    }
    return makers[arguments]


class Tools:
    """A toolset whose tools write down that they ran.

    Attributes:
        ran: (tool, arguments) of every call that reached a function.
    """

    def __init__(self, *names: str, tags: Sequence[str] = (), requires_approval: bool = False, **how: Any) -> None:
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.toolset: FunctionToolset[Any] = FunctionToolset(id=how.pop("id", None) or "-".join(names) or "none")
        for name in names:
            self.add(name, tags=tags, requires_approval=requires_approval, **how)

    def add(self, name: str, *, tags: Sequence[str] = (), requires_approval: bool = False, **how: Any) -> Tools:
        """One more tool; it takes a `path` and a `text`, and answers with its name and path."""

        def function(path: str = "", text: str = "") -> str:
            self.ran.append((name, {"path": path, "text": text}))
            return f"{name} {path} {text}".strip()

        metadata = {**how.pop("metadata", {}), **({"tags": list(tags)} if tags else {})}
        self.toolset.add_function(
            function, name=name, metadata=metadata or None, requires_approval=requires_approval, **how
        )
        return self

    @property
    def names(self) -> list[str]:
        """The tools that ran, in order."""
        return [name for name, _ in self.ran]


def kernel_of(*plugins: object, **how: Any) -> Kernel:
    """A kernel of these plugins alone."""
    return Kernel(plugins=plugins, discover=False, **how)


def scripted(*turns: Any, then: Any = "done") -> ScriptedModel:
    """A model that plays these turns; after them it says `then`."""
    return function_model(Script(*turns, then=then))


def agent_of(*plugins: object, model: Any = None, config: Any = None, **how: Any) -> Agent[Any, Any]:
    """An agent of these plugins alone. `config` is the kernel's; all else goes to `create_agent`."""
    return kernel_of(*plugins, config=config).create_agent(model if model is not None else scripted(), **how)


def run(agent: Agent[Any, Any], prompt: str | None = "go", deps: DeepAgentDeps[Any] | None = None, **how: Any) -> Any:
    """One run in an event loop of its own; returns the result."""
    return asyncio.run(agent.run(prompt, deps=create_default_deps() if deps is None else deps, **how))


def pending(result: Any) -> DeferredToolRequests:
    """What a run waits for; an assertion where it does not wait."""
    assert isinstance(result.output, DeferredToolRequests), f"nothing was asked: {result.output!r}"
    return result.output


def returns(messages: Iterable[ModelMessage]) -> list[ToolReturnPart]:
    """Every tool result of a conversation."""
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def outcomes(result: Any) -> list[tuple[str, str]]:
    """(tool, outcome) of every tool result of a run's conversation."""
    return [(part.tool_name, part.outcome) for part in returns(result.all_messages())]


class Site:
    """A directory that counts as one of the interpreter's site directories while a test runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._modules: list[str] = []

    def install(self, name: str, source: str, **distribution: Any) -> str:
        """Install a plugin `name` of one module; returns the distribution's name, `acme-<name>`."""
        module = f"acme_{name}_{len(self._modules)}_{id(self):x}"
        self._modules.append(module)
        named = f"acme-{name}"
        Distribution(named, {name: module}, {f"{module}.py": source}, **distribution).write(self.path)
        importlib.invalidate_caches()
        return named


@contextmanager
def _site(path: Path) -> Generator[Site]:
    patch = pytest.MonkeyPatch()
    before = set(sys.modules)
    try:
        # Nothing that is installed here is seen: a test is about its own plugins.
        real = set(site_directories())
        patch.setattr("entry_point_index.index.site_directories", lambda: [str(path)])
        assert str(path) not in real
        patch.syspath_prepend(str(path))
        yield Site(path)
    finally:
        patch.undo()
        for name in sys.modules.keys() - before:
            if str(path) in str(getattr(sys.modules[name], "__file__", None) or ""):
                del sys.modules[name]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Site]:
    """A site directory of the test's own, and a working directory without a configuration file."""
    folder = tmp_path / "site"
    folder.mkdir()
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    monkeypatch.chdir(work)
    with _site(folder.resolve()) as found:
        yield found
