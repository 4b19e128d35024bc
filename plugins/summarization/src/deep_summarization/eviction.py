"""Large tool results: store them in a file of the workspace, keep head, tail and path in the conversation."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic import BaseModel
from pydantic_ai import ToolDefinition
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelRetry, ToolFailed, ToolFailedError, ToolRetryError
from pydantic_ai.messages import (
    BinaryContent,
    FileUrl,
    TextContent,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UploadedFile,
)
from pydantic_ai.tools import RunContext
from pydantic_core import PydanticSerializationError, to_json

from deep_core import tool_facts

from .options import StoredLimits

__all__ = ["StoreLargeResults"]

WHOLE = "whole_result"
"""The key in a tool's metadata that excludes its results from storing."""
HEAD_SHARE = 0.6
"""The share of the beginning in the shown part of a result."""
POINTER_CHARS = 420
"""Room for the note: a path of at most 125 characters, a tool's name, two numbers and the sentence."""


class StoreLargeResults(AbstractCapability[Any]):
    """Store tool results that are too large for the conversation as `.deep/sessions/<session>/<time>-<call>-….txt`.

    Works for tools of all plugins and of the application, for text, structured results (as JSON) and
    messages of failed calls. Files and images are unchanged. If the session has no workspace that can
    store the text, the model gets `limit` characters and a note that the rest is lost.

    Args:
        limit: maximum characters of a result that is not stored.
        shown_chars: characters that the model sees of a stored result, with the note.
        except_tools: tools whose results are never stored, by original or final name.
        stored_limits: how much a session may store, and how long; None means the defaults.
        id: the capability's id, for agents that deep-agent-core did not create.
        logger: logs losses.
    """

    shares_context = True
    """It emits no events, so it needs no context of its own."""

    def __init__(
        self,
        limit: int = 20_000,
        *,
        shown_chars: int = 2_000,
        except_tools: Sequence[str] = ("read_file", "load_skill"),
        stored_limits: StoredLimits | None = None,
        id: str | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        if limit < shown_chars or shown_chars < POINTER_CHARS + 40:
            least = POINTER_CHARS + 40
            raise ValueError(f"{least} <= shown_chars <= limit, got shown_chars={shown_chars}, limit={limit}")
        self.id = id
        self.description = None
        self.defer_loading = False
        self._limit = limit
        self._shown = shown_chars
        self._except = frozenset(except_tools)
        self._stored_limits = stored_limits
        self._logger = logger or logging.getLogger("deep.summarization")

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Return the tool's result, or its replacement."""
        if self._keeps(tool_def):
            return await handler(args)
        try:
            result = await handler(args)
        except (ToolFailed, ModelRetry) as error:
            if len(error.message) <= self._limit:
                raise
            raise type(error)(await self._stored(ctx, call, error.message)) from error
        except (ToolFailedError, ToolRetryError) as error:
            # The two above, after Pydantic AI counted the attempt.
            part = error.tool_failed if isinstance(error, ToolFailedError) else error.tool_retry
            if not isinstance(part.content, str) or len(part.content) <= self._limit:
                raise
            short = replace(part, content=await self._stored(ctx, call, part.content))
            again = ToolRetryError(short) if isinstance(error, ToolRetryError) else None
            raise again or ToolFailedError(cast("ToolReturnPart", short)) from error.__cause__
        return await self._fitted(ctx, call, result)

    def _keeps(self, tool_def: ToolDefinition) -> bool:
        return bool((tool_def.metadata or {}).get(WHOLE)) or not self._except.isdisjoint(tool_facts(tool_def).names)

    async def _fitted(
        self, ctx: RunContext[Any], call: ToolCallPart, result: Any, holders: set[int] | None = None
    ) -> Any:
        """Return the result with what is too large in it replaced. `holders`: ids of what holds a file."""
        if isinstance(result, ToolReturn):
            whole = cast("ToolReturn[Any]", result)
            value = await self._fitted(ctx, call, whole.return_value)
            content = await self._fitted(ctx, call, whole.content)
            if value is whole.return_value and content is whole.content:
                return whole
            return replace(whole, return_value=value, content=content)
        if isinstance(result, str):
            return result if len(result) <= self._limit else await self._stored(ctx, call, result)
        if isinstance(result, TextContent):
            if len(result.content) <= self._limit:
                return result
            return replace(result, content=await self._stored(ctx, call, result.content))
        if result is None or _is_file(result) or isinstance(result, bool | int | float | bytes):
            return result
        if holders is None:
            _holds_file(result, holders := set())
        if id(result) in holders:
            return await self._around_files(ctx, call, result, holders)
        text = _as_json(result)
        if text is None or len(text) <= self._limit:
            return result
        return await self._stored(ctx, call, _as_json(result, indent=1) or text)

    async def _around_files(self, ctx: RunContext[Any], call: ToolCallPart, result: Any, holders: set[int]) -> Any:
        """Shorten a list or mapping with files: files stay, each other item is shortened separately."""
        if isinstance(result, Mapping):
            entries = cast("Mapping[Any, Any]", result)
            values = {key: await self._fitted(ctx, call, value, holders) for key, value in entries.items()}
            return entries if all(values[key] is value for key, value in entries.items()) else values
        items = cast("Sequence[Any]", result)
        fitted = [await self._fitted(ctx, call, item, holders) for item in items]
        return items if all(a is b for a, b in zip(items, fitted, strict=True)) else fitted

    async def _stored(self, ctx: RunContext[Any], call: ToolCallPart, text: str) -> str:
        from .stored_files import stored_files  # most sessions never need it

        lines = text.count("\n") + (not text.endswith("\n"))
        size = f"{len(text):,} characters in {lines:,} line{'s' * (lines != 1)}"
        try:
            path = await stored_files(ctx, self._stored_limits).store(ctx.workspace, call.tool_call_id, _encoded(text))
        except Exception as error:  # noqa: BLE001 - a backend may raise anything; the model and the log get it
            self._logger.warning(
                "the result of %s (%s) could not be stored, so its middle is lost: %s", call.tool_name, size, error
            )
            note = f"[{size}; the middle is lost: this session's workspace cannot store it. Ask for less.]"
            return _ends(text, self._limit - POINTER_CHARS, note)
        how = _reader(ctx)
        note = f"[{size}, all in {path}{f'; read what you need with {how}' if how else ''}.]"
        return _ends(text, self._shown - POINTER_CHARS, note)


def _ends(text: str, most: int, note: str) -> str:
    head = int(most * HEAD_SHARE)
    tail = most - head
    left = len(text) - most
    return f"{note}\n{text[:head]}\n[… {left:,} characters omitted …]\n{text[len(text) - tail :]}"


def _reader(ctx: RunContext[Any]) -> str | None:
    """The final name of the tool that reads files, if the agent has one."""
    tools = ctx.tool_manager.tools if ctx.tool_manager is not None else None
    for name, tool in (tools or {}).items():
        if tool_facts(tool.tool_def).original == "read_file":
            return name
    return None


def _is_file(value: object) -> bool:
    return isinstance(value, BinaryContent | FileUrl | UploadedFile)


def _holds_file(value: object, holders: set[int]) -> bool:
    """Whether a value is or holds a file; add the ids of what holds one to `holders`. Looks at each value once."""
    if _is_file(value):
        return True
    items: Iterable[Any] = ()
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).values()
    elif isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
    held = [item for item in items if _holds_file(item, holders)]
    if held:
        holders.add(id(cast("object", value)))
    return bool(held)


def _as_json(value: Any, indent: int | None = None) -> str | None:
    """Format the value as the model would read it; None if it is not valid JSON, which Pydantic AI reports."""
    try:
        if isinstance(value, BaseModel):
            return value.model_dump_json(indent=indent)
        return to_json(value, indent=indent).decode()
    except (PydanticSerializationError, ValueError, RecursionError):
        return None


def _encoded(text: str) -> bytes:
    """Encode the text: UTF-8, or the original bytes of undecodable ones (a command's output may have some)."""
    for errors in ("strict", "surrogateescape"):
        try:
            return text.encode("utf-8", errors)
        except UnicodeEncodeError:
            continue
    return text.encode("utf-8", "backslashreplace")
