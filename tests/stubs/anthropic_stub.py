"""A stub of the Anthropic Messages API.

As a process: `python -m tests.stubs.anthropic_stub --script FILE.json --port-file PORT`, or the same by path.
"""

from __future__ import annotations

if __name__ == "__main__" and not __package__:
    # Started by path: the package is found from this file, then started as a module.
    import runpy
    import sys
    from pathlib import Path

    sys.path[0] = str(Path(__file__).resolve().parents[2])
    runpy.run_module("tests.stubs.anthropic_stub", run_name="__main__", alter_sys=True)
    raise SystemExit

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from .script import Call, Finish, Message, RequestView, ScriptError, Turn, Usage, pieces, tokens
from .server import Event, StubServer, serve
from .tool_schemas import anthropic_problem

# The API reference's patterns for tool names and for the ids of tool calls.
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
# More cache breakpoints than this in one request are refused.
_MAX_BREAKPOINTS = 4
_STOP_REASONS: dict[Finish, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_ERROR_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class AnthropicStub(StubServer):
    """Anthropic's Messages API, played from a script."""

    path = "/v1/messages"
    prefix = ""

    @property
    def env(self) -> dict[str, str]:
        """`ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY` and `NO_PROXY`."""
        return {"ANTHROPIC_BASE_URL": self.base_url, "ANTHROPIC_API_KEY": "x", "NO_PROXY": "127.0.0.1"}

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Anthropic's error JSON."""
        kind = _ERROR_KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_stub"}

    def authorized(self, headers: Mapping[str, str]) -> bool:
        """Wants `x-api-key`, or a bearer token."""
        return bool(headers.get("x-api-key")) or headers.get("authorization", "").startswith("Bearer ")

    def refusal(self, body: Mapping[str, Any]) -> str | None:
        """Wants `max_tokens`, unique tool names, a result for each call in the very next message, no empty text."""
        if not isinstance(body.get("max_tokens"), int):
            return "max_tokens: Field required"
        names = [tool["name"] for tool in body.get("tools", [])]
        for index, name in enumerate(names):
            if not _TOOL_NAME.fullmatch(name):
                return f"tools.{index}.name: String should match pattern '{_TOOL_NAME.pattern}'"
            if name in names[:index]:
                return f"tools: Tool names must be unique ({name!r})"
        for index, tool in enumerate(body.get("tools", [])):
            # Tools that Anthropic runs have a type and no schema.
            if tool.get("type", "custom") == "custom" and (
                problem := anthropic_problem(index, tool.get("input_schema"))
            ):
                return problem
        if (count := _breakpoints(body)) > _MAX_BREAKPOINTS:
            return f"A maximum of {_MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {count}."
        return _broken_pairs(body["messages"])

    def view(self, body: Mapping[str, Any]) -> RequestView:
        """Tool results, which Anthropic wraps in user messages, become messages of their own."""
        messages: list[Message] = []
        for message in body["messages"]:
            messages.extend(_messages(message))
        return RequestView(
            messages=messages,
            tools=[tool["name"] for tool in body.get("tools", [])],
            system="\n\n".join(block["text"] for block in _blocks(body.get("system", []))),
            model=body["model"],
            stream=bool(body.get("stream")),
            body=body,
        )

    def complete(self, turn: Turn, body: Mapping[str, Any], prompt_chars: int) -> dict[str, Any]:
        """A `message`."""
        content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
        content += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": _arguments(call)} for call in turn.calls
        ]
        return {
            **self._head(body),
            "content": content,
            "stop_reason": _STOP_REASONS[turn.finish_reason],
            "usage": _usage(turn, prompt_chars),
        }

    def stream(self, turn: Turn, body: Mapping[str, Any], prompt_chars: int) -> Iterable[Event]:
        """`message_start`, a start, deltas and a stop for each block, `message_delta`, `message_stop`."""
        usage = _usage(turn, prompt_chars)

        def event(kind: str, **data: Any) -> Event:
            return Event({"type": kind, **data}, kind)

        yield event("message_start", message={**self._head(body), "usage": {**usage, "output_tokens": 1}})
        yield event("ping")
        index = 0
        if turn.text:
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            for piece in pieces(turn.text):
                yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": piece})
            yield event("content_block_stop", index=index)
            index += 1
        for call in turn.calls:
            block: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            yield event("content_block_start", index=index, content_block=block)
            for piece in ["", *pieces(call.json)]:
                delta = {"type": "input_json_delta", "partial_json": piece}
                yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
            index += 1
        stop = {"stop_reason": _STOP_REASONS[turn.finish_reason], "stop_sequence": None}
        yield event("message_delta", delta=stop, usage=usage)
        yield event("message_stop")

    def _head(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "id": f"msg_stub{len(self.player.views)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }


def _blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _breakpoints(body: Mapping[str, Any]) -> int:
    places: list[Mapping[str, Any]] = [body, *body.get("tools", []), *_blocks(body.get("system", []))]
    for message in body["messages"]:
        places += _blocks(message["content"])
    return sum("cache_control" in place for place in places)


def _broken_pairs(messages: list[dict[str, Any]]) -> str | None:
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        blocks = _blocks(message["content"])
        if not blocks:
            return f"messages.{index}: all messages must have non-empty content"
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            return f"messages.{index}: text content blocks must contain non-whitespace text"
        if message["role"] == "system":  # models that take system text in mid-conversation
            continue
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if strange := [call for call in results if call not in open_calls]:
            return (
                f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(strange)}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if missing := [call for call in open_calls if call not in results]:
            return _unanswered(index - 1, missing)
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for call in open_calls:
            if not _CALL_ID.fullmatch(call):
                return f"messages.{index}: tool_use.id: String should match pattern '{_CALL_ID.pattern}'"
    return _unanswered(len(messages) - 1, open_calls) if open_calls else None


def _unanswered(index: int, calls: list[str]) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(calls)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _messages(message: Mapping[str, Any]) -> Iterable[Message]:
    texts: list[str] = []
    calls: list[Call] = []
    for block in _blocks(message["content"]):
        if block["type"] == "tool_result":
            text = "".join(part.get("text", f"[{part['type']}]") for part in _blocks(block.get("content", [])))
            yield Message("tool", text, call_id=block["tool_use_id"])
        elif block["type"] == "tool_use":
            calls.append(Call(block["name"], json.dumps(block["input"], ensure_ascii=False), block["id"]))
        else:
            texts.append(block.get("text", f"[{block['type']}]"))
    if texts or calls:
        yield Message(message["role"], "".join(texts), tuple(calls))


def _arguments(call: Call) -> dict[str, Any]:
    try:
        arguments = call.arguments
    except ValueError as error:
        raise ScriptError(
            f"call {call.name!r}: without a stream, Anthropic's arguments are an object: {error}"
        ) from error
    if not isinstance(arguments, dict):
        raise ScriptError(f"call {call.name!r}: Anthropic's arguments are an object, not {call.json}")
    return cast("dict[str, Any]", arguments)


def _usage(turn: Turn, prompt_chars: int) -> dict[str, Any]:
    usage = turn.usage or Usage(tokens(prompt_chars), tokens(turn.chars))
    # Anthropic counts cached tokens beside its input_tokens, not among them.
    return {
        "input_tokens": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }


if __name__ == "__main__":
    raise SystemExit(serve(AnthropicStub))
