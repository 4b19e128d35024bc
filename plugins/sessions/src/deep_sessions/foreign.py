"""Read conversations that other agents of the terminal stored: Claude Code's and Codex's, a file of JSON Lines each.

Neither format is specified by its maker. What is read here is what their public descriptions agree on: of Claude Code,
lines of type `user` and `assistant` with a message of the Anthropic API, in a chain by `parentUuid`; of Codex, lines of
type `session_meta` and `response_item` with an item of the Responses API, or, in early versions, those items alone.
A line of any other kind is passed by, and so is one that is damaged. What comes out is JSON, as
`ModelMessagesTypeAdapter` reads it: it loads no Pydantic AI.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from .conversations import new_conversation_id
from .door.text import clean_name
from .plain import as_text

__all__ = ["Foreign", "conversation_files", "read_foreign"]

Json = dict[str, Any]
Maker = Literal["claude-code", "codex"]
NO_RESULT = "No result: the conversation was left before there was one."
CLAUDE_ASIDE = ("<command-name>", "<command-message>", "<local-command", "<bash-", "Caveat: The messages below")
"""What the texts begin with that Claude Code writes for the user: of its own commands, which the model need not see."""
CODEX_ASIDE = ("<environment_context>", "<user_instructions>", "<turn_aborted>", "# AGENTS.md instructions", "<INSTR")
"""What the user's messages begin with that Codex writes by itself."""


@dataclass
class Foreign:
    """A conversation of another program.

    Attributes:
        path: its file.
        maker: whose it is.
        id: its id there.
        folder: where it took place; "" if the file does not say.
        messages: the conversation, as JSON; empty if the file has none.
        damaged: how many lines are no JSON.
    """

    path: Path
    maker: Maker
    id: str = ""
    folder: str = ""
    messages: list[Json] = field(default_factory=list[Json])
    damaged: int = 0

    @property
    def session_id(self) -> str:
        """The id that it has as a session: the same each time, in the folder where it took place."""
        digits = hashlib.sha256(f"{self.maker}:{self.id or self.path.stem}".encode("utf-8", "replace")).hexdigest()[:8]
        return new_conversation_id(self.folder or str(self.path.parent), digits)


def conversation_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of conversations: those named, and the JSON Lines below the folders that are named."""
    for path in paths:
        yield from sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]


def read_foreign(path: Path) -> Foreign | None:
    """Read a file; None if it is of neither program.

    Raises:
        OSError: the file cannot be read.
    """
    lines, damaged = list[Mapping[str, Any]](), 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in file:
            try:
                line: Any = json.loads(text, parse_constant=str) if text.strip() else None
            except (ValueError, RecursionError):
                damaged += 1
                continue
            if isinstance(line, dict):
                lines.append(cast("dict[str, Any]", line))
    if any(line.get("type") == "session_meta" or _is_item(line) for line in lines[:20]):
        found = _codex(path, lines)
    elif any(line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict) for line in lines):
        found = _claude(path, lines)
    else:
        return None
    found.damaged = damaged
    return found


class _Conversation:
    """Messages as they are put together: calls and results in pairs, neighbours of one side in one message."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self._open: dict[str, str] = {}
        """The calls without a result: id -> tool."""

    def said(self, content: Sequence[str | Json], at: str) -> None:
        """The user said something."""
        if content:
            self._close()
            only = content[0] if len(content) == 1 and isinstance(content[0], str) else [*content]
            self._request({"part_kind": "user-prompt", "content": only, "timestamp": at}, at)

    def answered(self, text: str, at: str, model: str) -> None:
        """The model said something."""
        if text.strip():
            self._response({"part_kind": "text", "content": text}, at, model)

    def called(self, call_id: str, tool: str, args: Any, at: str, model: str) -> None:
        """The model called a tool. A second call with one id would have no result of its own."""
        if call_id and call_id not in self._open:
            try:
                given = as_text(args if isinstance(args, str | dict) else {})
            except RecursionError:
                given = {}
            name = clean_name(tool or "unknown")
            call = {"part_kind": "tool-call", "tool_name": name, "args": given, "tool_call_id": call_id}
            self._response(call, at, model)
            self._open[call_id] = name

    def returned(self, call_id: str, content: str, at: str, *, failed: bool = False) -> None:
        """A tool returned. A result without its call is of a part that the file does not have."""
        name = self._open.pop(call_id, None)
        if name is not None:
            part: Json = {"part_kind": "tool-return", "tool_name": name, "content": content, "tool_call_id": call_id}
            self._request({**part, "timestamp": at, "outcome": "failed" if failed else "success"}, at)

    def end(self) -> list[Json]:
        """Close what is open; return the conversation, which begins with the user."""
        self._close()
        first = next((n for n, message in enumerate(self.messages) if message["kind"] == "request"), None)
        return [] if first is None else self.messages[first:]

    def _response(self, part: Json, at: str, model: str) -> None:
        if self._open and not (self.messages and self.messages[-1]["kind"] == "response"):
            self._close()
        self._add(part, {"kind": "response", "timestamp": at, **({"model_name": model} if model else {})})

    def _request(self, part: Json, at: str) -> None:
        self._add(part, {"kind": "request", "timestamp": at})

    def _close(self) -> None:
        for call_id in [*self._open]:
            self.returned(call_id, NO_RESULT, _time(None), failed=True)

    def _add(self, part: Json, message: Json) -> None:
        if not self.messages or self.messages[-1]["kind"] != message["kind"]:
            self.messages.append({**message, "parts": []})
        self.messages[-1]["parts"].append(part)


