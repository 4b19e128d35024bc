"""Replies of servers that are nearly OpenAI, made OpenAI's: whole ones, and streams piece by piece."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, Final, cast

__all__ = ["NO_CHOICES", "StreamRepair", "as_chunks", "error_of", "has_choices", "repaired"]

FINISHED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete", "completed", "done"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length", "length_limit"), "length"),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(("content_filter", "content-filter", "safety", "refusal", "sensitive"), "content_filter"),
}
"""Finish reasons that servers send -> OpenAI's."""
NO_CHOICES: Final = 502, {"error": {"message": "the server's answer has no choices", "code": 502}}
"""What an answer without any stands for: the next one may have some."""
BUSY: Final = ("overloaded", "at capacity", "over capacity", "loading model", "try again later")


def error_of(body: object) -> tuple[int, dict[str, Any]] | None:
    """Return the status that an error body with status 200 stands for, and the body as OpenAI has it; None for none."""
    if not isinstance(body, dict):
        return None
    said = cast("dict[str, Any]", body)
    error: Any = said.get("error")
    if not error and said.get("object") == "error":  # vLLM's older form
        error = {"message": said.get("message"), "code": said.get("code"), "type": said.get("type")}
    if not error and "choices" not in said and (said.get("detail") or said.get("message")):
        error = said.get("detail") or said.get("message")
    if not error:
        return None
    inner: dict[str, Any] = cast("dict[str, Any]", error) if isinstance(error, dict) else {"message": error}
    message = cast("object", inner.get("message") or error)
    text = message if isinstance(message, str) else json.dumps(message, default=str)
    code = inner.get("code", inner.get("status", said.get("status")))
    number = int(str(code)) if str(code).isdecimal() else 0
    status = number if 400 <= number < 600 else 400
    if status == 400 and any(word in text.lower() for word in BUSY):
        status = 503
    return status, {"error": {**inner, "message": text}}


def has_choices(body: Mapping[str, Any]) -> bool:
    """Whether an answer has a choice that can be read."""
    return bool(_objects(body.get("choices")))


def repaired(body: dict[str, Any], model: str) -> dict[str, Any]:
    """Return a whole completion as OpenAI would have written it.

    Args:
        body: the reply's JSON.
        model: the model that was asked.
    """
    choices = [_choice(each, "message") for each in _objects(body.get("choices"))]
    for choice in choices:
        message = choice["message"] = _object(choice.get("message"))
        message["role"] = "assistant"
        message["content"] = _text(message.get("content"))
        calls = _calls(_written_calls(message))
        message |= {"tool_calls": calls or None, "function_call": None}
        choice["finish_reason"] = _finish(choice.get("finish_reason")) or ("tool_calls" if calls else "stop")
    made = {**body, **_head(body, model), "object": "chat.completion", "choices": choices, "usage": _usage(body)}
    return _without_misfits(made)


def _without_misfits(body: dict[str, Any]) -> dict[str, Any]:
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


