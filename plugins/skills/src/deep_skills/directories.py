"""Loaders of skills in directories of this machine: a project's, the user's, a package's."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from .index import SkillIndex
from .roots import Root

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from deep_core import SkillMeta

    from .discovery import LocatedSkill, Scan
    from .loader_kinds import Listing
    from .problem import Problem

__all__ = ["DirectoryLoader", "directory_loader", "package_loader"]


class DirectoryLoader:
    """Skills in directories. Holds no session: it caches files.

    The code that reads skills is loaded only if a directory exists: most agents have few skills.

    Attributes:
        source: `project`, `user` or `package`.
    """

    def __init__(
        self,
        source: str,
        roots: Callable[[], Sequence[Root]],
        *,
        strict: bool = False,
        index: SkillIndex | None = None,
        trouble: Callable[[], Sequence[Problem]] = tuple,
    ) -> None:
        self.source = source
        self._roots = roots
        self._strict = strict
        self._index = index or SkillIndex()
        self._trouble = trouble

    def scan(self) -> Scan:
        """Search now, in this thread."""
        from .discovery import find_skills

        return find_skills(self._roots(), self.source, strict=self._strict, index=self._index)

    def check(self, *, strict: bool = False) -> Scan:
        """Search now, in this thread, and read every file again.

        Args:
            strict: check as the reference validator does, even if this loader does not.
        """
        from .discovery import Scan, find_skills

        found = find_skills(self._roots(), self.source, strict=strict or self._strict, index=SkillIndex())
        return Scan(found.skills, (*self._trouble(), *found.problems))

    def _is_anything_there(self) -> bool:
        return any(os.path.isdir(os.path.expanduser(root.path)) for root in self._roots())

    def is_empty(self) -> bool:
        """Whether none of the directories exists, which is fine; costs one check each."""
        try:
            return not self._is_anything_there() and not self._trouble()
        except OSError:
            return False  # maybe no working directory: `listing` fails in the same way, with an error

    async def list(self, ctx: RunContext[Any]) -> Sequence[SkillMeta]:
        """List the skills, from frontmatter alone."""
        return (await self.listing(ctx)).skills

    async def listing(self, ctx: RunContext[Any]) -> Listing:
        """List the skills and the problems of others."""
        from .loader_kinds import Listing

        # Most directories do not exist: a check costs less than a thread.
        if not self._is_anything_there():
            return Listing(problems=tuple(self._trouble()))
        scan = await to_thread.run_sync(self.scan)
        return Listing(tuple(skill.meta for skill in scan.skills), (*self._trouble(), *scan.problems))

    async def read(self, ctx: RunContext[Any], name: str) -> str:
        """Read the instructions of a skill.

        Raises:
            KeyError: no such skill.
            OSError, ValueError: it cannot be read.
        """
        return await to_thread.run_sync(self._read, name)

    def _read(self, name: str) -> str:
        from .problem import BadSkill, Problem
        from .record import body_of
        from .resources import read_resource

        skill = self._find(name)
        data = read_resource(skill.folder, os.path.relpath(skill.file, skill.folder))
        try:
            return body_of(data.decode("utf-8", errors="replace"), strict=self._strict)
        except BadSkill as error:
            raise ValueError(str(Problem(skill.file, error.line, error.reason))) from error

    async def resource(self, ctx: RunContext[Any], name: str, path: str) -> bytes:
        """Read a file of the skill. See `read_resource`; raises KeyError for an unknown skill."""
        from .resources import MOST_BYTES, read_resource

        return await to_thread.run_sync(lambda: read_resource(self._find(name).folder, path, MOST_BYTES))

    async def resources(self, ctx: RunContext[Any], name: str) -> Sequence[str]:
        """List the skill's files."""
        from .resources import list_resources

        return await to_thread.run_sync(lambda: list_resources(self._find(name).folder))

    def _find(self, name: str) -> LocatedSkill:
        for skill in self.scan().skills:
            if skill.meta.name == name:
                return skill
        raise KeyError(name)


def directory_loader(
    *paths: str | os.PathLike[str], source: str = "project", strict: bool = False, index: SkillIndex | None = None
) -> DirectoryLoader:
    """Create a loader of directories, for the hook `deep_skill_loaders`.

    Args:
        *paths: relative ones are to the working directory at the time of each search; `~` is expanded. Each is a
            directory of skills, or the folder of one.
        source: determines precedence among skills of the same name.
        strict: skip skills that the reference validator rejects.
        index: shared with other loaders and kept on disk; None for one in memory.
    """
    roots = [Root(os.fspath(path)) for path in paths]
    return DirectoryLoader(source, lambda: roots, strict=strict, index=index)


def package_loader(package: str, *, strict: bool = False, index: SkillIndex | None = None) -> DirectoryLoader:
    """Create a loader of the skills in an installed package, for the hook `deep_skill_loaders`.

    The package is found without importing it, when skills are first listed.

    Args:
        package: the dotted name of the directory, such as `acme_weather.skills`; it needs no `__init__.py`.
        strict: skip skills that the reference validator rejects.
        index: see `directory_loader`.
    """

    def locate() -> list[Path]:
        top, *below = package.split(".")
        try:
            spec = importlib.util.find_spec(top)  # of a top-level name: imports nothing
        except (ImportError, ValueError):
            spec = None
        places = [] if spec is None else spec.submodule_search_locations or []
        return [path for place in places if (path := Path(place, *below)).is_dir()]

    def trouble() -> list[Problem]:
        if locate():
            return []
        from .problem import Problem

        return [Problem(package, 0, "no such directory in an installed package (nor in a zip file); no skills", True)]

    return DirectoryLoader(
        "package", lambda: [Root(str(path)) for path in locate()], strict=strict, index=index, trouble=trouble
    )
