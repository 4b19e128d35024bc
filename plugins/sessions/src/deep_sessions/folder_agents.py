"""The agents of one folder, for interfaces that a person starts in it: one for each model and mode, on one store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_ai.models import Model, infer_model

from deep_core import create_default_deps, hookimpl
from deep_core.plugin_api import visible

from .agent import DeepAgent
from .deps import AgentDeps
from .planning import MODE, PLAN, planner_parameters
from .service import Sessions

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import AgentContext, DeepAgentDeps, PluginKernel, PluginOptions

    from .own_agents import OwnAgent
    from .store import SessionStore

__all__ = ["AgentChoice", "BackendMaker", "FolderAgents", "FolderSettings"]


@dataclass(frozen=True)
class FolderSettings:
    """What an interface of a folder was started with.

    Attributes:
        model: the model's id; None takes the configuration's.
        backend: the backend's name; None takes the configuration's, then `local`.
        config: a configuration file; it is trusted.
        store: the store's URL; None for deep's own.
        plugins: in addition to the installed ones.
        load_key: puts the stored key of a model's provider into the environment, before the model is made.
        agent: an agent of another program, instead of deep's own.
    """

    model: str | None = None
    backend: str | None = None
    config: Path | None = None
    store: str | None = None
    plugins: Sequence[Any] = ()
    load_key: Callable[[str], None] | None = None
    agent: OwnAgent | None = None

    @property
    def own_model(self) -> str | None:
        """The model that is named, or that of the agent of another program; None for the configuration's."""
        return self.model or (self.agent.model or None if self.agent is not None else None)


@dataclass(frozen=True)
class AgentChoice:
    """Which agent runs a session.

    Attributes:
        model: its model's id.
        plan: whether it is the one of plan mode.
    """

    model: str
    plan: bool = False


class BackendMaker:
    """A plugin for the kernel of `FolderAgents`: it makes the backends of sessions as the agent would."""

    def __init__(self) -> None:
        self._context: AgentContext | None = None

    def backend(self, deps: DeepAgentDeps[Any]) -> WorkspaceBackend:
        """Return a session's backend. Raises RuntimeError before there is an agent."""
        if self._context is None:
            raise RuntimeError("no agent was made yet")
        return self._context.backend(deps)

    @hookimpl
    def deep_agent_created(self, agent: Agent[Any, Any], context: AgentContext) -> None:
        """Keep the object that makes backends."""
        if context.depth == 0:
            self._context = context


