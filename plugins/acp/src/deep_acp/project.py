"""One folder: its plugins, its conversations, and an agent for each model and mode."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from acp.exceptions import RequestError
from acp.schema import HttpMcpServer, McpServerStdio, SseMcpServer
from deep_sessions import (
    AgentChoice,
    BackendMaker,
    FolderAgents,
    FolderSettings,
    Sessions,
    SessionStore,
    chat_commands,
    default_store,
    folder_owner,
    folder_store,
    open_store,
)
from pydantic_ai.models import Model

from deep_core import Kernel, hookimpl
from deep_core.plugin_api import read_agent_config, visible

from .changes import Change, ChangesCapability, Todos
from .errors import AUTH_REQUIRED, explain
from .files import with_editor
from .options import acp_options

if TYPE_CHECKING:
    from deep_sessions import ChatCommand
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import AgentContext, PluginContext

    from .client import Editor

__all__ = ["Project", "real_folder"]

logger = logging.getLogger("deep.acp")
NO_MODEL = (
    "no model: set DEEP_MODEL=openai:gpt-5.2 in the environment that the editor gives to deep acp, or [agent] model in "
    "the user's config.toml, or start deep acp --model openai:gpt-5.2"
)


class EditorPlugin(BackendMaker):
    """What an editor adds to the kernel: its MCP servers, and a watch on files that calls change."""

    def __init__(self, servers: Sequence[Any]) -> None:
        super().__init__()
        self._servers = servers
        self.listeners: dict[str, Any] = {}
        """By session: receives the id of a call, and what it changed."""

    @hookimpl
    def deep_capabilities(self, context: AgentContext) -> list[AbstractCapability[Any]]:
        """Watch what calls change, of subagents too."""
        return [ChangesCapability(self._note)]

    @hookimpl(of="mcp")
    def deep_mcp_servers(self, context: PluginContext) -> Iterable[Any]:
        """Add the servers that the editor is configured with."""
        from deep_mcp import read_server  # installed: it calls this

        return [read_server(name, entry, "the editor", variables=False) for name, entry in map(_entry, self._servers)]

    def _note(self, session_id: str, call_id: str, effect: Change | Todos) -> None:
        listener = self.listeners.get(session_id)
        if listener is not None:
            listener(call_id, effect)


def _entry(server: Any) -> tuple[str, Mapping[str, Any]]:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", server.name).strip("-_")[:40] or "editor"
    match server:
        case McpServerStdio():
            env = {variable.name: variable.value for variable in server.env}
            return name, {"command": server.command, "args": [*server.args], "env": env}
        case HttpMcpServer() | SseMcpServer():
            headers = {header.name: header.value for header in server.headers}
            return name, {"type": server.type, "url": server.url, "headers": headers}
        case _:
            raise RequestError(-32602, f"the MCP server {visible(server.name)}: only stdio, http and sse are supported")


class Project:
    """The agents of one folder.

    Args:
        folder: the folder, without symlinks: the current directory.
        settings: what `deep acp` was started with.
        editor: the editor.
        servers: MCP servers that the editor is configured with.

    Raises:
        ConfigError: the configuration is wrong.
        PluginError: a plugin that must work fails.
    """

    def __init__(self, folder: str, settings: FolderSettings, editor: Editor, servers: Sequence[Any] = ()) -> None:
        self.folder = folder
        self.plugin = EditorPlugin(servers)
        self.kernel = Kernel(plugins=[self.plugin, *settings.plugins], config=settings.config)
        if servers and "mcp" not in self.kernel.active:
            logger.warning("the editor's MCP servers are left out: pip install deep-mcp-client, or turn its plugin on")
        config = read_agent_config(self.kernel.config)
        self.options = acp_options(self.kernel.config)
        self.model = settings.own_model or config.model.id
        self.backend = settings.backend or config.runtime_policy.profile or "local"
        store = open_store(settings.store or default_store(), kernel=self.kernel)
        self.store: SessionStore = store.for_owner(folder_owner(folder))
        self._is_open = False
        self.agents = FolderAgents(
            folder,
            self.kernel,
            self.plugin,
            self.store,
            backend=self.backend,
            plan_tools=self.options.plan_tools,
            load_key=settings.load_key,
            change=lambda session_id, made: with_editor(made, editor, session_id),
            own=settings.agent,
        )

    @property
    def models(self) -> list[str]:
        """The models that the editor offers."""
        return list(dict.fromkeys([*([self.model] if self.model else []), *self.options.models]))

    async def open(self) -> None:
        """Take up the folder's conversations from before folders were owners. Once."""
        if not self._is_open:
            await folder_store(self.store, self.folder)
            self._is_open = True

    async def sessions(self, choice: AgentChoice) -> Sessions:
        """Return the sessions as one agent runs them; make the agent at its first use.

        Raises:
            acp.RequestError: the model is unknown, or its key or package is missing.
        """
        try:
            return await self.agents.sessions(choice)
        except Exception as error:
            raise explain(error, choice.model) from error

    def backend_of(self, session_id: str) -> WorkspaceBackend:
        """Return the workspace of a session: the editor's files, where it offers them. An agent must exist."""
        return self.agents.backend_of(session_id)

    def default_choice(self) -> AgentChoice:
        """Return the agent that sessions begin with.

        Raises:
            acp.RequestError: no model is named.
        """
        if self.model is None:
            raise RequestError(AUTH_REQUIRED, NO_MODEL)
        return AgentChoice(self.model)

    def model_of(self, sessions: Sessions) -> Model | None:
        """Return the model that runs sessions."""
        model = sessions.agent.runner.agent.model
        return model if isinstance(model, Model) else None

    def commands(self) -> Mapping[str, ChatCommand]:
        """Return the commands that plugins add to chats."""
        return chat_commands(self.kernel)

    async def close(self) -> None:
        """Stop the runs, as a crash would: they can be resumed. Close the store and the plugins."""
        await self.agents.close()
        await self.store.aclose()
        self.kernel.close()


def real_folder(folder: str) -> str:
    """Return a folder without symlinks.

    Raises:
        acp.RequestError: it is not absolute, or does not exist.
    """
    if not os.path.isabs(folder) or not os.path.isdir(folder):
        raise RequestError(-32602, f"cwd: {visible(folder)!r} is no absolute path of a folder that exists")
    return os.path.realpath(folder)
