"""Write earlier calls and results as text of a dialect, the same text each time, so that prompt caches hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from deep_universe import InvalidCall, ToolCall, ToolResult
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

if TYPE_CHECKING:
    from deep_universe import TextDriver

__all__ = ["History", "bounded", "invalid_calls", "mark_invalid"]

EPOCH = datetime.fromtimestamp(0, UTC)
TOLD = 20
"""The most calls written wrongly that the model is told of one by one."""
MARK = "deep_prompted_tools"
"""The key of a response's metadata that holds calls written wrongly beside others that ran."""


class History:
    """Rewrites messages for a model without tool calls.

    A conversation repeats its messages with every request, so what was written of a message is kept as long as the
    message lives, and no longer.

    Args:
        driver: the dialect.
    """

    def __init__(self, driver: TextDriver) -> None:
        self._driver = driver
        self._written: dict[int, tuple[ref[ModelMessage], ModelMessage]] = {}

    def rewrite(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """Return messages with every call and result as text. Messages without any stay the same objects."""
        out: list[ModelMessage] = []
        wrong: Sequence[InvalidCall] = ()
        for message in messages:
            known = None if wrong else self._written.get(id(message))
            if known is not None and known[0]() is message:
                out.append(known[1])
            else:
                out.append(self._write(message, wrong))
                if out[-1] is not message and not wrong:
                    self._keep(message, out[-1])
            wrong = invalid_calls(message) if isinstance(message, ModelResponse) else ()
        return out

    def _write(self, message: ModelMessage, wrong: Sequence[InvalidCall]) -> ModelMessage:
        if isinstance(message, ModelResponse):
            return _response(message, invalid_calls(message), self._driver)
        if wrong or any(isinstance(part, ToolReturnPart) for part in message.parts):
            return replace(message, parts=_request_parts(message, wrong, self._driver))
        return message

    def _keep(self, message: ModelMessage, written: ModelMessage) -> None:
        known, key = self._written, id(message)

        def forget(dead: ref[ModelMessage]) -> None:
            # Another message may have its id by now.
            if key in known and known[key][0] is dead:
                del known[key]

        known[key] = ref(message, forget), written


def _response(response: ModelResponse, wrong: Sequence[InvalidCall], driver: TextDriver) -> ModelResponse:
    if not wrong and not any(isinstance(part, ToolCallPart) for part in response.parts):
        return response
    out: list[ModelResponsePart] = []
    texts: list[str] = []
    for kind, group in groupby(response.parts, _kind):
        if kind == "call":
            calls = [cast("ToolCallPart", part) for part in group]
            texts.append(driver.encode_calls([ToolCall(c.tool_call_id, c.tool_name, _arguments(c)) for c in calls]))
        elif kind == "text":
            texts += [cast("TextPart", part).content for part in group]
        else:
            _append_text(out, texts)
            out += group
    _append_text(out, [*texts, *(call.raw for call in wrong if call.raw)])
    return replace(response, parts=out)


def _kind(part: ModelResponsePart) -> str:
    return "call" if isinstance(part, ToolCallPart) else "text" if isinstance(part, TextPart) else "other"


def _append_text(parts: list[ModelResponsePart], texts: list[str]) -> None:
    if texts:
        parts.append(TextPart("\n".join(text.strip("\n") for text in texts)))
        texts.clear()


def _request_parts(request: ModelRequest, wrong: Sequence[InvalidCall], driver: TextDriver) -> list[ModelRequestPart]:
    out: list[ModelRequestPart] = []
    failures = [
        ToolResult(call.id, error=call.problem, meta={"tool": call.name or "unknown", "error_code": call.code})
        for call in wrong
    ]
    for is_return, group in groupby(request.parts, lambda part: isinstance(part, ToolReturnPart)):
        if not is_return:
            for part in group:
                _append(out, part)
            continue
        returns = [cast("ToolReturnPart", part) for part in group]
        text = driver.encode_results([*map(_result, returns), *failures])
        failures = []
        files: list[UserContent] = [file for part in returns for file in part.files]
        _append(out, UserPromptPart([text, *files] if files else text, timestamp=returns[0].timestamp))
    if failures:
        out.insert(0, UserPromptPart(driver.encode_results(failures), timestamp=request.timestamp or EPOCH))
    return out


def bounded(invalid: Sequence[InvalidCall]) -> Sequence[InvalidCall]:
    """Return the first calls, and one that counts the others: a broken reply may hold thousands."""
    if len(invalid) <= TOLD:
        return invalid
    return [*invalid[:TOLD], InvalidCall("", "", "", f"{len(invalid) - TOLD} more calls are written wrongly")]


def mark_invalid(response: ModelResponse, invalid: Sequence[InvalidCall]) -> ModelResponse:
    """Return a response that remembers calls written wrongly, so that the next request tells the model."""
    facts = [{"id": call.id, "name": call.name, "raw": call.raw, "problem": call.problem} for call in bounded(invalid)]
    return replace(response, metadata={**(response.metadata or {}), MARK: {"invalid": facts}})


def invalid_calls(response: ModelResponse) -> Sequence[InvalidCall]:
    """Return the calls that a response remembers as written wrongly. Metadata from elsewhere counts for nothing."""
    if not response.metadata or MARK not in response.metadata:
        return ()
    found: object = response.metadata[MARK]
    facts: object = cast("dict[str, object]", found).get("invalid") if isinstance(found, dict) else None
    out: list[InvalidCall] = []
    for each in cast("list[object]", facts) if isinstance(facts, list) else []:
        if isinstance(each, dict):
            entry = cast("dict[str, object]", each)
            out.append(InvalidCall(*(str(entry.get(key, "")) for key in ("id", "name", "raw", "problem"))))
    return out


def _arguments(part: ToolCallPart) -> Mapping[str, Any]:
    if not isinstance(part.args, str):
        return part.args or {}
    try:
        found = json.loads(part.args or "{}")
    except (ValueError, RecursionError):  # RecursionError: thousands of brackets
        found = None
    # A model with tool calls may have sent what is no object; it reads its own text again.
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {"arguments": part.args}


def _result(part: ToolReturnPart) -> ToolResult:
    meta: dict[str, Any] = {"tool": part.tool_name}
    if part.outcome != "success":
        return ToolResult(part.tool_call_id, error=part.model_response_str(wrap_if_error=False), meta=meta)
    if isinstance(part.content, str):
        return ToolResult(part.tool_call_id, part.content, meta=meta)
    files = {id(file) for file in part.files}
    data = [item for item in part.content_items(mode="jsonable") if id(item) not in files]
    alone = len(data) == 1 and (bool(files) or not isinstance(part.content, list))
    return ToolResult(part.tool_call_id, (data[0] if alone else data) if data else "", meta=meta)


def _append(parts: list[ModelRequestPart], part: ModelRequestPart) -> None:
    """Append a part; two prompts in a row become one, because many chat templates refuse two user messages in a row."""
    last = parts[-1] if parts else None
    if type(part) is UserPromptPart and type(last) is UserPromptPart:
        parts[-1] = replace(last, content=_joined(last.content, part.content))
    else:
        parts.append(part)


def _joined(first: str | Sequence[UserContent], second: str | Sequence[UserContent]) -> str | list[UserContent]:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    both = [[content] if isinstance(content, str) else [*content] for content in (first, second)]
    return [*both[0], *both[1]]
