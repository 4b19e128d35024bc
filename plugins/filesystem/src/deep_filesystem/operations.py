"""The work of the tools. Imported at the first call, so that other agents start sooner."""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import WithJsonSchema
from pydantic_ai import RunContext
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.workspaces import (
    SupportsCommands,
    Workspace,
    WorkspaceError,
    WorkspaceOutputLimitError,
    WorkspaceTimeoutError,
)

from deep_core import DeepAgentDeps, SessionStates

from .access import Place, locate, open_source, range_reader, shown_path
from .background import Commands
from .commands import render_output, render_result
from .dialect import BadPattern, read_pattern
from .failures import tool_failures
from .gitignore import exists
from .globs import BadGlob, Glob, basename_or_path, path_first
from .leftout import left_out
from .linematch import text_of
from .locks import holding
from .options import FilesystemOptions
from .quoting import escape, quoted, unescape
from .reading import read_page
from .ripgrep import can_try, search_by_ripgrep
from .run_later import ask_before_writing
from .search import FileMatches, Matches, SearchRequest, search_by_walk
from .slot import FILES
from .stored import of_other_sessions
from .suggestions import other_case, other_spelling, suggestion
from .survey import Listing, list_below
from .walk import LeftOut, Sieve, TooMany, begin_ignoring
from .writing import edit_in_place, write_in_place

if TYPE_CHECKING:
    from pydantic_ai.models import Model

__all__ = ["Operations"]

LINE_SHOWN = 300
"""Maximum characters of a matching line in `grep`."""


