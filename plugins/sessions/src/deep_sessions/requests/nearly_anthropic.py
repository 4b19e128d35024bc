"""Answers of servers that are nearly Anthropic, made those of Messages: whole ones, and streams event by event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

from .nearly import (
    FINISHED,
    Body,
    LeftOut,
    Wire,
    arguments_of,
    count,
    id_of,
    list_of_objects,
    listed,
    new_id,
    object_of,
    text_of,
    without_misfits,
)

__all__ = ["MESSAGES", "MessagesRepair", "as_events", "repaired"]

STOPS: Final[Mapping[str, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
"""Chat Completions' finish reasons -> Anthropic's."""
OWN: Final = ("end_turn", "stop_sequence", "max_tokens", "tool_use", "refusal")
DELTAS: Final = {
    "text_delta": ("text", ("text",)),
    "thinking_delta": ("thinking", ("thinking",)),
    "signature_delta": ("signature", ("thinking",)),
    "input_json_delta": ("partial_json", ("tool_use", "server_tool_use", "mcp_tool_use")),
}
"""The type of a piece -> the field that holds it, and the types of its block."""
EMPTY: Final[Mapping[str, Body]] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}
ERRORS: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


@cache
def _blocks() -> Any:
    from anthropic.types.beta import BetaContentBlock
    from pydantic import TypeAdapter

    return TypeAdapter(cast("Any", BetaContentBlock))


class _Blocks:
    """Repairs the blocks of one answer."""

    def __init__(self) -> None:
        self.left_out = LeftOut()
        self.calls = 0
        self._ids: set[str] = set()

    def made(self, block: object) -> Body | None:
        """Return a block as Anthropic would have written it; None for what cannot be read, or says nothing."""
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        if not isinstance(block, dict):
            self.left_out.say("a block that is no object")
            return None
        said = cast("Body", block)
        kind = said.get("type")
        if kind == "text":
            return {**said, "text": text_of(said.get("text")), **_cites(said)}
        if kind == "thinking":
            return {**said, **{key: text_of(said.get(key)) for key in ("thinking", "signature")}}
        if kind == "tool_use":
            id = id_of(said.get("id"))
            id = id if id and id not in self._ids else new_id("toolu")
            self._ids.add(id)
            self.calls += 1
            name = said.get("name")
            return {**said, "id": id, "name": name if isinstance(name, str) else "", "input": _input(said.get("input"))}
        from pydantic import ValidationError

        try:
            _blocks().validate_python(said)
        except ValidationError:
            self.left_out.say("a block of type", kind)
            return None
        return said

    def stop(self, reason: object) -> str:
        """Return a reason to stop; what Anthropic would say where there is none."""
        if not isinstance(reason, str) or not reason:
            return "tool_use" if self.calls else "end_turn"
        return reason if reason in OWN else STOPS.get(FINISHED.get(reason.lower(), ""), reason)


def repaired(body: Body, model: str) -> Body:
    """Return a whole message as Anthropic would have written it. Arguments as for `nearly_openai.repaired`."""
    blocks = _Blocks()
    content = [
        made
        for each in listed(body.get("content"))
        if (made := blocks.made(each)) is not None and made.get("text") != ""
    ]
    head = {**_head(body, model), "content": content, "usage": _usage(body)}
    return _fitting({**body, **head, "stop_reason": blocks.stop(body.get("stop_reason"))})


def _fitting(message: Body) -> Body:
    from anthropic.types.beta import BetaMessage

    return without_misfits(message, BetaMessage, "content", "stop_reason", "usage")


def as_events(body: Body, model: str) -> list[Body]:
    """Return a whole message, sent where a stream was asked for, as the events of one."""
    whole = repaired(body, model)
    out: list[Body] = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
    for index, block in enumerate(whole["content"]):
        kind, given = block["type"], block.get("input")
        start: Body = {**block, "input": {}} if kind == "tool_use" else block
        out.append({"type": "content_block_start", "index": index, "content_block": start})
        if kind == "tool_use":
            delta = {"type": "input_json_delta", "partial_json": given if isinstance(given, str) else json.dumps(given)}
            out.append({"type": "content_block_delta", "index": index, "delta": delta})
        out.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": whole.get("stop_sequence")}
    return [*out, {"type": "message_delta", "delta": delta, "usage": whole["usage"]}, {"type": "message_stop"}]


class MessagesRepair:
    """Repairs one stream.

    Args:
        model: the model that was asked.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._blocks = _Blocks()
        self._begun = self._stopped = False
        self._usage: Body = {}
        self._at: dict[int | None, int] = {}
        """The server's index of a block -> ours, of its latest block there; -1 for one that is left out."""
        self._open: dict[int, str] = {}
        """Ours -> the type of the block."""
        self._made = 0
        self._given: dict[int, str] = {}
        """The input that a call began with: it counts if no piece follows."""
        self._last: int | None = None

    def events(self, body: Body, name: str) -> list[Body] | None:
        """Return what stands for an event; None if it is right."""
        kind = text_of(body.get("type")) or name
        if kind == "ping":
            return None
        event = {**body, "type": kind}
        match kind:
            case "message_start":
                made = self._message_start(event)
            case "content_block_start":
                made = self._block_start(event)
            case "content_block_delta":
                made = self._block_delta(event)
            case "content_block_stop":
                made = self._block_stop(event)
            case "message_delta":
                made = self._message_delta(event)
            case "message_stop":
                made = self._message_stop(event)
            case _:
                self._blocks.left_out.say("an event of type", kind)
                made = []
        if not self._begun and made:
            made = [*self._message_start({"type": "message_start"}), *made]
        return None if made == [body] else made

    def last(self) -> list[Body]:
        """Return nothing: a stream that ends without its end is not whole."""
        return []

    def _message_start(self, event: Body) -> list[Body]:
        if self._begun:
            return []
        self._begun = True
        message = object_of(event.get("message"))
        self._usage = _usage(message)
        whole = _fitting({**message, **_head(message, self._model), "content": [], "usage": self._usage})
        out: list[Body] = [{**event, "message": whole}]
        for block in listed(message.get("content")):
            out += [*self._block_start({"content_block": block}), *self._block_stop({"type": "content_block_stop"})]
        return out

    def _block_start(self, event: Body) -> list[Body]:
        index = self._last = _index(event)
        block = self._blocks.made(event.get("content_block"))
        if block is None:
            self._at[index] = -1
            return []
        given = block.get("input")
        if block["type"] == "tool_use" and given:
            self._given[self._made] = given if isinstance(given, str) else json.dumps(given)
            block["input"] = {}
        return [self._start(index, block, event)]

    def _start(self, index: int | None, block: Body, event: Body) -> Body:
        at = self._at[index] = self._made
        self._made += 1
        self._open[at] = block["type"]
        return {**event, "type": "content_block_start", "index": at, "content_block": block}

    def _block_delta(self, event: Body) -> list[Body]:
        index = _index(event)
        index = self._last if index is None else index
        delta = object_of(event.get("delta"))
        delta["type"] = text_of(delta.get("type")) or next(
            (k for k, (field, _) in DELTAS.items() if field in delta), ""
        )
        at = self._at.get(index)
        if at == -1:
            return []
        if delta["type"] not in DELTAS:
            return [{**event, "index": at}] if self._reads(delta) and at is not None else []
        field, blocks = DELTAS[delta["type"]]
        if delta.get(field) is None:
            return []
        out: list[Body] = []
        if at is None or self._open.get(at) not in blocks:
            if blocks[0] not in EMPTY:
                self._blocks.left_out.say("arguments outside of a call")
                return []
            out = [self._start(index, EMPTY[blocks[0]], {})]
            at = self._at[index]
        self._given.pop(at, None)
        return [*out, {**event, "index": at, "delta": {**delta, field: text_of(delta[field])}}]

    def _reads(self, delta: Body) -> bool:
        from anthropic.types.beta import BetaRawContentBlockDeltaEvent
        from pydantic import ValidationError

        try:
            BetaRawContentBlockDeltaEvent.model_validate({"type": "content_block_delta", "index": 0, "delta": delta})
        except ValidationError:
            self._blocks.left_out.say("a piece of type", delta.get("type"))
            return False
        return True

    def _block_stop(self, event: Body) -> list[Body]:
        index = _index(event)
        at = self._at.get(self._last if index is None else index, -1)
        if at not in self._open:
            return []
        del self._open[at]
        return [*self._inputs(at), {**event, "index": at}]

    def _inputs(self, *at: int) -> list[Body]:
        """Return the inputs that calls began with and no piece repeated."""
        deltas = [(each, {"type": "input_json_delta", "partial_json": self._given.pop(each, "")}) for each in at]
        found = [(each, delta) for each, delta in deltas if delta["partial_json"]]
        return [{"type": "content_block_delta", "index": each, "delta": delta} for each, delta in found]

    def _message_delta(self, event: Body) -> list[Body]:
        delta = object_of(event.get("delta"))
        if isinstance(delta.get("stop_reason"), str):
            delta["stop_reason"] = self._blocks.stop(delta["stop_reason"])
            self._stopped = True
        elif "stop_reason" in delta:
            delta["stop_reason"] = None
        usage = object_of(event.get("usage"))
        usage |= {key: count(usage[key]) for key in ("input_tokens", "output_tokens") if usage.get(key) is not None}
        if usage.get("output_tokens") is None:
            usage["output_tokens"] = self._usage.get("output_tokens", 0)
        from anthropic.types.beta import BetaRawMessageDeltaEvent

        made = without_misfits({**event, "delta": delta, "usage": usage}, BetaRawMessageDeltaEvent, "stop_reason")
        return [*self._inputs(*self._given), made]

    def _message_stop(self, event: Body) -> list[Body]:
        if self._stopped:
            return [event]
        self._stopped = True
        return [
            *self._message_delta({"type": "message_delta", "delta": {"stop_reason": self._blocks.stop(None)}}),
            event,
        ]


