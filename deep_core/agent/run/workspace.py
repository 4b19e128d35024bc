"""Choose and create the backend of a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic_ai.messages import WorkspaceRef
from pydantic_ai.workspaces import UnavailableWorkspace, Workspace, WorkspaceBackend, WrapperWorkspace

from ...errors import PluginError, suggest
from ..context import AgentContext, BackendContext, BackendFactory
from .backend_protocols import SupportsProtect
from .session import Deps


class _Here(WrapperWorkspace):
    """A session's backend under the reference that a stored history names.

    A history names the environment that it ran in. With `deps.backend` the application decides where the conversation
    continues, and that decision wins.
    """

    def __init__(self, wrapped: Workspace, ref: WorkspaceRef) -> None:
        super().__init__(wrapped)
        self._asked = ref

    @property
    def ref(self) -> WorkspaceRef | None:
        return self._asked


@dataclass(eq=False, repr=False)
class Workspaces:
    """The backends of one agent: what plugins provide, and which one a session gets.

    Attributes:
        chosen: the application's choice; None means `memory`.
        provided: name -> the factory, and the context of its plugin.
        app_context: the context that a factory of the application receives.
    """

    chosen: str | WorkspaceBackend | BackendFactory | None
    provided: Mapping[str, tuple[BackendFactory, AgentContext]]
    app_context: AgentContext

    def __post_init__(self) -> None:
        chosen, provided = self.chosen, self.provided
        if isinstance(chosen, str) and chosen not in provided:
            have = f" Installed: {', '.join(sorted(provided))}." if provided else " None is: pip install deep-backends."
            raise PluginError(f"no plugin provides a backend {chosen!r}.{suggest(chosen, provided)}{have}")
        if chosen is not None and not isinstance(chosen, str) and not callable(chosen):
            _require_backend(chosen, "backend=", "a name, an instance or a factory")

    def for_session(self, deps: Deps, ref: WorkspaceRef | None) -> WorkspaceBackend:
        """Return the session's backend; create it on first use and keep it in the deps."""
        backend = deps.backend
        if backend is None:
            backend = self._make(deps.session_id)
            # deps belongs to one session, so that a session gets one backend.
            deps.backend = backend
        else:
            _require_backend(backend, "a session's backend", "an instance, such as deep_backends.memory_backend()")
        innermost = backend.backend if isinstance(backend, Workspace) else backend
        if self.app_context.config_files and isinstance(innermost, SupportsProtect):
            # The configuration files are policy: the model must not write to them, whatever wraps the backend.
            innermost.protect(*self.app_context.config_files)
        if ref is not None and backend.ref != ref:
            return _Here(backend if isinstance(backend, Workspace) else Workspace(backend), ref)
        return backend

    def _make(self, session_id: str) -> WorkspaceBackend:
        chosen = "memory" if self.chosen is None else self.chosen
        if isinstance(chosen, str):
            if chosen not in self.provided:
                return UnavailableWorkspace(
                    "This session has no workspace: pip install deep-backends, or give one: "
                    "create_default_deps(backend=…) or create_deep_agent(backend=…)."
                )
            factory, context = self.provided[chosen]
            with context.kernel.tracer.step(context.plugin, "backend", chosen):
                return _checked(factory(BackendContext(context, session_id)), chosen)
        if isinstance(chosen, WorkspaceBackend):
            return chosen
        return _checked(chosen(BackendContext(self.app_context, session_id)), getattr(chosen, "__name__", "backend"))


def _require_backend(given: object, what: str, wanted: str) -> None:
    if not isinstance(given, WorkspaceBackend):
        raise TypeError(f"{what} is {wanted}, not {given!r:.80}")


def _checked(backend: object, name: str) -> WorkspaceBackend:
    if not isinstance(backend, WorkspaceBackend):
        raise PluginError(f"backend {name!r}: its factory returned {type(backend).__name__}, not a WorkspaceBackend")
    return backend
