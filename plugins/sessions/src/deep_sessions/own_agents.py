"""Agents of other programs in our interfaces: found by their name, and run in stored sessions.

Such an agent keeps its own tools, instructions and deps: a run only adds what stores its steps and watches its calls.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import DeferredToolRequests
from pydantic_ai.agent import AbstractAgent, WrapperAgent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError

from deep_core import ConfigError, DeepAgentDeps, tool_facts
from deep_core.plugin_api import DeepCapability, as_expression, describe_error, suggest

from .agent import DeepAgent
from .capability import JournalCapability, session_capabilities
from .planning import TEXT
from .slot import SESSION

if TYPE_CHECKING:
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.models import Model
    from pydantic_ai.tools import ToolDefinition

    from deep_core import PluginKernel

__all__ = ["OwnAgent", "Planning", "SessionAgent", "find_object", "load_agent", "make_own"]

ATTRIBUTE = "agent"
"""What a name without an attribute means: `agent.py`, `package.module`."""


@dataclass(frozen=True)
class OwnAgent:
    """An agent that a program made.

    Attributes:
        name: as `--agent` names it.
        agent: the agent.
        deps: what its tools get as `ctx.deps`; None for none.
        kernel: who made it, if `DeepAgent.create` did.
    """

    name: str
    agent: AbstractAgent[Any, Any]
    deps: object = None
    kernel: PluginKernel | None = None

    @property
    def is_deep(self) -> bool:
        """Whether `create_deep_agent` made it: its calls pass our policy, and its deps are the session."""
        return any(isinstance(leaf, DeepCapability) for leaf in _leaves(self.agent))

    @property
    def model(self) -> str:
        """The id of its model; "" if it has none."""
        model: Any = self.agent.model
        return model or "" if isinstance(model, str | None) else str(model.model_id)

    def in_sessions(
        self, capabilities: Sequence[AbstractCapability[Any]] = (), model: Model | str | None = None
    ) -> Agent[Any, Any]:
        """Return the agent as a `Runner` runs it.

        Args:
            capabilities: added to each run.
            model: runs it instead of its own.

        Raises:
            ConfigError: it needs deps, and has none.
        """
        is_session = self.is_deep or self.agent.deps_type is DeepAgentDeps
        needed: Any = self.agent.deps_type
        if not is_session and self.deps is None and needed not in (type(None), object):
            raise ConfigError(
                f"--agent {self.name}: its tools need deps of type {needed.__name__}: name a function that returns "
                "(agent, deps)"
            )
        has_journal = any(isinstance(leaf, JournalCapability) for leaf in _leaves(self.agent))
        own = [*(() if has_journal else session_capabilities()), *capabilities]
        made: Any = SessionAgent(self.agent, own, model=model, deps=self.deps, is_session=is_session)
        return made


class SessionAgent(WrapperAgent[Any, Any]):
    """An agent of another program, in a session of ours.

    Args:
        wrapped: the agent.
        capabilities: added to each run.
        model: runs it instead of its own.
        deps: what its tools get as `ctx.deps`.
        is_session: whether they get the session instead.
    """

    def __init__(
        self,
        wrapped: AbstractAgent[Any, Any],
        capabilities: Sequence[AbstractCapability[Any]] = (),
        *,
        model: Model | str | None = None,
        deps: object = None,
        is_session: bool = False,
    ) -> None:
        super().__init__(wrapped)
        self._capabilities = capabilities
        self._model = model
        self._deps = deps
        self._is_session = is_session

    @property
    def model(self) -> Any:
        """The model that runs it."""
        return self._model or self.wrapped.model

    @model.setter
    def model(self, model: Model) -> None:
        self._model = model

    @asynccontextmanager
    async def iter(self, user_prompt: Any = None, **how: Any) -> AsyncGenerator[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run it with what its session needs. Calls that ask end a run, and wait, as those of our agents do."""
        session: Any = how.pop("deps", None)
        how["capabilities"] = [*(how.get("capabilities") or ()), *self._capabilities]
        how["model"] = how.get("model") or self._model
        if how.get("output_type") is None and self._can_wait():
            how["output_type"] = [self.wrapped.output_type, DeferredToolRequests]
        token = SESSION.set(session)
        try:
            deps: Any = session if self._is_session else self._deps
            async with self.wrapped.iter(user_prompt, deps=deps, **how) as run:
                yield run
        finally:
            SESSION.reset(token)

    def _can_wait(self) -> bool:
        """Whether calls can wait once the output says so. Pydantic AI takes no other output beside a validator."""
        output: Any = self.wrapped.output_type
        listed = cast("Sequence[object]", output if isinstance(output, list | tuple) else [output])
        agent = self.wrapped
        while isinstance(agent, WrapperAgent):
            agent = agent.wrapped
        return DeferredToolRequests not in listed and not getattr(agent, "_output_validators", None)