def _index(event: Mapping[str, Any]) -> int | None:
    index = event.get("index")
    return index if isinstance(index, int) else None


def _head(body: Mapping[str, Any], model: str) -> Body:
    id, named = body.get("id"), body.get("model")
    return {
        "id": id if isinstance(id, str) and id else new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": named if isinstance(named, str) and named else model,
    }


def _usage(body: Mapping[str, Any]) -> Body:
    found = object_of(body.get("usage"))
    return {**found, **{key: count(found.get(key)) for key in ("input_tokens", "output_tokens")}}


def _cites(block: Mapping[str, Any]) -> Body:
    found: object = block.get("citations")
    return {} if found is None else {"citations": list_of_objects(found)}


def _input(value: object) -> Body | str:
    """Return a call's input: an object, or text that is none, which the model is told."""
    if isinstance(value, dict):
        return cast("Body", value)
    text = arguments_of(value)
    try:
        read: object = json.loads(text or "{}")
    except ValueError:
        return text
    return cast("Body", read) if isinstance(read, dict) else text


def _fail(status: int, error: Body) -> Body:
    kind = error.get("type")
    known = ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {**error, "type": kind if kind in ERRORS.values() else known}}


MESSAGES = Wire(
    "/messages",
    "content",
    names=True,
    whole=repaired,
    stream=MessagesRepair,
    pieces=as_events,
    error=_fail,
    event=_fail,
)
