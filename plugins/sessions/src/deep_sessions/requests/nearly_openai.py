"""Answers of servers that are nearly OpenAI, made those of Chat Completions: whole ones, and streams piece by piece."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from .nearly import (
    FINISHED,
    Body,
    Wire,
    arguments_of,
    count,
    counted,
    dump,
    id_of,
    list_of_objects,
    new_id,
    object_of,
)

__all__ = ["CHAT", "ChatRepair", "as_chunks", "repaired"]


def repaired(body: Body, model: str) -> Body:
    """Return a whole completion as OpenAI would have written it.

    Args:
        body: the reply's JSON.
        model: the model that was asked.
    """
    choices = [_choice(each, "message") for each in list_of_objects(body.get("choices"))]
    for choice in choices:
        message = choice["message"] = object_of(choice.get("message"))
        message["role"] = "assistant"
        message["content"] = _text(message.get("content"))
        calls = _calls(_written_calls(message))
        message |= {"tool_calls": calls or None, "function_call": None}
        choice["finish_reason"] = _finish(choice.get("finish_reason")) or ("tool_calls" if calls else "stop")
    made = {**body, **_head(body, model), "object": "chat.completion", "choices": choices, "usage": _usage(body)}
    return _without_misfits(made)


def _without_misfits(body: Body) -> Body:
    """Take out what OpenAI's type refuses in fields that nobody reads: it would end the run."""
    from openai.types.chat import ChatCompletion
    from pydantic import ValidationError

    try:
        ChatCompletion.model_validate(body)
    except ValidationError as error:
        for each in error.errors():
            *path, last = each["loc"][:4]
            holder: Any = body
            for key in path:
                holder = holder[key]
            if last != "content":  # Pydantic AI reads parts of it
                holder[last] = None
    return body


