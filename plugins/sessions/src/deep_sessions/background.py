"""The background commands of a session, as interfaces show and stop them. A plugin has them: deep-filesystem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deep_core import create_default_deps
from deep_core.plugin_api import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import PluginKernel

__all__ = ["BackgroundCommands", "RunningCommand"]

USAGE = "/commands, /commands stop NAME, or /commands keep NAME"


@dataclass(frozen=True)
class RunningCommand:
    """A background command.

    Attributes:
        name: its name, such as `c1`; of another session, behind that session's id and a dot.
        command: what runs.
        is_running: whether it runs.
        is_kept: whether it goes on when the session ends.
        is_own: whether it is of this session, and not one of its workspace that was kept.
        exit_code: its exit code; None while it runs, and if it is unknown.
        log: the path of its output in the workspace.
    """

    name: str
    command: str
    is_running: bool
    is_kept: bool
    is_own: bool
    exit_code: int | None
    log: str

    @property
    def status(self) -> str:
        """Whether it runs, in words."""
        if self.is_running:
            return "running, kept" if self.is_kept else "running"
        return "ended" if self.exit_code is None else f"exit code {self.exit_code}"


class BackgroundCommands:
    """Those of one session.

    Args:
        kernel: the plugins.
        session_id: the session.
        backend: its workspace; None has no commands.
        alone: whether to leave out what other sessions of the workspace kept: they may be other people's.
    """

    def __init__(
        self, kernel: PluginKernel, session_id: str, backend: WorkspaceBackend | None, *, alone: bool = False
    ) -> None:
        self._alone = alone
        self._methods: Mapping[str, Callable[..., Any]] = kernel.session_methods if backend is not None else {}
        self._deps = create_default_deps(backend, kernel=kernel)
        self._deps.session_id = session_id

    async def list(self) -> Sequence[RunningCommand]:
        """Return them in order, those that ended too, and those of the workspace that others kept."""
        return [self._shown(each) for each in await self._found()]

    async def stop(self, name: str) -> RunningCommand:
        """Stop one. Raises LookupError: there is none of this name."""
        found = await self._named(name)
        return self._shown(await self._methods["stop_command"](self._deps, found.name, found.session))

    async def keep(self, name: str) -> RunningCommand:
        """Let one go on when the session ends. Raises LookupError: there is none of this name."""
        found = await self._named(name)
        return self._shown(await self._methods["keep_command"](self._deps, found.name, found.session))

    async def end(self) -> None:
        """Stop those that are not kept, because the session ends."""
        if "end_session_commands" in self._methods:
            await self._methods["end_session_commands"](self._deps)

    async def obey(self, words: str) -> Sequence[str]:
        """Do what a person types behind `/commands`; return lines to show.

        Raises:
            ValueError: it is nothing that can be done; the message says so to the person.
        """
        verb, _, name = words.strip().partition(" ")
        name = name.strip()
        if not verb:
            lines = [f"{each.name}  {each.status}  {each.command}" for each in await self.list()]
            return lines or ["no background commands"]
        if verb not in ("stop", "keep") or not name:
            raise ValueError(f"type {USAGE}")
        try:
            done = await (self.stop(name) if verb == "stop" else self.keep(name))
        except LookupError as error:
            raise ValueError(str(error.args[0])) from error
        if verb == "keep":
            return [f"{done.name} goes on when this conversation ends: /commands stop {done.name} stops it"]
        return [f"{done.name} was stopped" if done.exit_code != 0 else f"{done.name} ended"]

    async def _named(self, name: str) -> Any:
        found = await self._found()
        for each in found:
            if self._name(each) == name:
                return each
        names = [self._name(each) for each in found]
        raise LookupError(f"no background command {name}.{suggest(name, names)}")

    async def _found(self) -> Sequence[Any]:
        method = self._methods.get("background_commands")
        found: Sequence[Any] = await method(self._deps) if method is not None else []
        return [each for each in found if not self._alone or each.session == self._deps.session_id]

    def _name(self, each: Any) -> str:
        return each.name if each.session == self._deps.session_id else f"{each.session}.{each.name}"

    def _shown(self, each: Any) -> RunningCommand:
        return RunningCommand(
            self._name(each),
            each.command,
            each.is_running,
            each.is_kept,
            each.session == self._deps.session_id,
            each.exit_code,
            each.log,
        )
