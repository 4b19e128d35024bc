"""Google's Gemini API, on AI Studio and Vertex AI."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..calls import InvalidCall, ToolCall, ToolResult
from ..driver import FALLBACK, NATIVE, NONE
from .encoding import result_data, result_text
from .reading import invalid, read_call
from .responses import Fields, as_fields, objects
from .schemas import transformed
from .wire import WireDriver

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["GeminiDriver"]

# `dispatch` makes such an id where Gemini gave none, and Gemini must not get an id that it does not know.
_GENERATED = re.compile("call_[0-9a-f]{32}")
_UNREADABLE = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL")


class GeminiDriver(WireDriver):
    """`generateContent`: `functionCall` parts of the first candidate's content, with `args` as an object.

    Fingerprint: `candidates` with contents, a content whose role is `model`, or a part with a named `functionCall`.
    Reads a response, the list of a stream's chunks, a content, its list of parts or one part; names as in JSON
    (`functionCall`) or as in Python (`function_call`). Calls often have no ids: results belong to them by position.
    """

    name: ClassVar[str] = "gemini"
    protocol: ClassVar[str] = "google"
    list_field: ClassVar[str] = "parts"

    def score(self, fields: Fields) -> int:
        """Return 100 for responses, contents and function calls, 25 for parts of text alone."""
        parts = objects(fields.get("parts"))
        if any(_is_response(reply) for reply in (fields, *parts)) or _has_call(fields) or any(map(_has_call, parts)):
            return NATIVE
        if fields.get("role") == "model" and "parts" in fields:
            return NATIVE
        texts = bool(parts) and all("type" not in part and isinstance(part.get("text"), str) for part in parts)
        return FALLBACK if texts and "role" not in fields else NONE

    def read(self, fields: Fields) -> list[ToolCall | InvalidCall]:
        """Return the calls of the first candidate, in order."""
        if _is_response(fields):
            return _calls_of_response(fields)
        if "parts" not in fields:
            return _calls([fields])
        chunks = [part for part in objects(fields["parts"]) if _is_response(part)]
        if chunks:
            return [call for chunk in chunks for call in _calls_of_response(chunk)]
        return _calls(objects(fields["parts"]))

    def render(self, tools: Sequence[ToolDefinition]) -> list[dict[str, Any]]:
        """Return `tools` of a request: one object that declares all functions, or none.

        Raises:
            ToolSchemaError: a schema is not well-formed.
        """
        return [{"functionDeclarations": [_declaration(tool) for tool in tools]}] if tools else []

    def encode_calls(self, calls: Sequence[ToolCall]) -> dict[str, Any]:
        """Return the model's content."""
        parts = [{"functionCall": {**_id(call.id), "name": call.name, "args": dict(call.arguments)}} for call in calls]
        return {"role": "model", "parts": parts}

    def encode_results(self, results: Sequence[ToolResult]) -> dict[str, Any]:
        """Return the user's content that holds all results, in the order of the calls."""
        return {"role": "user", "parts": [{"functionResponse": _response(result)} for result in results]}


def _declaration(tool: ToolDefinition) -> dict[str, Any]:
    from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer

    declaration: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description or "",
        "parametersJsonSchema": transformed(tool, GoogleJsonSchemaTransformer),
    }
    if tool.include_return_schema and tool.return_schema:
        declaration["responseJsonSchema"] = tool.return_schema
    return declaration


def _response(result: ToolResult) -> dict[str, Any]:
    # Without one of these two keys, Gemini takes a tool's own "error" field for a failure.
    key = "output" if result.is_success else "error"
    call_id = "" if _GENERATED.fullmatch(result.id) else result.id
    data = result_data(result)
    if '"$ref"' in json.dumps(data):  # Gemini takes a field of this name for a reference, and refuses the request
        data = result_text(result)
    return {**_id(call_id), "name": str(result.meta.get("tool", "")), "response": {key: data}}


def _id(call_id: str) -> dict[str, str]:
    return {"id": call_id} if call_id else {}


def _function_call(part: Fields) -> Fields | None:
    return as_fields(part.get("functionCall")) or as_fields(part.get("function_call"))


def _has_call(part: Fields) -> bool:
    call = _function_call(part)
    return call is not None and "name" in call and "arguments" not in call  # OpenAI's old `function_call` has them


def _candidate(response: Fields) -> Fields:
    """Return the first candidate: the others are alternatives."""
    candidates = objects(response.get("candidates"))
    return candidates[0] if candidates else {}


def _is_response(fields: Fields) -> bool:
    candidate = _candidate(fields)
    reason = candidate.get("finishReason") or candidate.get("finish_reason")
    if as_fields(candidate.get("content")) is not None or isinstance(reason, str):
        return True
    return as_fields(fields.get("promptFeedback") or fields.get("prompt_feedback")) is not None


def _calls_of_response(response: Fields) -> list[ToolCall | InvalidCall]:
    candidate = _candidate(response)
    calls = _calls(objects((as_fields(candidate.get("content")) or {}).get("parts")))
    if not calls and (candidate.get("finishReason") or candidate.get("finish_reason")) in _UNREADABLE:
        wrote = candidate.get("finishMessage") or candidate.get("finish_message")
        return [invalid("", "", wrote, "The call could not be read. Call one of the tools by its name, with JSON.")]
    return calls


def _calls(parts: Sequence[Fields]) -> list[ToolCall | InvalidCall]:
    found = [call for part in parts if (call := _function_call(part)) is not None]
    return [
        read_call(
            call.get("id"),
            call.get("name"),
            call.get("args"),
            complete=not (call.get("willContinue") or call.get("will_continue")),
        )
        for call in found
    ]
