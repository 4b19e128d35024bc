"""A server of OpenAI's Chat Completions that answers by a script. Standard library only: it runs beside any peer."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

__all__ = ["answer", "serve"]

ALIASES: Mapping[str, Sequence[str]] = {
    "path": ("file_path", "path", "directory", "dir_path"),
    "content": ("content", "contents", "text"),
    "old_string": ("old_string", "old_str"),
    "new_string": ("new_string", "new_str"),
    "command": ("command", "cmd"),
    "skill_name": ("skill_name", "name"),
    "description": ("description", "prompt", "task"),
}
"""An argument of a script -> its names in peers."""


def answer(script: Any, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str | list[Any]:
    """Return the words or the calls of the next step, by the names that the tools of this request have."""
    parts = cast("dict[str, Any]", script if isinstance(script, dict) else {"steps": script})
    steps = parts["steps"]
    said = " ".join(_text(each.get("content")) for each in messages if each.get("role") == "user")
    for words, theirs in parts.get("subagents", {}).items():
        if words in said:
            steps = theirs
    number = sum(each.get("role") == "assistant" for each in messages)
    step = steps[number] if number < len(steps) else "Done."
    if isinstance(step, str):
        return step
    offered: dict[str, dict[str, Any]] = {
        each["function"]["name"]: each["function"].get("parameters") or {} for each in tools
    }
    for call in step["calls"]:
        if call["name"] not in offered:
            return f"I cannot go on: there is no tool {call['name']}."
    return [{"name": call["name"], "args": _args(call, offered[call["name"]])} for call in step["calls"]]


def _args(call: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    known: Mapping[str, Any] = schema.get("properties") or {}
    found: dict[str, Any] = {}
    for name, value in call.get("args", {}).items():
        named = next((each for each in (name, *ALIASES.get(name, ())) if each in known), None)
        if named is not None:
            found[named] = value
    for name in schema.get("required") or ():  # such as the kind of a subagent: any that the schema has
        if name not in found:
            found[name] = _any(known.get(name) or {})
    return found


def _any(schema: Mapping[str, Any]) -> Any:
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    kinds: dict[str, Any] = {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
    return kinds.get(str(schema.get("type")), "general-purpose")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = cast("list[dict[str, Any]]", content or [])
    return " ".join(str(each.get("text", "")) for each in parts)


@contextmanager
def serve(script: Any) -> Generator[str]:
    """Serve the script on a free port of this machine; give the base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = answer(script, asked["messages"], asked.get("tools") or [])
            number = sum(each.get("role") == "assistant" for each in asked["messages"])
            read, written = len(json.dumps(asked)) // 4, len(json.dumps(said)) // 4
            usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
            head = {"id": "trial", "created": 0, "model": asked.get("model", "scripted")}
            if asked.get("stream"):
                self._send("text/event-stream", _chunks(head, _message(said, number), usage))
            else:
                reason = "stop" if isinstance(said, str) else "tool_calls"
                choice = {"index": 0, "message": _message(said, number), "finish_reason": reason}
                whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
                self._send("application/json", json.dumps(whole))

        def _send(self, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def _message(said: str | list[Any], number: int) -> dict[str, Any]:
    if isinstance(said, str):
        return {"role": "assistant", "content": said}
    calls = [
        {
            "index": index,
            "id": f"call-{number}-{index}",
            "type": "function",
            "function": {"name": each["name"], "arguments": json.dumps(each["args"])},
        }
        for index, each in enumerate(said)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _chunks(head: Mapping[str, Any], message: Mapping[str, Any], usage: Mapping[str, Any]) -> str:
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    choices: list[list[dict[str, Any]]] = [
        [{"index": 0, "delta": message, "finish_reason": None}],
        [{"index": 0, "delta": {}, "finish_reason": reason}],
        [],
    ]
    chunks: list[dict[str, Any]] = [{**head, "object": "chat.completion.chunk", "choices": each} for each in choices]
    chunks[-1]["usage"] = usage
    return "".join(f"data: {json.dumps(each)}\n\n" for each in chunks) + "data: [DONE]\n\n"