# -- Claude Code -------------------------------------------------------------------------------------------------------


def _claude(path: Path, lines: Sequence[Mapping[str, Any]]) -> Foreign:
    # A subagent's file has its caller's session: its own id is its name.
    own = all(line.get("isSidechain") for line in lines if line.get("type") in ("user", "assistant"))
    found, conversation = Foreign(path, "claude-code"), _Conversation()
    for line in _chain([line for line in lines if own or not line.get("isSidechain")]):
        found.folder = found.folder or _text(line.get("cwd"))
        found.id = found.id or ("" if own else _text(line.get("sessionId")))
        message: Any = line.get("message")
        if line.get("type") not in ("user", "assistant") or line.get("isMeta") or not isinstance(message, dict):
            continue
        _claude_message(conversation, cast("dict[str, Any]", message), line)
    found.messages = conversation.end()
    return found


def _chain(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the lines that lead to the last message: others were taken back. Without ids, all, as they stand."""
    by_id = {_text(line.get("uuid")): line for line in lines if line.get("uuid")}
    last = next((line for line in reversed(lines) if line.get("type") in ("user", "assistant")), None)
    if last is None or not last.get("uuid"):
        return [*lines]
    places = {id(line): place for place, line in enumerate(lines)}
    chain: list[Mapping[str, Any]] = []
    seen = set[int]()
    line: Mapping[str, Any] | None = last
    while line is not None and id(line) not in seen:
        seen.add(id(line))
        chain.append(line)
        above = _text(line.get("parentUuid") or line.get("logicalParentUuid"))
        if above and above not in by_id:  # the file lacks it: what stands before is what came before
            chain += [*reversed(lines[: places[id(line)]])]
            break
        line = by_id.get(above)
    return chain[::-1]


def _claude_message(conversation: _Conversation, message: Mapping[str, Any], line: Mapping[str, Any]) -> None:
    at, content = _time(line.get("timestamp")), message.get("content")
    blocks = _blocks(content)
    if line.get("type") == "assistant":
        model = _text(message.get("model"))
        for block in blocks:
            if block.get("type") == "text":
                conversation.answered(_text(block.get("text")), at, model)
            elif block.get("type") == "tool_use":
                args = block.get("input")
                conversation.called(_text(block.get("id")), _text(block.get("name")), args, at, model)
        return
    said: list[str | Json] = []
    for block in blocks:
        match block.get("type"):
            case "tool_result":
                result = _joined(block.get("content"))
                conversation.returned(_text(block.get("tool_use_id")), result, at, failed=block.get("is_error") is True)
            case "text" if (text := _text(block.get("text"))).strip() and not text.lstrip().startswith(CLAUDE_ASIDE):
                said.append(text)
            case "image":
                said += _picture(cast("Any", block.get("source") or {}))
            case _:
                pass
    conversation.said(said, at)


# -- Codex -------------------------------------------------------------------------------------------------------------

CALLS = {"function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action"}
RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
ITEMS = {"message", "reasoning", *CALLS, *RESULTS}


def _is_item(line: Mapping[str, Any]) -> bool:
    """Whether a line is an item of the Responses API itself, as early versions wrote them."""
    return line.get("type") in ITEMS and "payload" not in line and not isinstance(line.get("message"), dict)


def _codex(path: Path, lines: Sequence[Mapping[str, Any]]) -> Foreign:
    found, conversation, model = Foreign(path, "codex"), _Conversation(), ""
    if lines and "type" not in lines[0] and isinstance(lines[0].get("id"), str):
        found.id = lines[0]["id"]  # the first line of an early version
    for line in lines:
        payload: Any = line if _is_item(line) else line.get("payload")
        if not isinstance(payload, dict):
            continue
        item, at = cast("dict[str, Any]", payload), _time(line.get("timestamp"))
        if line.get("type") in ("session_meta", "turn_context"):
            found.id = found.id or _text(item.get("id"))
            found.folder = found.folder or _text(item.get("cwd"))
            model = _text(item.get("model")) or model
        elif line.get("type") == "response_item" or item is line:
            _codex_item(conversation, item, at, model)
            found.folder = found.folder or _folder_in(item)
    found.messages = conversation.end()
    return found


def _codex_item(conversation: _Conversation, item: Mapping[str, Any], at: datetime, model: str) -> None:
    kind, call_id = _text(item.get("type")), _text(item.get("call_id") or item.get("id"))
    if kind == "message" and item.get("role") == "assistant":
        conversation.answered(_joined(item.get("content")), at, model)
    elif kind == "message" and item.get("role") == "user":
        said: list[str | Json] = []
        for block in _blocks(item.get("content")):
            if (text := _text(block.get("text"))).strip() and not text.lstrip().startswith(CODEX_ASIDE):
                said.append(text)
            elif block.get("type") == "input_image":
                said += _data_url(_text(block.get("image_url")))
        conversation.said(said, at)
    elif kind in CALLS:
        args: Any = item.get(CALLS[kind])
        args = {"input": args} if kind == "custom_tool_call" else args
        tool = _text(item.get("name")) or ("shell" if kind == "local_shell_call" else "")
        conversation.called(call_id, tool, _object(args), at, model)
    elif kind in RESULTS:
        text, failed = _codex_output(item.get("output"))
        conversation.returned(call_id, text, at, failed=failed)


def _codex_output(output: Any) -> tuple[str, bool]:
    """Return the text of a result, and whether the command failed: a text, or JSON with `output` and `metadata`."""
    if isinstance(output, str):
        try:
            inner: Any = json.loads(output)
        except (ValueError, RecursionError):
            return output, False
        output = cast("Any", inner) if isinstance(inner, dict) and "output" in inner else output
    if isinstance(output, dict):
        about = cast("dict[str, Any]", output)
        metadata: Any = about.get("metadata")
        code = cast("dict[str, Any]", metadata).get("exit_code") if isinstance(metadata, dict) else None
        return _joined(about.get("output", about.get("content"))), code not in (None, 0) or about.get(
            "success"
        ) is False
    return _joined(output), False


def _folder_in(item: Mapping[str, Any]) -> str:
    """Return the folder that an early version names in a text for the model; "" for none."""
    _, begin, rest = _joined(item.get("content")).partition("<cwd>") if item.get("type") == "message" else ("", "", "")
    return rest.partition("</cwd>")[0].strip() if begin else ""


# -- values ------------------------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _blocks(content: object) -> list[Mapping[str, Any]]:
    """Return the blocks of a content: a text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    found = cast("list[Any]", content) if isinstance(content, list) else []
    return [cast("dict[str, Any]", block) for block in found if isinstance(block, dict)]


def _joined(content: object) -> str:
    """Return the texts of a content; a picture is named."""
    texts = [
        _text(block.get("text")) or ("(a picture)" if "image" in str(block.get("type")) else "")
        for block in _blocks(content)
    ]
    return "\n".join(text for text in texts if text)


def _object(args: object) -> object:
    """Return arguments as an object: the model's own text, if it is no JSON object."""
    if isinstance(args, dict):
        return cast("dict[str, Any]", args)
    try:
        found: Any = json.loads(args) if isinstance(args, str) else {}
    except (ValueError, RecursionError):
        found = None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {"text": args}


def _picture(source: Mapping[str, Any]) -> list[Json]:
    return (
        _decoded(_text(source.get("data")), _text(source.get("media_type"))) if source.get("type") == "base64" else []
    )


def _data_url(url: str) -> list[Json]:
    head, comma, data = url.partition(",")
    is_data = comma and head.startswith("data:") and head.endswith(";base64")
    return _decoded(data, head.removeprefix("data:").removesuffix(";base64")) if is_data else []


def _decoded(data: str, media_type: str) -> list[Json]:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return []
    return [{"kind": "binary", "data": data, "media_type": media_type or "image/png"}]


def _time(value: object) -> str:
    try:
        found = datetime.fromisoformat(_text(value))
    except ValueError:
        found = datetime.now(UTC)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).isoformat()