def as_chunks(body: dict[str, Any], model: str) -> list[dict[str, Any]]:
    """Return a whole completion, sent where a stream was asked for, as the chunks of one."""
    whole = repaired(body, model)
    head = {**_head(whole, model), "object": "chat.completion.chunk"}
    out: list[dict[str, Any]] = []
    for choice in whole["choices"][:1]:
        message: dict[str, Any] = choice["message"]
        calls = [{**call, "index": index} for index, call in enumerate(message["tool_calls"] or [])]
        delta = {**message, "tool_calls": calls or None}
        out.append({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": choice["finish_reason"]}]})
    return [*out, {**head, "choices": [], "usage": whole["usage"]}]


class StreamRepair:
    """Repairs one stream.

    Args:
        model: the model that was asked.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._head: dict[str, Any] = {}
        self._usage: dict[str, Any] | None = None
        self._open: dict[Any, int] = {}
        """The server's index of a call -> ours, of its latest call there."""
        self._calls: list[dict[str, str]] = []
        """Id, name and arguments of each call so far."""

    def chunk(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a chunk as OpenAI would have written it. Its usage is kept for the end: the last one counts."""
        self._head = self._head or _head(body, self._model)
        if isinstance(body.get("usage"), dict):
            self._usage = _usage(body)
        choices = [_choice(each, "delta") for each in _objects(body.get("choices"))]
        for choice in choices:
            # Some servers send a last message in place of a delta.
            delta = choice["delta"] = _object(choice.get("delta") or choice.get("message"))
            if "content" in delta:
                delta["content"] = _text(delta["content"])
            if delta.get("role") != "assistant":
                delta["role"] = "assistant"
            found = [made for each in _written_calls(delta) if (made := self._call(each)) is not None]
            delta |= {"tool_calls": found or None, "function_call": None}
            choice["finish_reason"] = _finish(choice.get("finish_reason"))
        head = {**self._head, "object": "chat.completion.chunk"}
        return {**body, **head, "choices": choices, "usage": None}

    def last(self) -> dict[str, Any] | None:
        """Return the chunk that holds the usage; None if the server counted nothing."""
        if self._usage is None:
            return None
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": self._usage}

    def _call(self, delta: dict[str, Any]) -> dict[str, Any] | None:
        function = _object(delta.get("function"))
        name = function.get("name", delta.get("name"))
        name = name if isinstance(name, str) else ""
        id = _id(delta.get("id"))
        arguments = function.get("arguments", delta.get("arguments"))
        written = arguments if isinstance(arguments, str) else "" if arguments is None else _dump(arguments)
        at = self._place(delta.get("index"), id, name)
        if at is None:
            if not name and not id:
                return None  # a piece of nothing
            at = len(self._calls)
            self._calls.append({"id": id or _new_id(), "name": "", "arguments": ""})
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


def _head(body: Mapping[str, Any], model: str) -> dict[str, Any]:
    created = body.get("created")
    number = isinstance(created, int | float) and not isinstance(created, bool)
    id, named = body.get("id"), body.get("model")
    return {
        "id": id if isinstance(id, str) and id else f"chatcmpl-{uuid.uuid4().hex}",
        "created": int(cast("float", created)) if number else 0,
        "model": named if isinstance(named, str) and named else model,
    }


def _choice(choice: dict[str, Any], holds: str) -> dict[str, Any]:
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


def _written_calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a message or a delta, also one that is no list, or of OpenAI's first form."""
    found: object = message.get("tool_calls")
    if not found and isinstance(message.get("function_call"), dict):
        found = {"function": message["function_call"]}
    return _objects([found] if isinstance(found, dict) else found)


def _calls(found: object) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    seen: set[str] = set()
    for each in _objects(found):
        function = _object(each.get("function"))
        name = function.get("name", each.get("name"))
        id = _id(each.get("id"))
        id = id if id and id not in seen else _new_id()
        seen.add(id)
        arguments = function.get("arguments", each.get("arguments"))
        written = arguments if isinstance(arguments, str) else "{}" if arguments is None else _dump(arguments)
        said = {"name": name if isinstance(name, str) else "", "arguments": written or "{}"}
        out.append({**each, "id": id, "type": "function", "function": said})
    return out


def _usage(body: Mapping[str, Any]) -> dict[str, Any] | None:
    found: object = body.get("usage")
    if not isinstance(found, dict):
        return None
    usage = cast("dict[str, Any]", found)
    counted = {key: _count(usage.get(key)) for key in ("prompt_tokens", "completion_tokens")}
    total = _count(usage.get("total_tokens")) or sum(counted.values())
    details: dict[str, Any] = {key: each for key, each in usage.items() if key.endswith("_details")}
    details = {key: each for key, each in details.items() if isinstance(each, dict)}
    return {**counted, "total_tokens": total, **details}


def _count(value: object) -> int:
    return max(0, int(value)) if isinstance(value, int | float) and value == value else 0


def _text(content: object) -> str | list[dict[str, Any]] | None:
    """Return content as text; parts that hold thinking stay, because Pydantic AI tells them apart."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        return _dump(content)
    parts = _objects(cast("list[object]", content))
    if any(part.get("type") in ("thinking", "reasoning") for part in parts):
        return parts
    return "".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str))


def _id(value: object) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int) and value is not True else ""


def _new_id() -> str:
    return f"call_{uuid.uuid4().hex[:24]}"


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _object(value: object) -> dict[str, Any]:
    return {**cast("dict[str, Any]", value)} if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, Any]", item) for item in items if isinstance(item, dict)]
