"""The skills of folders, as loaders for deep-skills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deep_skills import DirectoryLoader
    from pydantic_ai import RunContext

    from deep_core import SkillMeta

    from .folder import Folder

__all__ = ["FolderLoader"]


class FolderLoader:
    """The skills of one folder: `${CLAUDE_PLUGIN_ROOT}` in them, and in what they allow, is the folder.

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
        return (await self.listing(ctx)).skills

    async def listing(self, ctx: RunContext[Any]) -> Any:
        """List the skills and the problems of others."""
        listing = await self._loader.listing(ctx)
        return replace(listing, skills=tuple(self._filled(meta) for meta in listing.skills))

    async def read(self, ctx: RunContext[Any], name: str) -> str:
        """Read the instructions of a skill. Raises as `DirectoryLoader.read` does."""
        return self._fill(await self._loader.read(ctx, name))

    def _filled(self, meta: SkillMeta) -> SkillMeta:
        return replace(meta, allowed_tools=tuple(self._fill(entry) for entry in meta.allowed_tools))

    def _fill(self, text: str) -> str:
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
