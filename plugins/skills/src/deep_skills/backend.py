"""A loader of skills in the session's workspace: in a container, in memory, on another machine."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deep_core import SkillMeta, SupportsRangeRead

from .loader_kinds import Listing
from .problem import BadSkill, Problem
from .reading import BLOCK, HEAD_LIMIT, TooLong
from .record import Record, body_of, read_record
from .resources import MOST_BYTES, MOST_LISTED, EscapesSkill, clean_path
from .split import head_in

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.workspaces import FileEntry, Workspace

__all__ = ["BackendLoader", "backend_loader"]

MOST_SKILLS = 1_000
"""Maximum folders in one search: each costs the backend two calls."""


class BackendLoader:
    """Skills in `ctx.workspace`. Nothing is cached between searches: every session has its own workspace.

    Attributes:
        source: `project` by default.
    """

    def __init__(self, path: str, *, source: str = "project", strict: bool = False) -> None:
        self.source = source
        self._path = path
        self._strict = strict

    async def list(self, ctx: RunContext[Any]) -> Sequence[SkillMeta]:
        """List the skills, from frontmatter alone if the backend can read part of a file."""
        return (await self.listing(ctx)).skills

    async def listing(self, ctx: RunContext[Any]) -> Listing:
        """List the skills and the problems of others."""
        workspace = ctx.workspace
        skills: dict[str, SkillMeta] = {}
        problems: list[Problem] = []
        try:
            entries = sorted(await workspace.list_dir(self._path), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return Listing()
        folders = [entry for entry in entries if entry.is_dir and not entry.name.startswith(".")]
        if len(folders) > MOST_SKILLS:
            problems.append(Problem(self._path, 0, f"more than {MOST_SKILLS} folders; the others were not read", True))
        for entry in folders[:MOST_SKILLS]:
            file = posixpath.join(entry.path, "SKILL.md")
            record = await self._record(workspace, entry, file, problems)
            problems += [Problem(file, *remark) for remark in record.remarks]
            if not record.name:
                continue
            if record.name in skills:
                text = f"the name {record.name!r} is that of {skills[record.name].path}"
                problems.append(Problem(file, 0, text, True))
                continue
            skills[record.name] = SkillMeta(
                name=record.name,
                description=record.description,
                source=self.source,
                path=entry.path,
                license=record.license,
                compatibility=record.compatibility,
                metadata=record.metadata,
                allowed_tools=record.allowed_tools,
            )
        return Listing(tuple(skills.values()), tuple(problems))

    async def _record(self, workspace: Workspace, entry: FileEntry, file: str, problems: list[Problem]) -> Record:
        try:
            await _check_inside(workspace, entry.path, file)
            return read_record(await self._head(workspace, file), entry.name, strict=self._strict)
        except (FileNotFoundError, NotADirectoryError):
            return Record()
        except (OSError, ValueError, RuntimeError) as error:  # WorkspaceError is a RuntimeError
            problems.append(Problem(file, 0, f"cannot be read: {error}", True))
            return Record()

    async def _head(self, workspace: Workspace, file: str) -> bytes:
        status = await workspace.stat(file)
        if status.is_dir:
            raise IsADirectoryError(f"{file} is a folder")
        backend = workspace.backend
        if not isinstance(backend, SupportsRangeRead):
            if status.size is not None and status.size > MOST_BYTES:
                raise TooLong(f"{status.size:,} bytes, and this backend reads whole files only")
            return await workspace.read_bytes(file)
        path, data = await workspace.resolve(file), b""
        while True:
            block = await backend.read_range(path, len(data), BLOCK)
            data += block
            outcome, end = head_in(data, strict=self._strict, eof=not block)
            if outcome != "more":
                return data[:end] if outcome == "whole" else data
            if len(data) >= HEAD_LIMIT:
                raise TooLong(f"no end of the frontmatter in the first {HEAD_LIMIT:,} bytes")

    async def read(self, ctx: RunContext[Any], name: str) -> str:
        """Read the instructions of a skill. Raises KeyError for an unknown one."""
        data = await self._bytes(ctx, name, "SKILL.md")
        try:
            return body_of(data.decode("utf-8", errors="replace"), strict=self._strict)
        except BadSkill as error:
            raise ValueError(f"SKILL.md of {name}: {error}") from error

    async def resource(self, ctx: RunContext[Any], name: str, path: str) -> bytes:
        """Read a file of the skill. Raises KeyError for an unknown skill, EscapesSkill for a path that leads out."""
        return await self._bytes(ctx, name, clean_path(path))

    async def _bytes(self, ctx: RunContext[Any], name: str, path: str) -> bytes:
        folder = await self._folder(ctx, name)
        file = posixpath.join(folder, path)
        await _check_inside(ctx.workspace, folder, file)
        status = await ctx.workspace.stat(file)
        if status.is_dir:
            raise IsADirectoryError(f"{path} is a folder")
        if status.size is not None and status.size > MOST_BYTES:
            raise TooLong(f"{path}: {status.size:,} bytes, the limit is {MOST_BYTES:,}")
        return await ctx.workspace.read_bytes(file)

    async def resources(self, ctx: RunContext[Any], name: str) -> Sequence[str]:
        """List the skill's files, two folders deep."""
        folder = await self._folder(ctx, name)
        out: list[str] = []
        waiting = [("", 0)]
        while waiting and len(out) < MOST_LISTED:
            prefix, depth = waiting.pop(0)
            for entry in await ctx.workspace.list_dir(posixpath.join(folder, prefix)):
                path = f"{prefix}{entry.name}"
                if entry.is_dir and depth < 2 and not entry.name.startswith("."):
                    waiting.append((f"{path}/", depth + 1))
                elif not entry.is_dir and path != "SKILL.md":
                    out.append(path)
        return sorted(out)[:MOST_LISTED]

    async def _folder(self, ctx: RunContext[Any], name: str) -> str:
        for meta in await self.list(ctx):
            if meta.name == name:
                return meta.path
        raise KeyError(name)


async def _check_inside(workspace: Workspace, folder: str, file: str) -> None:
    """Raise if a link leads from the file out of the skill's folder."""
    real, root = await workspace.realpath(file), await workspace.realpath(folder)
    if not real.startswith(root.rstrip("/") + "/"):
        raise EscapesSkill(f"{file} leads out of the skill's folder")


def backend_loader(path: str = ".deep/skills", *, source: str = "project", strict: bool = False) -> BackendLoader:
    """Create a loader of the skills in the session's workspace, for the hook `deep_skill_loaders`.

    Args:
        path: the directory in the workspace; relative ones are to its working directory.
        source: determines precedence among skills of the same name.
        strict: skip skills that the reference validator rejects.
    """
    return BackendLoader(path, source=source, strict=strict)