class FolderAgents:
    """The agents of one folder. A person is at the other end: the model may ask questions.

    Args:
        folder: the folder, without symlinks: the current directory.
        kernel: its plugins; `backends` is one of them. The caller closes it.
        backends: makes the backends of sessions.
        store: where the sessions are. The caller closes it.
        backend: the name of the backend.
        plan_tools: the tools of plan mode: a tool expression.
        load_key: puts the stored key of a model's provider into the environment, before the model is made.
        change: returns the backend that a session works on, of the one that was made for it.
        own: an agent of another program, instead of deep's own.
    """

    def __init__(
        self,
        folder: str,
        kernel: PluginKernel,
        backends: BackendMaker,
        store: SessionStore,
        *,
        backend: str,
        plan_tools: str = "read",
        load_key: Callable[[str], None] | None = None,
        change: Callable[[str, WorkspaceBackend], WorkspaceBackend] | None = None,
        own: OwnAgent | None = None,
    ) -> None:
        self._own = own
        self._folder = folder
        self._kernel = kernel
        self._maker = backends
        self._store = store
        self._backend = backend
        self._plan_tools = plan_tools
        self._load_key = load_key
        self._change = change
        self._sessions: dict[AgentChoice, Sessions] = {}
        self._backends: dict[str, WorkspaceBackend] = {}
        self._owned = AsyncExitStack()

    async def sessions(self, choice: AgentChoice) -> Sessions:
        """Return the sessions as one agent runs them; make the agent at its first use.

        Raises:
            UserError: the model is unknown, or its key is missing.
            ImportError: the package of its provider is missing.
        """
        if choice not in self._sessions:
            self._sessions[choice] = await self._make(choice)
        return self._sessions[choice]

    def choice_of(self, sessions: Sessions) -> AgentChoice:
        """Return which agent runs these sessions. Raises LookupError for those of another program."""
        for choice, made in self._sessions.items():
            if made is sessions:
                return choice
        raise LookupError("these sessions are of another program")

    async def _make(self, choice: AgentChoice) -> Sessions:
        if self._load_key is not None:
            await asyncio.to_thread(self._load_key, choice.model)  # a keyring may take seconds
        if self._own is not None:
            return self._of_own(self._own, choice)
        parameters = planner_parameters(self._kernel.config, self._plan_tools) if choice.plan else {}
        parameters["plugins"] = self._with_person()
        agent = await DeepAgent.create(
            deps=AgentDeps(
                model=choice.model,
                session_store=self._store,
                runtime=self._backend,
                workspaces=self.workspace,
                kernel=self._kernel,
            ),
            **parameters,
        )
        self._owned.push_async_callback(agent.close)
        inner = agent.runner.agent
        if isinstance(inner.model, str):
            # No plugin knows this model. Resolve it now, so that a missing key is the first error.
            inner.model = infer_model(inner.model)
        sessions = Sessions(agent, keep_partial=True)
        self._owned.push_async_callback(sessions.close)
        return sessions

    def _of_own(self, own: OwnAgent, choice: AgentChoice) -> Sessions:
        from .own_agents import Planning

        capabilities = [Planning(self._plan_tools)] if choice.plan else []
        runs = own.in_sessions(capabilities, None if choice.model == own.model else choice.model)
        if isinstance(runs.model, str):
            runs.model = infer_model(runs.model)
        deps = AgentDeps(session_store=self._store, kernel=own.kernel or self._kernel)
        agent = DeepAgent.of(runs, deps=deps)
        self._owned.push_async_callback(agent.close)
        sessions = Sessions(agent, keep_partial=True)
        self._owned.push_async_callback(sessions.close)
        return sessions

    def _with_person(self) -> list[PluginOptions]:
        """Return the options of plugins for a person who answers: questions are offered, and changes to files ask."""
        found: list[PluginOptions] = []
        if self._is_unset("ask", "offer"):
            from deep_ask import AskOptions  # installed: it is active

            found.append(AskOptions(offer=True))
        if self._is_unset("filesystem", "require_write_approval"):
            from deep_filesystem import FilesystemOptions

            found.append(FilesystemOptions(require_write_approval=True))
        return found

    def _is_unset(self, plugin: str, option: str) -> bool:
        return plugin in self._kernel.active and option not in self._kernel.config.plugin(plugin).options

    @asynccontextmanager
    async def workspace(self, session_id: str) -> AsyncGenerator[WorkspaceBackend]:
        """Yield the workspace of a session."""
        yield self.backend_of(session_id)

    def backend_of(self, session_id: str) -> WorkspaceBackend:
        """Return the workspace of a session. An agent must exist."""
        if session_id not in self._backends:
            deps = create_default_deps(kernel=self._kernel)
            deps.session_id = session_id
            made = self._maker.backend(deps) if self._own is None else _files_of(self._folder)
            self._backends[session_id] = made if self._change is None else self._change(session_id, made)
        return self._backends[session_id]

    def forget(self, session_id: str) -> None:
        """Drop the workspace of a session that is gone."""
        self._backends.pop(session_id, None)

    def labels(self, choice: AgentChoice) -> Mapping[str, str]:
        """Return what each run of the folder keeps, so that the next interface continues as this one did."""
        labels = {"model": choice.model, "backend": self._backend, "folder": visible(self._folder)}
        return {**labels, MODE: PLAN} if choice.plan else labels

    async def close(self) -> None:
        """Stop the runs, as a crash would: they can be resumed."""
        await self._owned.aclose()


def _files_of(folder: str) -> WorkspaceBackend:
    """Return the files of a folder, to show what an agent of another program would change."""
    from pydantic_ai.workspaces.local import LocalWorkspaceBackend

    return LocalWorkspaceBackend(folder)


def model_of(sessions: Sessions) -> Model | None:
    """Return the model that runs sessions; None if it is chosen for each run."""
    model = sessions.agent.runner.agent.model
    return model if isinstance(model, Model) else None
