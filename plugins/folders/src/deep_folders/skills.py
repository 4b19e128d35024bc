"""The skills of folders, as loaders for deep-skills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deep_skills import DirectoryLoader
    from pydantic_ai import RunContext

    from deep_core import SkillMeta

    from .folder import Folder

__all__ = ["FolderLoader"]


class FolderLoader:
    """The skills of one folder: `${CLAUDE_PLUGIN_ROOT}` in their instructions is the folder.

    Attributes:
        source: `package`: the project's and the user's own skills come first.
    """

    source = "package"

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._made: DirectoryLoader | None = None

    @property
    def _loader(self) -> DirectoryLoader:
        if self._made is None:
            from deep_skills import directory_loader

            strict = self._folder.format == "agent-plugin"  # whose rules: a skill that is not valid is left out
            self._made = directory_loader(*map(str, self._folder.skills), source=self.source, strict=strict)
        return self._made

    def check(self, *, strict: bool) -> Any:
        """Report every problem of the skills, for `deep skills check`."""
        return self._loader.check(strict=strict)

    async def list(self, ctx: RunContext[Any]) -> Sequence[SkillMeta]:
        """List the skills."""
        return await self._loader.list(ctx)

    async def listing(self, ctx: RunContext[Any]) -> Any:
        """List the skills and the problems of others."""
        return await self._loader.listing(ctx)

    async def read(self, ctx: RunContext[Any], name: str) -> str:
        """Read the instructions of a skill. Raises as `DirectoryLoader.read` does."""
        text = await self._loader.read(ctx, name)
        if self._folder.format == "agent-plugin":
            return text
        from .claude_plugin import fill_paths

        return fill_paths(text, self._folder.root, self._folder.data)

    async def resource(self, ctx: RunContext[Any], name: str, path: str) -> bytes:
        """Read a file of a skill. Raises as `DirectoryLoader.resource` does."""
        return await self._loader.resource(ctx, name, path)

    async def resources(self, ctx: RunContext[Any], name: str) -> Sequence[str]:
        """List a skill's files."""
        return await self._loader.resources(ctx, name)