class Operations:
    """The tools over `ctx.workspace`. Holds options only; each session's record is in its state.

    Change `schemas.py` with every signature.
    """

    def __init__(self, options: FilesystemOptions, sessions: SessionStates | None = None) -> None:
        self.options = options
        self._sessions = sessions or SessionStates()
        self._commands = Commands(options)

    async def ls(self, ctx: RunContext[Any], path: str = ".", offset: int = 0) -> str:
        """List a directory: directories first, then files with their size."""
        workspace = ctx.workspace
        async with tool_failures(workspace, path):
            place = await locate(workspace, path)
            try:
                found = await workspace.list_dir(place.absolute)
            except NotADirectoryError as error:
                raise ToolFailed(f"{place.shown} is a file, or a part of it is. Use read_file.") from error
            hidden = of_other_sessions(ctx.deps)
            shown = (entry for entry in found if not hidden(posixpath.join(place.real, entry.name)))
            entries = sorted(shown, key=lambda entry: (not entry.is_dir, entry.name))
        if not entries:
            return f"{_directory_name(place.shown)} is empty."
        return self._list_page(
            [
                f"{escape(entry.name)}/" if entry.is_dir else f"{escape(entry.name)} ({_size(entry.size)})"
                for entry in entries
            ],
            offset,
            "entries",
            len(entries),
        )

    async def read_file(
        self, ctx: RunContext[Any], path: str, offset: int = 0, limit: int = 2000, byte: int = 0, encoding: str = ""
    ) -> Any:
        """Read a page of a file: a text; of a picture a list with a line of text and the picture."""
        workspace = ctx.workspace
        files = self._sessions.state(ctx)[FILES]
        async with tool_failures(workspace, path):
            place = await locate(workspace, path)
            async with holding(place.lock):
                return await read_page(
                    workspace,
                    place,
                    files,
                    self.options,
                    offset=offset,
                    limit=limit,
                    byte=byte,
                    encoding=encoding,
                    takes_pictures=lambda: _takes_pictures(ctx),
                )

    async def write_file(self, ctx: RunContext[Any], path: str, content: str) -> str:
        """Create or replace a file."""
        workspace = ctx.workspace
        files = self._sessions.state(ctx)[FILES]
        async with tool_failures(workspace, path):
            place = await locate(workspace, path)
            if (meant := await other_spelling(workspace, path)) is not None:
                raise ToolFailed(f"{place.shown} does not exist. Nothing was written: did you mean {escape(meant)}?")
            await ask_before_writing(ctx, place, lambda before: content)
            async with holding(place.lock):
                return await write_in_place(workspace, place, files, content, max_bytes=self.options.max_bytes)

    async def edit_file(
        self, ctx: RunContext[Any], path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> str:
        """Replace a text in a file."""
        workspace = ctx.workspace
        files = self._sessions.state(ctx)[FILES]
        async with tool_failures(workspace, path):
            place = await locate(workspace, path)
            # An edit of text that is not there as it is may still be made: then it is what comes that counts.
            await ask_before_writing(
                ctx,
                place,
                lambda before: before.replace(old_string, new_string) if old_string in before else new_string,
            )
            async with holding(place.lock):
                return await edit_in_place(
                    workspace,
                    place,
                    files,
                    old_string,
                    new_string,
                    replace_all=replace_all,
                    max_bytes=self.options.max_bytes,
                )

    async def glob(
        self, ctx: RunContext[Any], pattern: str, path: str = ".", offset: int = 0, ignored: bool = False
    ) -> str:
        """Find files by name, or directories if the pattern ends with a slash."""
        workspace = ctx.workspace
        folders = pattern.endswith("/")
        try:
            wanted, base = _read_glob(pattern.rstrip("/"), path)
            glob = Glob(*await path_first(wanted, _below(workspace, base)))
        except BadGlob as error:
            raise ToolFailed(f"Bad pattern {error}") from error
        start = posixpath.join(base, glob.prefix) if glob.prefix else base
        async with tool_failures(workspace, start):
            place = await locate(workspace, start)
            if not (await workspace.stat(place.absolute)).is_dir:
                raise NotADirectoryError(start)
            left = LeftOut(None if ignored else await begin_ignoring(workspace, place.real))
            sieve = Sieve(left, glob, glob.prefix, glob.depth, folders)
            hidden = of_other_sessions(ctx.deps)
            most = max(offset, 0) + self.options.list_limit
            found = Listing(most, place.real, hidden)
            stopped = False
            try:
                stopped = await list_below(workspace, place.real, sieve, found, self.options.grep_seconds)
            except TooMany as error:
                if not found.total:
                    raise ToolFailed(f"{error}: search in a smaller directory.") from error
                stopped = True
            if stopped and not found.total:
                raise self._too_slow()
            root = "" if place.shown == "." else place.shown.rstrip("/") + "/"
            shown = partial(_rename, place, await workspace.working_dir())
            notes = _notes(left, "listed", stopped, shown)
        if not found.total:
            named = quoted(pattern)
            hint = f" For all directories below: **/{named}" if "/" not in pattern and "**" not in pattern else ""
            what = "directories" if folders else "files"
            hint += other_case(left, shown)
            return "\n".join([f"No {what} match {named} in {_directory_name(place.shown)}.{hint}", *notes])
        names = [root + escape(path) + "/" * folders for path in found.first()]
        page = self._list_page(names, offset, "directories" if folders else "files", found.total)
        return "\n".join([page, *notes])

    async def grep(
        self,
        ctx: RunContext[Any],
        pattern: str,
        path: str = ".",
        glob: Annotated[str | None, WithJsonSchema({"type": "string"})] = None,
        output_mode: Literal["files_with_matches", "content", "count"] = "files_with_matches",
        ignored: bool = False,
    ) -> str:
        """Search in files."""
        workspace = ctx.workspace
        try:
            dialect = read_pattern(pattern)
            wanted = basename_or_path(*await path_first(unescape(glob), _below(workspace, path))) if glob else None
        except (BadPattern, BadGlob) as error:
            raise ToolFailed(str(error)) from error
        if not pattern:
            raise ToolFailed("The pattern is empty: it would match every line. Use ls, glob or read_file.")
        async with tool_failures(workspace, path):
            place = await locate(workspace, path)
            entry = await workspace.stat(place.absolute)
            root = await workspace.working_dir()
            prefix = ""
            if wanted is not None and wanted.prefix and entry.is_dir:
                inner = await _folder(workspace, posixpath.join(place.absolute, wanted.prefix))
                if inner is None:
                    missing = posixpath.join("" if place.shown == "." else path, wanted.prefix.rstrip("/"))
                    hint = f"{quoted(missing)} does not exist.{await suggestion(workspace, missing)}"
                    return f"{_no_matches(pattern, place)} {hint}"
                place, prefix = inner, wanted.prefix
            ranged = await range_reader(workspace, place.absolute) is not None
            request = SearchRequest(
                root=place.real,
                is_file=not entry.is_dir,
                dialect=dialect,
                wanted=wanted,
                prefix=prefix,
                max_bytes=self.options.grep_bytes if ranged else min(self.options.grep_bytes, self.options.max_bytes),
                lines=self.options.grep_limit if output_mode == "content" else 0,
                files=self.options.grep_limit,
                counts=output_mode != "files_with_matches",
                left=LeftOut(await begin_ignoring(workspace, place.real) if entry.is_dir and not ignored else None),
                hidden=of_other_sessions(ctx.deps),
            )
            if request.is_file and entry.size is not None and entry.size > request.max_bytes:
                raise ToolFailed(f"{place.shown} has {entry.size:,} bytes; grep searches up to {request.max_bytes:,}.")
            async with tool_failures(workspace, place.shown):  # the directory in which the glob begins
                searched = await self._search(workspace, request)
            if request.is_file and not searched.files:
                await _searchable(workspace, place, self.options.max_bytes)
        shown = partial(_rename, place, root)
        notes = _notes(request.left, "searched", searched.partial, shown)
        if not searched.files:
            hint = " `\\|` is the character |; between alternatives write | alone." if "\\|" in pattern else ""
            if wanted is not None and entry.is_dir and not request.left.wanted:
                hint += other_case(request.left, shown)
            return "\n".join([f"{_no_matches(pattern, place)}{hint}", *notes])
        found = searched.first()
        names = [shown(matches.path) for matches in found]
        more = searched.files - len(found)
        if output_mode == "files_with_matches":
            return "\n".join([_list_text(names, more, "files"), *notes])
        if output_mode == "count":
            lines = [f"{name}: {matches.count}" for name, matches in zip(names, found, strict=True)]
            summary = f"{searched.lines} matching lines in {searched.files} files"
            return "\n".join([summary, _list_text(lines, more, "files"), *notes])
        lines = _content(names, found)[: self.options.grep_limit]
        return "\n".join([_list_text(lines, searched.lines - len(lines), "matching lines"), *notes])

    async def _search(self, workspace: Workspace, request: SearchRequest) -> Matches:
        seconds = self.options.grep_seconds
        searched = None
        try:
            if self.options.ripgrep and can_try(workspace, request):
                searched = await search_by_ripgrep(workspace, request, seconds)
            if searched is None:
                request.left.clear()
                searched = await search_by_walk(workspace, request, seconds)
        except TooMany as error:
            raise ToolFailed(f"{error}: search in a smaller directory.") from error
        if searched.partial and not searched.files:
            raise self._too_slow()
        return searched

    def _list_page(self, lines: list[str], offset: int, what: str, total: int) -> str:
        """Join a page of a list of `total` lines, of which the first are given, with the offset of the next.

        Raises:
            ToolFailed: there is no such page.
        """
        if offset < 0 or offset >= total:
            raise ToolFailed(f"There are {total} {what}: offset is from 0 to {total - 1}.")
        end = offset + self.options.list_limit
        text = _list_text(lines[offset:end], total - end, what)
        return f"{text}; next offset={end}" if end < total else text

    def _too_slow(self) -> ToolFailed:
        return ToolFailed(
            f"The search was stopped after {self.options.grep_seconds:g} s. Search in a smaller directory, or with a "
            "simpler pattern (nested repetitions such as (a+)+ may never end)."
        )

    async def execute(
        self,
        ctx: RunContext[Any],
        command: str,
        timeout: int = 120,  # noqa: ASYNC109
        background: bool = False,
    ) -> str:
        """Run a shell command; in the background, start it."""
        workspace = ctx.workspace
        if background:
            async with tool_failures(workspace, "command"):
                return await self._commands.start(ctx, self._sessions.state(ctx), command)
        if not isinstance(workspace.backend, SupportsCommands):
            raise ToolFailed("This workspace cannot run commands.")
        if timeout < 1:
            raise ToolFailed("timeout is in seconds, at least 1.")
        seconds = min(timeout, self.options.execute_seconds)
        limit = self.options.execute_chars
        async with tool_failures(workspace, "command"):
            try:
                variables = _of_folders(ctx, "command_variables")
                result = await workspace.run(command, shell=True, env=variables, timeout=seconds)  # noqa: S604
            except WorkspaceTimeoutError as error:
                output = await render_output(ctx, error.stdout, error.stderr, limit)
                raise ToolFailed(
                    f"Stopped after {seconds} s (the maximum is {self.options.execute_seconds}). "
                    f"{f'Output so far:{chr(10)}{output}' if output else 'No output so far.'}"
                ) from error
            except WorkspaceOutputLimitError as error:
                raise ToolFailed(
                    f"Stopped: more than {error.limit:,} bytes of output. Redirect it to a file and read that. Start:\n"
                    f"{await render_output(ctx, error.stdout, error.stderr, limit)}"
                ) from error
        if result.exit_code and (failed := _of_folders(ctx, "failed_commands")) is not None:
            failed.add(ctx.tool_call_id)
        return await render_result(ctx, result, limit)

    async def read_output(
        self,
        ctx: RunContext[Any],
        id: str,
        wait: int = 0,
        until: Annotated[str | None, WithJsonSchema({"type": "string"})] = None,
        tail: Annotated[int | None, WithJsonSchema({"type": "integer"})] = None,
    ) -> str:
        """Read the output of a background command."""
        async with tool_failures(ctx.workspace, id):
            return await self._commands.read(ctx, self._sessions.state(ctx), id, wait, until, tail)

    async def send_input(
        self,
        ctx: RunContext[Any],
        id: str,
        input: str,
        wait: int = 5,
        until: Annotated[str | None, WithJsonSchema({"type": "string"})] = None,
    ) -> str:
        """Type a line into a background command, and read its answer."""
        async with tool_failures(ctx.workspace, id):
            return await self._commands.send(ctx, self._sessions.state(ctx), id, input, wait, until)

    async def stop_command(self, ctx: RunContext[Any], id: str) -> str:
        """Stop a background command."""
        async with tool_failures(ctx.workspace, id):
            return await self._commands.stop(ctx, self._sessions.state(ctx), id)


def _takes_pictures(ctx: RunContext[Any]) -> bool:
    try:
        profile = cast("Model[Any]", ctx.model).profile
    except NotImplementedError:
        return True  # one of several models: Pydantic AI tells those that take none that there was a picture
    return profile.get("supports_image_input", True)


def _below(workspace: Workspace, base: str) -> Callable[[str], Awaitable[bool]]:
    """Return a function that says whether a path below `base` exists."""

    async def found(path: str) -> bool:
        try:
            return await exists(
                workspace, (await locate(workspace, posixpath.join(base, escape(path.lstrip("/"))))).absolute
            )
        except (OSError, ValueError):
            return False  # it leads outside

    return found


def _read_glob(pattern: str, path: str) -> tuple[str, str]:
    if pattern.startswith("/"):
        pattern, path = pattern.lstrip("/"), "/"
    while pattern.startswith("./"):
        pattern = pattern[2:]
    if not pattern or ".." in pattern.split("/") or "\0" in pattern:
        raise BadGlob(pattern, "give a pattern without `..`; set `path` to search elsewhere")
    return unescape(pattern), path


async def _folder(workspace: Workspace, path: str) -> Place | None:
    """Find a directory; None if it does not exist, or leads outside."""
    try:
        place = await locate(workspace, escape(path))
        return place if (await workspace.stat(place.absolute)).is_dir else None
    except (OSError, ValueError, WorkspaceError):
        return None


async def _searchable(workspace: Workspace, place: Place, limit: int) -> None:
    """Explain an empty result for a single file: grep may skip such a file."""
    _, head, _ = await open_source(workspace, place.absolute, limit)
    if text_of(head) is None:
        raise ToolFailed(f"{place.shown} is a binary file (it has NUL bytes): grep skips it. Use a command.")


def _rename(place: Place, root: str, path: str) -> str:
    """Rename a found path to begin like the search path."""
    return shown_path(place.absolute + path.removeprefix(place.real), root)


def _content(names: list[str], found: list[FileMatches]) -> list[str]:
    lines: list[str] = []
    for name, matches in zip(names, found, strict=True):
        for number, text in matches.shown:
            shown = "[line of more than 4,000 bytes]" if text is None else text
            lines.append(f"{name}:{number}: {shown[:LINE_SHOWN]}{'...' if len(shown) > LINE_SHOWN else ''}")
    return lines


def _list_text(lines: list[str], more: int, what: str) -> str:
    return "\n".join([*lines, f"... and {more} more {what}"] if more > 0 else lines)


def _notes(left: LeftOut, done: str, stopped: bool, shown: Callable[[str], str]) -> list[str]:
    """Say in one line what a search left out, and in one before it whether it met its limit."""
    notes = ["[Partial: the search met its limit. Search in a smaller directory for the rest.]"] if stopped else []
    said = left_out(left, done, shown)
    return [*notes, said] if said else notes


def _no_matches(pattern: str, place: Place) -> str:
    return f"No matches for '{quoted(pattern)}' in {_directory_name(place.shown)}."


def _directory_name(directory: str) -> str:
    return "the working directory" if directory == "." else directory


def _size(size: int | None) -> str:
    return "size unknown" if size is None else f"{size} bytes"


def _of_folders(ctx: RunContext[Any], slot: str) -> Any:
    """Return a slot of deep-folders: variables of commands, or calls whose command failed. None without it."""
    return ctx.deps.state.get(slot) if isinstance(cast("object", ctx.deps), DeepAgentDeps) else None