class Planning(AbstractCapability[Any]):
    """Plan mode for an agent of another program: it is offered the tools that an expression selects.

    Args:
        tools: the expression.
    """

    def __init__(self, tools: str) -> None:
        self.id = "deep.sessions.planning"
        self.description = None
        self.defer_loading = False
        self._tools = as_expression(tools)

    def get_instructions(self) -> str:
        """Say what the mode is."""
        return TEXT

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]) -> list[ToolDefinition]:
        """Leave the others out: a call of one is an unknown tool. A tool that does not say that it reads, writes."""
        return [definition for definition in tool_defs if self._tools.matches(tool_facts(definition))]


def find_object(name: str, folder: str | None = None) -> object:
    """Return what `module:attribute` or `file.py:attribute` names; without an attribute, `agent`.

    Args:
        name: the name.
        folder: where files are, and modules too; None for those that Python finds by itself.

    Raises:
        ConfigError: there is no such module, file or attribute, or importing it fails.
    """
    place, colon, attribute = name.rpartition(":")
    if not colon or not attribute:
        place, attribute = name.rstrip(":"), ATTRIBUTE
    if folder is not None and (absolute := os.path.abspath(folder)) not in sys.path:
        sys.path.insert(0, absolute)
    try:
        found: object = _file(place, folder) if place.endswith(".py") else importlib.import_module(place)
    except (ConfigError, UserError):  # such as a key that is missing: the command line says what to type
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise ConfigError(f"--agent {name}: {place} cannot be imported: {describe_error(error)}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            names = [each for each in dir(found) if not each.startswith("_")]
            raise ConfigError(f"--agent {name}: {place} has no {attribute!r}.{suggest(attribute, names)}")
        found = getattr(found, part)
    return found


def _file(place: str, folder: str | None) -> object:
    path = Path(folder or ".", place).expanduser().resolve()
    if not path.is_file():
        raise ConfigError(f"--agent {place}: there is no such file")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # for the modules beside it
    # A name of its own: `agent.py` must not stand for a package `agent` that is installed.
    module_name = f"deep_agent_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"--agent {place}: is no Python file")
    module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


async def load_agent(name: str, folder: str) -> OwnAgent:
    """Return the agent that a name stands for: an agent of Pydantic AI, a `DeepAgent`, or a function that makes one.

    The function takes no arguments, may be async, and may return `(agent, deps)`. A `.yaml` or `.json` file is an agent
    as data.

    Args:
        name: `module:attribute`, `file.py:attribute`, or a file of data.
        folder: where they are found.

    Raises:
        ConfigError: it names nothing, or nothing that is an agent.
    """
    from .agent_files import agent_of_file, is_agent_file

    return await make_own(name, agent_of_file(name, folder) if is_agent_file(name) else find_object(name, folder))


async def make_own(name: str, found: object) -> OwnAgent:
    """Return the agent that an object is or makes. Raises ConfigError where it is none."""
    deps: object = None
    if callable(found) and not isinstance(found, AbstractAgent | DeepAgent):
        made = await _call(name, found)
        found, deps = cast("tuple[object, object]", made) if isinstance(made, tuple) else (made, None)
    if isinstance(found, DeepAgent):
        return OwnAgent(name, found.runner.agent, deps, found.kernel)
    if isinstance(found, AbstractAgent):
        agent = cast("AbstractAgent[Any, Any]", found)
        return OwnAgent(name, agent, deps, _kernel_of(agent))
    kind = type(found).__name__
    raise ConfigError(
        f"--agent {name}: {kind} is no agent of Pydantic AI, no DeepAgent, and no function that makes one"
    )


async def _call(name: str, make: Callable[..., Any]) -> object:
    try:
        needed = [each for each in inspect.signature(make).parameters.values() if each.default is each.empty]
        needed = [each for each in needed if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    except (TypeError, ValueError):  # it has no signature
        needed = []
    if needed:
        raise ConfigError(f"--agent {name}: it is called without arguments, and needs {needed[0].name!r}")
    made: Any = make()
    return await cast("Awaitable[object]", made) if inspect.isawaitable(made) else made


def _leaves(agent: AbstractAgent[Any, Any]) -> list[object]:
    leaves: list[object] = []
    agent.root_capability.apply(leaves.append)
    return leaves


def _kernel_of(agent: AbstractAgent[Any, Any]) -> PluginKernel | None:
    return next((leaf.plan.kernel for leaf in _leaves(agent) if isinstance(leaf, DeepCapability)), None)
