"""A stub of the OpenAI Chat Completions API.

As a process: `python -m tests.stubs.openai_stub --script FILE.json --port-file PORT`, or the same by path.
"""

from __future__ import annotations

if __name__ == "__main__" and not __package__:
    # Started by path: the package is found from this file, then started as a module.
    import runpy
    import sys
    from pathlib import Path

    sys.path[0] = str(Path(__file__).resolve().parents[2])
    runpy.run_module("tests.stubs.openai_stub", run_name="__main__", alter_sys=True)
    raise SystemExit

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from .script import Call, Message, RequestView, Turn, Usage, pieces, tokens
from .server import Event, StubServer, serve
from .tool_schemas import openai_problem

# The API reference's limit for function names.
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# Fixed, so that two runs of one script answer alike: 2024-01-01 00:00 UTC.
_CREATED = 1704067200
_ERROR_KINDS: dict[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", None),
    429: ("requests", "rate_limit_exceeded"),
}


class OpenAIStub(StubServer):
    """OpenAI's Chat Completions API, played from a script."""

    path = "/v1/chat/completions"
    prefix = "/v1"

    @property
    def env(self) -> dict[str, str]:
        """`OPENAI_BASE_URL`, `OPENAI_API_KEY` and `NO_PROXY`."""
        return {"OPENAI_BASE_URL": self.base_url, "OPENAI_API_KEY": "x", "NO_PROXY": "127.0.0.1"}

    def error(self, status: int, message: str) -> dict[str, Any]:
        """OpenAI's error JSON."""
        kind, code = _ERROR_KINDS.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def authorized(self, headers: Mapping[str, str]) -> bool:
        """Wants `Authorization: Bearer …`."""
        return headers.get("authorization", "").startswith("Bearer ")

    def refusal(self, body: Mapping[str, Any]) -> str | None:
        """Wants each tool call answered, in the messages right after it, by a tool message, and nothing else there."""
        names = [tool["function"]["name"] for tool in body.get("tools", [])]
        for index, name in enumerate(names):
            if not _TOOL_NAME.fullmatch(name):
                return f"Invalid 'tools[{index}].function.name': {name!r} does not match {_TOOL_NAME.pattern}"
            if name in names[:index]:
                return f"Invalid 'tools[{index}].function.name': {name!r} is there twice"
        for tool in body.get("tools", []):
            function: dict[str, Any] = tool["function"]
            # A function without parameters takes none.
            if "parameters" in function and (
                problem := openai_problem(function["name"], function["parameters"], strict=bool(function.get("strict")))
            ):
                return problem
        open_calls: list[str] = []
        for index, message in enumerate(body["messages"]):
            if message["role"] == "tool":
                if message.get("tool_call_id") not in open_calls:
                    return (
                        f"Invalid 'messages[{index}]': messages with role 'tool' must be a response to a preceding "
                        f"message with 'tool_calls' (tool_call_id {message.get('tool_call_id')!r})"
                    )
                open_calls.remove(message["tool_call_id"])
                continue
            if open_calls:
                return _unanswered(index, open_calls)
            open_calls = [call["id"] for call in _calls(message)]
        return _unanswered(len(body["messages"]), open_calls) if open_calls else None

    def view(self, body: Mapping[str, Any]) -> RequestView:
        """Leading system (or developer) messages become `system`."""
        messages = [_message(message) for message in body["messages"]]
        head = next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))
        return RequestView(
            messages=messages[head:],
            tools=[tool["function"]["name"] for tool in body.get("tools", [])],
            system="\n\n".join(message.text for message in messages[:head]),
            model=body["model"],
            stream=bool(body.get("stream")),
            body=body,
        )

    def complete(self, turn: Turn, body: Mapping[str, Any], prompt_chars: int) -> dict[str, Any]:
        """A `chat.completion`."""
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
        if turn.calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.json}}
                for call in turn.calls
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": turn.finish_reason}
        return {**self._head(body, "chat.completion"), "choices": [choice], "usage": _usage(turn, prompt_chars)}

    def stream(self, turn: Turn, body: Mapping[str, Any], prompt_chars: int) -> Iterable[Event]:
        """`chat.completion.chunk`s and `[DONE]`; usage in a last chunk without choices, if it was asked for."""
        head = self._head(body, "chat.completion.chunk")

        def chunk(delta: dict[str, Any], finish: str | None = None) -> Event:
            return Event({**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})

        yield chunk({"role": "assistant", "content": "" if turn.text else None})
        for piece in pieces(turn.text):
            yield chunk({"content": piece})
        for index, call in enumerate(turn.calls):
            function = {"name": call.name, "arguments": ""}
            yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
            for piece in pieces(call.json):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, turn.finish_reason)
        options: dict[str, Any] = body.get("stream_options") or {}
        if options.get("include_usage"):
            yield Event({**head, "choices": [], "usage": _usage(turn, prompt_chars)})
        yield Event("[DONE]")

    def _head(self, body: Mapping[str, Any], kind: str) -> dict[str, Any]:
        number = len(self.player.views)
        return {"id": f"chatcmpl-stub{number}", "object": kind, "created": _CREATED, "model": body["model"]}


def _unanswered(index: int, calls: Sequence[str]) -> str:
    return (
        f"Invalid 'messages[{index}]': an assistant message with 'tool_calls' must be followed by tool messages "
        f"responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
        f"{', '.join(calls)}"
    )


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    return message.get("tool_calls") or []


def _message(message: Mapping[str, Any]) -> Message:
    role = "system" if message["role"] == "developer" else message["role"]
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "".join(part.get("text", f"[{part['type']}]") for part in cast("list[dict[str, Any]]", content))
    calls = tuple(Call(call["function"]["name"], call["function"]["arguments"], call["id"]) for call in _calls(message))
    return Message(role, content, calls, message.get("tool_call_id"))


def _usage(turn: Turn, prompt_chars: int) -> dict[str, Any]:
    usage = turn.usage or Usage(tokens(prompt_chars), tokens(turn.chars))
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


if __name__ == "__main__":
    raise SystemExit(serve(OpenAIStub))
