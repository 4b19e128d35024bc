"""Upload a file: first to the workspace, then to the session; a failure leaves nothing in either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
import anyio.to_thread

from .errors import UploadError, UploadLimitError
from .kinds import judge
from .measure import Measured, Meter
from .names import safe_name
from .place import FreeName, Place, fold, workspace_of
from .record import UploadedFile
from .section import size_text
from .session import backend_of, enter, limits_of
from .slot import IN_FLIGHT, UPLOADS
from .sources import PIECE, Data, Source

if TYPE_CHECKING:
    from pydantic_ai import Agent
    from pydantic_ai.workspaces import Workspace

    from deep_core import DeepAgentDeps

    from .options import UploadsOptions

__all__ = ["run_with_files", "upload_file"]

Output = TypeVar("Output")
UPLOAD_DIR = "/uploads"
CLEAN_UP_SECONDS = 30
"""Seconds for a backend to remove a failed write, while a cancellation waits."""


async def upload_file(
    deps: DeepAgentDeps[Any],
    name: str,
    data: Data,
    *,
    upload_dir: str = UPLOAD_DIR,
    agent: Agent[Any, Any] | None = None,
) -> UploadedFile:
    """Put a file into the session's workspace; the model sees it listed at its next request.

    The bytes are stored unchanged. If the name is taken it becomes `name-2.csv`: nothing is overwritten. Files and
    streams pass in pieces of 1 MiB if the backend streams (`SupportsStreamWrite`); else
    uploads above the option `whole_bytes` are rejected.

    Args:
        deps: the session.
        name: the user's name of the file; it is made safe (`deep_uploads.names.safe_name`).
        data: bytes; a `pathlib.Path`, which is read in worker threads; or an async iterable of bytes, which is
            consumed, even by an upload that fails.
        upload_dir: a directory of the workspace. A leading slash means its working directory, in every backend;
            an absolute path below that, or one at which a composite backend has a mount, is used unchanged.
        agent: the session's agent: its backend is used if `deps.backend` is None, and its options. Without it
            the options are the configuration's.

    Returns:
        The upload's record, as in `deps.uploads`; `.path` is its path for file tools.

    Raises:
        UploadLimitError: it exceeds the limit of an option.
        UploadError: the session has no backend, the backend failed, or the agent or the session's kernel has no
            plugin `uploads`.
        ConfigError: the configuration of the plugin is wrong.
        TypeError: the name or the data is of another type.
        Exception: any error of the stream, unchanged; `OSError` if a `Path` cannot be read.
    """
    options = enter(agent, deps) if agent is not None else limits_of(deps)
    return await _Upload(deps, safe_name(name), Source(data), options).run(upload_dir)


async def run_with_files(
    agent: Agent[Any, Output],
    query: str,
    deps: DeepAgentDeps[Any],
    files: Iterable[tuple[str, Data]] | None = None,
    *,
    upload_dir: str = UPLOAD_DIR,
    **run: Any,
) -> Output:
    """Upload files, then run the agent on a query.

    Args:
        agent: from `create_deep_agent`.
        query: the user's prompt.
        deps: the session; if its backend is None, it gets the agent's.
        files: names and contents, uploaded in order: all of them or, if one fails, none.
        upload_dir: as in `upload_file`.
        **run: arguments of `agent.run`: `message_history`, `usage_limits`, ….

    Returns:
        The run's output.

    Raises:
        UploadError, TypeError, Exception: as `upload_file`; or an error of the run, and then the uploads stay.
        TypeError: `files` has an item that is not a pair; nothing is uploaded then.
    """
    options = enter(agent, deps)
    uploads: list[UploadedFile] = []
    try:
        for item in files or ():
            name, data = _pair(item)
            uploads.append(await _Upload(deps, safe_name(name), Source(data), options).run(upload_dir))
    except BaseException as error:
        await _take_back(deps, uploads, error)
        raise
    result = await agent.run(query, deps=deps, **run)
    return result.output


def _pair(item: object) -> tuple[str, Data]:
    if not isinstance(item, tuple | list) or len(cast("list[Any]", item)) != 2:
        raise TypeError(
            f"files is a list of names and contents, not of {item!r:.80}. Pass files=[('a.csv', b'…')]; for a "
            "dictionary: files=contents.items()"
        )
    name, data = cast("list[Any]", item)
    return name, data


async def _take_back(deps: DeepAgentDeps[Any], uploads: Iterable[UploadedFile], error: BaseException) -> None:
    # The session first, without an await, so that no cancellation comes between.
    for upload in uploads:
        deps.state[UPLOADS].pop(upload.path, None)
    files = workspace_of(backend_of(deps))
    for upload in uploads:
        await _remove(files, upload.path, error)


async def _remove(files: Workspace, path: str, error: BaseException) -> None:
    """Remove a file despite a cancellation; if that fails, add it to `error` as a note."""
    try:
        with anyio.fail_after(CLEAN_UP_SECONDS, shield=True):
            if await files.exists(path):
                await files.remove(path)
    except Exception as failure:  # noqa: BLE001 - the caller gets `error`, the first one
        error.add_note(f"and the partial file {path} could not be removed: {failure!r}")


class _Upload:
    """One upload."""

    def __init__(self, deps: DeepAgentDeps[Any], name: str, source: Source, options: UploadsOptions) -> None:
        self._deps = deps
        self._name = name
        self._source = source
        self._options = options
        self._flight = deps.state[IN_FLIGHT]
        self._meter = Meter()
        self._counted_size = 0

    async def run(self, upload_dir: str) -> UploadedFile:
        backend = backend_of(self._deps)
        async with self._counting():
            size = await self._source.size()
            try:
                place = await Place.at(backend, upload_dir)
                self._check(size or 0, place)
                used_paths = {fold(path) for path in self._deps.state[UPLOADS].copy()}
                async with FreeName(place, self._name, used_paths) as free:
                    await self._write(place, free)
                    # No await from here to the slot: a cancellation finds both done, or neither.
                    return self._record(place, free.path, self._measured)
            except UploadError:
                raise
            except Exception as error:
                if error is self._source.error:
                    raise
                why = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
                raise UploadError(f"{self._name}: not uploaded, the backend failed: {why}") from error

    # -- limits --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _counting(self) -> AsyncGenerator[None, None]:
        """Count the upload in progress against the session's limits."""
        flight, most = self._flight, self._options.max_files
        with flight.lock:
            if len(self._deps.state[UPLOADS]) + flight.files >= most:
                raise UploadLimitError(
                    f"{self._name}: this session has the maximum of {most} uploads; remove one: del deps.uploads[path]",
                    option="max_files",
                    allowed=most,
                )
            flight.files += 1
        try:
            yield
        finally:
            with flight.lock:
                flight.files -= 1
                flight.size -= self._counted_size
                self._counted_size = 0

    def _check(self, size: int, place: Place) -> None:
        """Reject an upload that is too large, by its size or by the bytes so far."""
        options, flight = self._options, self._flight
        if size > options.max_file_bytes:
            self._refuse(size, "a file may have", "max_file_bytes", options.max_file_bytes)
        if place.stream is None and size > options.whole_bytes:
            self._refuse(
                size,
                f"{type(place.files.backend).__name__} does not stream to disk, and what it takes whole may have",
                "whole_bytes",
                options.whole_bytes,
            )
        with flight.lock:
            stored_size = sum(upload.size for upload in self._deps.state[UPLOADS].values())
            others = flight.size - self._counted_size
            if stored_size + others + size > options.max_total_bytes:
                why = f"{size_text(stored_size + others)} are used, and a session may have"
                self._refuse(size, why, "max_total_bytes", options.max_total_bytes)
            flight.size += size - self._counted_size
            self._counted_size = size

    def _refuse(self, size: int, why: str, option: str, allowed: int) -> None:
        raise UploadLimitError(
            f"{self._name}: {size_text(size)} or more is too large: {why} {size_text(allowed)}",
            option=option,
            allowed=allowed,
        )

    # -- writing -------------------------------------------------------------------------------------------------------

    async def _pieces(self, place: Place) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._source.pieces()) as pieces:
            async for piece in pieces:
                self._check(max(self._meter.size + len(piece), self._counted_size), place)
                self._meter.feed(piece)
                yield piece

    async def _write(self, place: Place, free: FreeName) -> None:
        async with aclosing(self._pieces(place)) as pieces:
            first = await anext(pieces, b"")
            if place.stream is None or len(first) < PIECE:
                parts = [first, *[piece async for piece in pieces]]
                await self._finish()
                await self._write_whole(place, free, parts[0] if len(parts) == 1 else b"".join(parts))
            else:
                await self._write_stream(place, free, first, pieces)

    async def _write_whole(self, place: Place, free: FreeName, data: bytes) -> None:
        if place.guarded is not None:
            while not await place.guarded.write_if(free.path, data, expected=None):
                await free.retry()
            return
        writing = asyncio.ensure_future(place.files.write_bytes(free.path, data))
        try:
            await asyncio.shield(writing)
        except BaseException as error:
            # The file is new, and this backend may leave part of it after a failure. Its thread
            # continues after a cancellation, and would write after the removal.
            with anyio.move_on_after(CLEAN_UP_SECONDS, shield=True):
                await asyncio.wait([writing])
            writing.cancel()
            await _remove(place.files, free.path, error)
            raise

    async def _write_stream(
        self, place: Place, free: FreeName, first: bytes, rest: AsyncGenerator[bytes, None]
    ) -> None:
        path = free.path
        assert place.stream is not None  # noqa: S101

        async def chunks() -> AsyncGenerator[bytes, None]:
            yield first
            async for piece in rest:
                yield piece
            await self._finish()
            # Check at the end: a stream cannot be guarded too, and it may have taken minutes.
            if await place.files.exists(path):
                raise UploadError(
                    f"{self._name}: another program wrote {place.relative_path(path)} meanwhile, and it is unchanged; "
                    "upload again under another name"
                )

        async with aclosing(chunks()) as stream:
            await place.stream.write_stream(path, stream)

    async def _finish(self) -> None:
        finish = self._meter.finish
        self._measured = await anyio.to_thread.run_sync(finish) if self._meter.guesses else finish()

    def _record(self, place: Place, path: str, measured: Measured) -> UploadedFile:
        name, relative = PurePosixPath(path).name, place.relative_path(path)
        verdict = judge(name, measured.head, text=measured.encoding is not None, size=measured.size)
        upload = UploadedFile(
            name=name,
            path=relative,
            size=measured.size,
            line_count=measured.line_count,
            mime_type=verdict.mime_type,
            encoding=measured.encoding,
            sha256=measured.sha256,
            uploaded_at=datetime.now(UTC),
            mismatch=verdict.mismatch,
        )
        with self._flight.lock:
            self._deps.state[UPLOADS][relative] = upload
            self._flight.size -= self._counted_size
            self._counted_size = 0
        return upload
