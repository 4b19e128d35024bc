"""What a hook receives: its plugin's options, folders, logger, and what earlier phases contributed."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import PluginError
from .contributions import Contribution

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.models import Model
    from pydantic_ai.workspaces import WorkspaceBackend

    from ..agent.config import AgentConfig
    from ..agent.run.session import DeepAgentDeps
    from .options import PluginOptions

__all__ = ["AgentContext"]

Options = TypeVar("Options", bound="PluginOptions")


class AgentContext:
    """One plugin's view of the agent that is being made.

    Attributes:
        plugin: the plugin's name.
        config: what the agent is and may do.
        config_files: what policy is read from: the configuration files that were read, the user's own and the record of
            trusted ones even where there are none yet. Nothing should write to them.
        depth: 0 for the agent, 1 for a subagent, and so on.
        asks: whether calls can wait for a person; False where the application un-asked all (`interrupt_on=False`).
        logger: `deep.<plugin>`.
    """

    def __init__(
        self,
        plugin: str,
        *,
        config: AgentConfig,
        config_files: tuple[Path, ...],
        options: Mapping[str, PluginOptions],
        collect: Callable[[str, str], tuple[Contribution[Any], ...]],
        on_close: Callable[[str, Callable[[], object]], None],
        create_agent: Callable[..., Agent[Any, Any]],
        backend: Callable[[DeepAgentDeps[Any]], WorkspaceBackend],
        resolve_model: Callable[[str], Model | None],
        asks: bool,
        depth: int = 0,
    ) -> None:
        self.plugin = plugin
        self.config = config
        self.config_files = config_files
        self.depth = depth
        self.asks = asks
        self.logger = logging.getLogger(f"deep.{plugin}")
        self._options = options
        self._collect = collect
        self._on_close = on_close
        self._create_agent = create_agent
        self._backend = backend
        self._resolve_model = resolve_model

    def options(self, model: type[Options]) -> Options:
        """The plugin's validated options.

        Raises:
            PluginError: `model` is not what the plugin's `deep_options` returned.
        """
        options = self._options.get(self.plugin)
        if options is None:
            return model()
        if not isinstance(options, model):
            raise PluginError(
                f"plugin {self.plugin} asked for {model.__name__}, but its deep_options returned "
                f"{type(options).__name__}",
                plugin=self.plugin,
            )
        return options

    @property
    def data_dir(self) -> Path:
        """A folder for the plugin's lasting data, made on first use."""
        from platformdirs import user_data_path

        return self._folder(user_data_path("deep"))

    @property
    def cache_dir(self) -> Path:
        """A folder for what can be made again, made on first use."""
        from platformdirs import user_cache_path

        return self._folder(user_cache_path("deep"))

    def _folder(self, base: Path) -> Path:
        folder = base / "plugins" / self.plugin
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def on_close(self, function: Callable[[], object]) -> None:
        """Run `function` when the kernel is closed; the last one registered runs first.

        Raises:
            TypeError: it is `async def`: nobody could await it, as `kernel.close()` may run without an event loop.
        """
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"context.on_close takes a plain function, and {function.__qualname__} is async def: nothing would "
                "await it; close there what can be closed without awaiting, and the rest when a run or session ends"
            )
        self._on_close(self.plugin, function)

    def collect(self, hook: str) -> tuple[Contribution[Any], ...]:
        """What was contributed to a hook: one of an earlier phase, or one that this plugin owns.

        Raises:
            PluginError: the hook is of a later phase, of another plugin, or unknown.
        """
        return self._collect(self.plugin, hook)

    def backend(self, deps: DeepAgentDeps[Any]) -> WorkspaceBackend:
        """A session's backend, made now if this agent has not worked in it yet."""
        return self._backend(deps)

    def resolve_model(self, model_id: str) -> Model:
        """The model of an id, as this agent would resolve it: by the plugins, else by Pydantic AI. At run time only.

        Raises:
            pydantic_ai.UserError: nobody knows the id, or its provider's key is not set.
        """
        from pydantic_ai.models import infer_model

        return self._resolve_model(model_id) or infer_model(model_id)

    def create_agent(self, *args: Any, **kwargs: Any) -> Agent[Any, Any]:
        """Make an agent with the same kernel and policy, one level deeper. At run time only, not in a hook."""
        return self._create_agent(*args, depth=self.depth + 1, **kwargs)
