"""What `deep web` serves: the folder it is started in, with the conversations of `deep chat` and of editors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from deep_sessions import (
    AgentChoice,
    BackendMaker,
    FolderAgents,
    FolderSettings,
    Sessions,
    default_store,
    folder_key,
    folder_store,
    is_conversation,
    new_conversation_id,
    open_store,
)

from deep_core import ConfigError, Kernel
from deep_core.plugin_api import read_agent_config

from .options import web_options
from .site import Site
from .standing import Standing

if TYPE_CHECKING:
    from deep_sessions import SessionInfo

__all__ = ["FolderSite", "open_folder"]

NO_MODEL = (
    "no model: start deep web --model openai:gpt-5.2, or set DEEP_MODEL=openai:gpt-5.2, or [agent] model in the user's "
    "config.toml; deep web --model demo:tour works without a key"
)


class FolderSite(Site):
    """The conversations of a folder.

    Args:
        folder: the folder, without symlinks: the current directory.
        agents: its agents.
        sessions: those of the default model.
        more: as for `Site`.
    """

    def __init__(self, folder: str, agents: FolderAgents, sessions: Sessions, **more: Any) -> None:
        super().__init__(sessions, workspaces=agents.workspace, folder=folder, **more)
        self._agents = agents
        self._begin = f"{folder_key(folder)}."
        self.standing = Standing(folder)

    async def sessions(self, model: str | None) -> Sessions:
        """Return the sessions as the agent with a model runs them."""
        return await self._agents.sessions(self._choice(model))

    async def planner(self, model: str | None) -> Sessions:
        """Return the sessions as the agent of plan mode runs them."""
        return await self._agents.sessions(self._choice(model, plan=True))

    def _choice(self, model: str | None, *, plan: bool = False) -> AgentChoice:
        if model is not None and model not in self.models:
            raise LookupError(f"there is no model {model!r} in [plugins.web.options] models: {', '.join(self.models)}")
        return AgentChoice(model or self.models[0], plan)

    def model_of(self, sessions: Sessions) -> str | None:
        """Return the id of the model of an agent."""
        return self._agents.choice_of(sessions).model

    def labels(self, model: str | None) -> Mapping[str, str]:
        """Return what each run keeps, as `deep chat` does."""
        return self._agents.labels(AgentChoice(model or self.models[0]))

    def shows(self, info: SessionInfo) -> bool:
        """Whether a session is a conversation of the folder."""
        return info.id.startswith(self._begin) and is_conversation(info.id)

    def new_id(self) -> str:
        """Return an id as `deep chat` makes them."""
        return new_conversation_id(self.folder)

    async def release(self, session_id: str) -> None:
        """Let go of a session's workspace."""
        self._agents.forget(session_id)


@asynccontextmanager
async def open_folder(folder: str, settings: FolderSettings) -> AsyncGenerator[FolderSite]:
    """Open what `deep web` serves. At the end, runs stop as at a crash, and can be resumed.

    Args:
        folder: the folder, without symlinks: the current directory.
        settings: what `deep web` was started with.

    Raises:
        ConfigError: the configuration is wrong, or names no model.
        PluginError: a plugin that must work fails.
        UserError: the model is unknown, or its key is missing.
    """
    maker = BackendMaker()
    async with AsyncExitStack() as stack:
        kernel = Kernel(plugins=[maker, *settings.plugins], config=settings.config)
        stack.callback(kernel.close)
        config, options = read_agent_config(kernel.config), web_options(kernel.config)
        model = settings.own_model or config.model.id
        if model is None:
            raise ConfigError(NO_MODEL)
        store = open_store(settings.store or default_store(), kernel=kernel)
        stack.push_async_callback(store.aclose)
        if not kernel.caller.plugins("deep_web_owner", kernel.active):  # else the owners are those that a plugin names
            store = await folder_store(store, folder)
        backend = settings.backend or config.runtime_policy.profile or "local"
        agents = FolderAgents(
            folder, kernel, maker, store, backend=backend, load_key=settings.load_key, own=settings.agent
        )
        stack.push_async_callback(agents.close)
        site = FolderSite(
            folder,
            agents,
            await agents.sessions(AgentChoice(model)),
            kernel=kernel,
            backend=backend,
            models=[*dict.fromkeys([model, *options.models])],
            examples=options.examples,
            max_upload_bytes=options.max_upload_bytes,
            max_file_bytes=options.max_file_bytes,
        )
        stack.push_async_callback(site.close)
        yield site