def as_chunks(body: Body, model: str) -> list[Body]:
    """Return a whole completion, sent where a stream was asked for, as the chunks of one."""
    whole = repaired(body, model)
    head = {**_head(whole, model), "object": "chat.completion.chunk"}
    out: list[Body] = []
    for choice in whole["choices"][:1]:
        message: Body = choice["message"]
        calls = [{**call, "index": index} for index, call in enumerate(message["tool_calls"] or [])]
        delta = {**message, "tool_calls": calls or None}
        out.append({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": choice["finish_reason"]}]})
    return [*out, {**head, "choices": [], "usage": whole["usage"]}]


class ChatRepair:
    """Repairs one stream.

    Args:
        model: the model that was asked.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._head: Body = {}
        self._usage: Body | None = None
        self._open: dict[Any, int] = {}
        """The server's index of a call -> ours, of its latest call there."""
        self._calls: list[dict[str, str]] = []
        """Id, name and arguments of each call so far."""

    def events(self, body: Body, name: str) -> list[Body] | None:
        """Return what stands for an event; None for what is no chunk."""
        return [self.chunk(body)] if "choices" in body or "usage" in body else None

    def chunk(self, body: Body) -> Body:
        """Return a chunk as OpenAI would have written it. Its usage is kept for the end: the last one counts."""
        self._head = self._head or _head(body, self._model)
        if isinstance(body.get("usage"), dict):
            self._usage = _usage(body)
        choices = [_choice(each, "delta") for each in list_of_objects(body.get("choices"))]
        for choice in choices:
            # Some servers send a last message in place of a delta.
            delta = choice["delta"] = object_of(choice.get("delta") or choice.get("message"))
            if "content" in delta:
                delta["content"] = _text(delta["content"])
            if delta.get("role") != "assistant":
                delta["role"] = "assistant"
            found = [made for each in _written_calls(delta) if (made := self._call(each)) is not None]
            delta |= {"tool_calls": found or None, "function_call": None}
            choice["finish_reason"] = _finish(choice.get("finish_reason"))
        head = {**self._head, "object": "chat.completion.chunk"}
        return {**body, **head, "choices": choices, "usage": None}

    def last(self) -> list[Body]:
        """Return the chunk that holds the usage, if the server counted."""
        if self._usage is None:
            return []
        return [{**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage}]

    def _call(self, delta: Body) -> Body | None:
        function = object_of(delta.get("function"))
        name = function.get("name", delta.get("name"))
        name = name if isinstance(name, str) else ""
        id = id_of(delta.get("id"))
        arguments = function.get("arguments", delta.get("arguments"))
        written = arguments_of(arguments)
        at = self._place(delta.get("index"), id, name)
        if at is None:
            if not name and not id:
                return None  # a piece of nothing
            at = len(self._calls)
            self._calls.append({"id": id or new_id("call"), "name": "", "arguments": ""})
        self._open[_key(delta.get("index"))] = at
        call = self._calls[at]
        if id == call["id"] and written and written == call["arguments"] and _is_whole(call):
            return None  # the whole call again
        begun = bool(call["name"])
        fresh = name if not call["name"] or name != call["name"] else ""  # some repeat the name in each piece
        call["name"], call["arguments"] = call["name"] + fresh, call["arguments"] + written
        if not call["name"]:
            return None  # Pydantic AI loses its place at a call without a name: all comes with the name
        said = {"name": fresh or None, "arguments": written if begun else call["arguments"]}
        return {**delta, "index": at, "id": call["id"], "type": "function", "function": said}

    def _place(self, index: object, id: str, name: str) -> int | None:
        """Return the call that a piece goes on with; None for a new one."""
        at = self._open.get(_key(index))
        if id:
            known = next((at for at, call in enumerate(self._calls) if call["id"] == id), None)
            if known is not None and not (name and _is_whole(self._calls[known]) and at == known and index is None):
                return known
        if at is None:
            return None
        call = self._calls[at]
        if id and call["id"] != id and (name or _is_whole(call)):
            return None  # ollama and others send every call at index 0; some give each piece an id
        if not id and name and call["name"] and (name != call["name"] or _is_whole(call)):
            return None
        return at


def _is_whole(call: Mapping[str, str]) -> bool:
    try:
        return isinstance(json.loads(call["arguments"]), dict)
    except ValueError:
        return False


def _key(index: object) -> object:
    return index if isinstance(index, int) else None


def _head(body: Mapping[str, Any], model: str) -> Body:
    id, named = body.get("id"), body.get("model")
    return {
        "id": id if isinstance(id, str) and id else new_id("chatcmpl"),
        "created": count(body.get("created")),
        "model": named if isinstance(named, str) and named else model,
    }


def _choice(choice: Body, holds: str) -> Body:
    index = choice.get("index")
    logprobs = choice.get("logprobs")
    return {
        **choice,
        "index": index if isinstance(index, int) else 0,
        "logprobs": logprobs if isinstance(logprobs, dict) else None,
        holds: choice.get(holds),
    }


def _finish(reason: object) -> str | None:
    if not isinstance(reason, str) or reason.lower() in ("", "null", "none"):  # KoboldCpp writes null as a word
        return None
    return FINISHED.get(reason.lower(), "stop")


def _written_calls(message: Mapping[str, Any]) -> list[Body]:
    """Return the calls of a message or a delta, also one that is no list, or of OpenAI's first form."""
    found: object = message.get("tool_calls")
    if not found and isinstance(message.get("function_call"), dict):
        found = {"function": message["function_call"]}
    return list_of_objects([cast("object", found)] if isinstance(found, dict) else found)


def _calls(found: object) -> list[Body]:
    out: list[Body] = []
    seen: set[str] = set()
    for each in list_of_objects(found):
        function = object_of(each.get("function"))
        name = function.get("name", each.get("name"))
        id = id_of(each.get("id"))
        id = id if id and id not in seen else new_id("call")
        seen.add(id)
        arguments = function.get("arguments", each.get("arguments"))
        said = {"name": name if isinstance(name, str) else "", "arguments": arguments_of(arguments) or "{}"}
        out.append({**each, "id": id, "type": "function", "function": said})
    return out


def _usage(body: Mapping[str, Any]) -> Body | None:
    found: object = body.get("usage")
    if not isinstance(found, dict):
        return None
    usage = cast("Body", found)
    details: Body = {key: each for key, each in usage.items() if key.endswith("_details")}
    details = {key: each for key, each in details.items() if isinstance(each, dict)}
    return {**counted(usage, "prompt_tokens", "completion_tokens"), **details}


def _text(content: object) -> str | list[Body] | None:
    """Return content as text; parts that hold thinking stay, because Pydantic AI tells them apart."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        return dump(content)
    parts = list_of_objects(cast("list[object]", content))
    if any(part.get("type") in ("thinking", "reasoning") for part in parts):
        return parts
    return "".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str))


def _fail(status: int, error: Body) -> Body:
    return {"error": error}


CHAT = Wire(
    "/chat/completions",
    "choices",
    names=False,
    whole=repaired,
    stream=ChatRepair,
    pieces=as_chunks,
    error=_fail,
    event=_fail,
)
