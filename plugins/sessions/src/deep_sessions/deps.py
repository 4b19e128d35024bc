"""`AgentDeps`: the services that a `DeepAgent` runs on. They are live objects, never stored, and hold no policy."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pydantic_ai.models import Model
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import BackendFactory, PluginKernel

    from .registry import ToolRegistry
    from .results import RunResult
    from .store import SessionStore

__all__ = ["AgentDeps", "NoopObserver", "Observer", "new_id"]


class Observer(Protocol):
    """Sees runs begin and end. What it raises is logged once and changes nothing."""

    def run_started(self, session_id: str, run_id: str) -> None:
        """A run has started."""

    def run_ended(self, result: RunResult) -> None:
        """A run has ended, however it did."""


class NoopObserver:
    """Sees nothing."""

    def run_started(self, session_id: str, run_id: str) -> None:
        """Do nothing."""

    def run_ended(self, result: RunResult) -> None:
        """Do nothing."""


def new_id() -> str:
    """Return a random id: 32 hexadecimal digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True, kw_only=True)
class AgentDeps:
    """The services of an agent.

    The conversation's assembly, the execution of tools and the joining of deltas are the kernel's and Pydantic AI's:
    nothing else can be given for them.

    Attributes:
        model: a model, or its id; None takes the configuration's.
        session_store: a store, or its URL: `memory:`, `sqlite:///runs.db`, `postgresql://…`.
        runtime: where files are and commands run: a backend's name, a factory or an instance. None takes the
            configuration's `runtime_policy.profile`, and without one makes a workspace only if a tool needs it.
        workspaces: opens the workspace of a session, by its id, for each of its runs: `SessionManager.use`. None leaves
            it to `runtime`.
        tool_registry: tools that the agent has beside its own. The agent adds nothing to it.
        observer: sees runs begin and end.
        id_generator: makes the ids of runs and sessions.
        kernel: whose plugins the agent uses; None means the process's default kernel.
        app: the application's own object, as `ctx.deps.app`; a function gets the session's id.
    """

    model: Model | str | None = None
    session_store: SessionStore | str | None = "memory:"
    runtime: str | WorkspaceBackend | BackendFactory | None = None
    workspaces: Callable[[str], AbstractAsyncContextManager[WorkspaceBackend]] | None = None
    tool_registry: ToolRegistry | None = None
    observer: Observer = field(default_factory=NoopObserver)
    id_generator: Callable[[], str] = new_id
    kernel: PluginKernel | None = None
    app: Any = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("AgentDeps holds live services and cannot be stored: store the AgentConfig, and make new deps")
