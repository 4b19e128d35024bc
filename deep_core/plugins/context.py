"""The context of a plugin in a kernel: its options, folders and logger, and functions to run at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import PluginError
from ..names import folder_name

if TYPE_CHECKING:
    from ..agent.run.session import DeepAgentDeps
    from .kernel import PluginKernel
    from .options import PluginOptions

Options = TypeVar("Options", bound="PluginOptions")


class PluginContext:
    """A plugin's options, folders and logger in a kernel. `kernel.context("weather")` returns one for a command or job.

    Attributes:
        plugin: the plugin's name.
        kernel: the kernel that loaded the plugin.
        logger: `deep.<plugin>`.
    """

    def __init__(self, plugin: str, kernel: PluginKernel, options: Callable[[], PluginOptions | None]) -> None:
        self.plugin = plugin
        self.logger = logging.getLogger(f"deep.{plugin}")
        self.kernel = kernel
        self._options = options

    def options(self, model: type[Options]) -> Options:
        """Return the plugin's validated options.

        Raises:
            PluginError: `model` is not what the plugin's `deep_options` returned.
        """
        options = self._options()
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
        """The folder for the plugin's lasting data, created on first use. `Kernel(data_dir=…)` moves it."""
        return self._folder(self.kernel.data_dir)

    @property
    def cache_dir(self) -> Path:
        """The folder for data that the plugin can create again, created on first use."""
        from platformdirs import user_cache_path

        return self._folder(user_cache_path("deep"))

    def session_dir(self, session: DeepAgentDeps[Any] | str) -> Path:
        """Return a session's folder in `data_dir`, created on first use. No two session ids share a folder.

        Args:
            session: the session, or its id, which may be any text.
        """
        session_id = session if isinstance(session, str) else session.session_id
        return self._folder(self.kernel.data_dir, "sessions", folder_name(session_id))

    def _folder(self, base: Path, *below: str) -> Path:
        folder = base.joinpath("plugins", self.plugin, *below)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def on_close(self, function: Callable[[], object]) -> None:
        """Run a plain or async function when the kernel closes. The last one registered runs first."""
        self.kernel.on_close(self.plugin, function)
