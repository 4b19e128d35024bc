"""Answers of servers that are nearly OpenAI, made those of Responses: whole ones, and streams event by event."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast

from .nearly import (
    Body,
    LeftOut,
    Wire,
    arguments_of,
    count,
    counted,
    error_of,
    id_of,
    list_of_objects,
    listed,
    new_id,
    object_of,
    text_of,
    without_misfits,
)

__all__ = ["RESPONSES", "ResponsesRepair", "as_events", "repaired"]

STATES: Final[Mapping[str, str]] = {
    "response.created": "in_progress",
    "response.queued": "queued",
    "response.in_progress": "in_progress",
    "response.completed": "completed",
    "response.failed": "failed",
    "response.incomplete": "incomplete",
}
"""An event about the whole answer -> the answer's status."""
ENDS: Final = ("response.completed", "response.failed", "response.incomplete")
DELTA: Final = ".delta"
ITEMS: Final = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}
"""A piece that is read here -> the type of its item."""
THOUGHTS: Final = (
    ("summary", "reasoning_summary_text", "summary_index"),
    ("content", "reasoning_text", "content_index"),
)
"""The fields of a reasoning item, how their pieces are called, and what counts them."""
DONE: Final = {
    "response.output_text.done": "message",
    "response.refusal.done": "message",
    "response.function_call_arguments.done": "function_call",
}
"""The end of such pieces -> the type of the item."""


@cache
def _types() -> tuple[Any, Any]:
    """Return what reads the items and the events of other kinds."""
    from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
    from pydantic import TypeAdapter

    return TypeAdapter(cast("Any", ResponseOutputItem)), TypeAdapter(cast("Any", ResponseStreamEvent))


def _is_read(adapter: Any, value: Body) -> bool:
    from pydantic import ValidationError

    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


class _Items:
    """Repairs the items of one answer."""

    def __init__(self) -> None:
        self.left_out = LeftOut()
        self._calls: set[str] = set()
        self._ids: set[str] = set()

    def made(self, item: object, called: Body | None = None) -> Body | None:
        """Return an item as OpenAI would have written it; None for what cannot be read.

        Args:
            item: it.
            called: its ids, where it was sent before.
        """
        if isinstance(item, str):
            item = {"type": "message", "content": item}
        if not isinstance(item, dict):
            self.left_out.say("an item that is no object")
            return None
        said = cast("Body", item)
        kind = said.get("type")
        if kind == "message":
            made = {
                **said,
                "content": [part for each in listed(said.get("content")) if (part := self._part(each)) is not None],
            }
            made |= {"role": "assistant", **_status(said), **(called or {"id": self._id(said, "msg")})}
            return {**made, **_word(said, "phase")}
        if kind == "function_call":
            ids = called or {"id": self._id(said, "fc"), "call_id": self._call_id(said)}
            name = said.get("name")
            words = {"name": name if isinstance(name, str) else "", "arguments": arguments_of(said.get("arguments"))}
            return {**said, **ids, **words} | (
                {} if isinstance(said.get("namespace"), str | None) else {"namespace": None}
            )
        if kind == "reasoning":
            ids = called or {"id": self._id(said, "rs")}
            return {
                **said,
                **ids,
                **{key: _texts(said, key) for key in ("summary", "content") if said.get(key) or key == "summary"},
            }
        if not _is_read(_types()[0], said):
            self.left_out.say("an item of type", kind)
            return None
        return said

    def _part(self, part: object) -> Body | None:
        if isinstance(part, str):
            return {"type": "output_text", "text": part, "annotations": []}
        said = object_of(part)
        kind = said.get("type")
        if kind == "output_text":
            annotations = list_of_objects(said.get("annotations"))
            return {**said, "text": text_of(said.get("text")), "annotations": annotations, **_logprobs(said)}
        if kind == "refusal":
            return {**said, "refusal": text_of(said.get("refusal"))}
        self.left_out.say("a part of a message of type", kind)
        return None

    def _id(self, item: Body, prefix: str) -> str:
        id = id_of(item.get("id"))
        id = id if id and id not in self._ids else new_id(prefix)
        self._ids.add(id)
        return id

    def _call_id(self, item: Body) -> str:
        id = id_of(item.get("call_id")) or id_of(item.get("id"))
        id = id if id and id not in self._calls else new_id("call")
        self._calls.add(id)
        return id


def repaired(body: Body, model: str) -> Body:
    """Return a whole response as OpenAI would have written it. Arguments as for `nearly_openai.repaired`."""
    items = _Items()
    output = [made for each in listed(body.get("output")) if (made := items.made(each)) is not None]
    for each in output:
        if each["type"] == "function_call":
            each["arguments"] = each["arguments"] or "{}"
    return _framed(body, model, output, "completed")


def _framed(body: Body, model: str, output: list[Body], status: str) -> Body:
    from openai.types.responses import Response

    id, named, said = (body.get(key) for key in ("id", "model", "status"))
    made = {
        **body,
        "id": id if isinstance(id, str) and id else new_id("resp"),
        "object": "response",
        "created_at": count(body.get("created_at")),
        "model": named if isinstance(named, str) and named else model,
        "output": output,
        "status": said if isinstance(said, str) and said else status,
        "usage": _usage(body),
    }
    return without_misfits(made, Response, "output", "error", "status", "parallel_tool_calls", "tool_choice", "tools")


def as_events(body: Body, model: str) -> list[Body]:
    """Return a whole response, sent where a stream was asked for, as the events of one."""
    whole = repaired(body, model)
    repair = ResponsesRepair(model)
    kind = f"response.{whole['status']}" if whole["status"] in ("incomplete", "failed") else "response.completed"
    out: list[Body] = []
    frames: list[Body] = [
        {"type": "response.created", "response": {**whole, "output": [], "status": "in_progress", "usage": None}},
        {"type": kind, "response": whole},
    ]
    for event in frames:
        made = repair.events(event, "")
        out += [event] if made is None else made
    return [{**event, "sequence_number": number} for number, event in enumerate(out)]


class ResponsesRepair:
    """Repairs one stream.

    Args:
        model: the model that was asked.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._items = _Items()
        self._begun = False
        self._ids: dict[object, str] = {}
        """The server's id of an item, and its place -> our id, of the latest there."""
        self._kinds: dict[str, str] = {}
        """Our id -> the kind of the item."""
        self._order: dict[str, list[str]] = {}
        """A kind -> our ids of its items, the first one first."""
        self._sent: dict[str, Body] = {}
        """Our id -> the item's ids, of each that was sent."""
        self._written: dict[str, list[str]] = {}
        """Our id of a call -> the pieces of its arguments."""
        self._given: dict[str, str] = {}
        """Our id of a call -> the arguments that it began with: they count if no piece follows."""
        self._said: set[tuple[str, object]] = set()
        """Items, and parts of them, whose text was sent."""
        self._left_out: set[object] = set()
        """Items that are left out: their ids, and places."""

    def events(self, body: Body, name: str) -> list[Body] | None:
        """Return what stands for an event; None if it is right."""
        kind = text_of(body.get("type")) or name
        event = {**body, "type": kind}
        if kind in STATES:
            made = self._state(event)
        elif kind in ("response.output_item.added", "response.output_item.done"):
            made = self._item(event)
        elif kind in ITEMS:
            made = self._delta(event)
        elif kind in DONE:
            made = self._done(event)
        elif _is_read(_types()[1], event):
            made = [] if self._is_left_out(event) else [event]
        else:
            made = []
            if not self._is_left_out(event) and kind not in SAID_AGAIN:
                self._items.left_out.say("an event of type", kind)
        if made and not self._begun:
            # Without it, Pydantic AI takes the stream for one of a work in the background.
            self._begun = True
            made = [{"type": "response.created", "response": _framed({}, self._model, [], "in_progress")}, *made]
        return None if made == [body] else made

    def last(self) -> list[Body]:
        """Return nothing: a stream that ends without its end is not whole."""
        return []

    def _is_left_out(self, event: Body) -> bool:
        given, place = _named(event, "item_id")
        return given in self._left_out or (not given and place in self._left_out)

    def _state(self, event: Body) -> list[Body]:
        kind: str = event["type"]
        said = object_of(event.get("response"))
        out = [*self._owed(said), *self._arguments(*self._given)] if kind in ENDS else []
        output = list_of_objects(said.get("output"))
        items = _Items()
        items.left_out = self._items.left_out
        made = _framed(said, self._model, [item for each in output if (item := items.made(each))], STATES[kind])
        if kind in ("response.completed", "response.failed"):
            made["status"] = STATES[kind]  # the event says it
        if kind == "response.failed" and (error := error_of({**said, "object": "response", "status": "failed"})):
            made["error"] = {**error[1], "code": _code(*error)}
        begun, self._begun = self._begun, self._begun or kind == "response.created"
        return [] if begun and kind == "response.created" else [*out, {**event, "response": made}]

    def _owed(self, response: Body) -> list[Body]:
        """Return the events that the items of a whole answer stand for, where they were not sent."""
        out: list[Body] = []
        met: dict[str, int] = {}
        for place, each in enumerate(list_of_objects(response.get("output"))):
            kind = str(each.get("type"))
            before = met[kind] = met.get(kind, -1) + 1
            # By nothing else: the second message there is the second that was sent.
            id = self._known(id_of(each.get("id")), place, kind) or "".join(
                self._order.get(kind, [])[before : before + 1]
            )
            if id not in self._sent or kind == "message":
                done = {"type": "response.output_item.done", "output_index": place, "item": each}
                out += [event for event in self._item(done, id) if id not in self._sent or DELTA in event["type"]]
        return out

    def _item(self, event: Body, known: str = "") -> list[Body]:
        item, is_done = object_of(event.get("item")), event["type"].endswith("done")
        kind, (given, place) = str(item.get("type")), _named({**event, "id": item.get("id")}, "id")
        id = known or (self._known(given, place, kind) if is_done else "")
        called = self._sent.get(id) or ({"id": id} if id and kind != "function_call" else None)
        if not id and is_done and (given in self._left_out or (not given and place in self._left_out)):
            return []
        made = self._items.made(event.get("item"), called)
        if made is None:
            self._left_out |= {given, place} - {"", None}
            return []
        is_new = id not in self._sent
        id = id_of(made.get("id")) or new_id("item")
        self._begin(id, kind, given, place)
        self._sent[id] = {key: made[key] for key in ("id", "call_id") if key in made}
        head = {**event, "item": made}
        match kind, is_done:
            case "function_call", False:
                if made["arguments"]:
                    self._given[id] = made["arguments"]
                    made["arguments"] = ""
                self._written[id] = []
            case "function_call", True:
                if is_new:
                    self._written[id] = [made["arguments"]]
                # Other arguments at the end than in the pieces: the pieces count, as for Pydantic AI.
                given_first = self._given.pop(id, "")
                made["arguments"] = "".join(self._written[id]) or made["arguments"] or given_first
            case "message", True:
                return [*self._texts(made), head]
            case "reasoning", True:
                return [*self._thoughts(made), head]
            case _:
                pass
        return [head]

    def _begin(self, id: str, kind: str, given: str, place: int | None) -> None:
        if id not in self._kinds:
            self._kinds[id] = kind
            self._order.setdefault(kind, []).append(id)
        for key in (given, place):
            if key not in ("", None):
                self._ids[key] = id
                self._left_out.discard(key)

    def _known(self, given: str, place: int | None, kind: str) -> str:
        """Return our id of an item that was begun; "" for none."""
        found = [self._ids[key] for key in (given, place) if key in self._ids]
        found = [id for id in found if self._kinds[id] == kind]
        if not found:
            return "" if given or place is not None else self._order.get(kind, [""])[-1]
        # Some servers send all at place 0, others give all the same id: what names one item counts.
        return found[0] if found[0] == given else found[-1]

    def _texts(self, message: Body) -> list[Body]:
        """Return pieces for the texts of a message that were not sent in pieces."""
        out: list[Body] = []
        for at, part in enumerate(message["content"]):
            field = "text" if part["type"] == "output_text" else "refusal"
            out += self._text(message["id"], at, field, part[field])
        return out

    def _text(self, id: str, at: int, field: str, text: str) -> list[Body]:
        if not text or (id, at) in self._said:
            return []
        self._said.add((id, at))
        type = "response.output_text.delta" if field == "text" else "response.refusal.delta"
        return [{"type": type, "item_id": id, "output_index": 0, "content_index": at, "delta": text}]

    def _thoughts(self, item: Body) -> list[Body]:
        if (item["id"], "") in self._said:
            return []
        out: list[Body] = []
        for field, kind, place in THOUGHTS:
            for at, part in enumerate(item.get(field) or []):
                where: Body = {"item_id": item["id"], "output_index": 0, place: at}
                out.append({"type": f"response.{kind}.delta", **where, "delta": part["text"]})
        if out:
            self._said.add((item["id"], ""))
        return out

    def _arguments(self, *ids: str) -> list[Body]:
        """Return the arguments that calls began with and nothing repeated."""
        kind = "response.function_call_arguments.done"
        return [{"type": kind, "item_id": id, "output_index": 0, "arguments": self._given.pop(id)} for id in ids]

    def _delta(self, event: Body) -> list[Body]:
        type, delta = event["type"], event.get("delta")
        if delta is None or self._is_left_out(event):
            return []
        kind, (given, place) = ITEMS[type], _named(event, "item_id")
        id = self._known(given, place, kind)
        written = text_of(delta)
        if kind == "function_call":
            if id not in self._written:
                self._items.left_out.say("arguments outside of a call")
                return []
            self._written[id].append(written)
            self._given.pop(id, None)
            return [{**event, "item_id": id, "delta": written}]
        if not id:
            id = given if given and given not in self._kinds else new_id("item")
            self._begin(id, kind, given, place)
        key = "summary_index" if "summary" in type else "content_index"
        out: Body = {**event, "item_id": id, "delta": written}
        if not isinstance(out.get(key), int):
            out[key] = 0
        self._said.add((id, "" if kind == "reasoning" else out[key]))
        return [out]

    def _done(self, event: Body) -> list[Body]:
        if self._is_left_out(event):
            return []
        kind, (given, place) = DONE[event["type"]], _named(event, "item_id")
        id = self._known(given, place, kind)
        if kind == "function_call":
            if id not in self._written:
                return []  # the item's own end says it
            given_first = self._given.pop(id, "")
            written = "".join(self._written[id]) or arguments_of(event.get("arguments")) or given_first
            return [{**event, "item_id": id, "arguments": written}]
        if not id:
            id = given if given and given not in self._kinds else new_id("item")
            self._begin(id, kind, given, place)
        field = "text" if "text" in event["type"] else "refusal"
        at: object = event.get("content_index")
        at = at if isinstance(at, int) else 0
        out: Body = {**event, "item_id": id, "content_index": at, field: text_of(event.get(field)), **_logprobs(event)}
        return [*self._text(id, at, field, out[field]), out]


SAID_AGAIN: Final = ("response.content_part.added", "response.content_part.done")
"""Events that say nothing that others do not."""


def _named(event: Mapping[str, Any], key: str) -> tuple[str, int | None]:
    """Return the id and the place by which an event names its item."""
    place = event.get("output_index")
    return id_of(event.get(key)), place if isinstance(place, int) else None


def _status(item: Body) -> Body:
    status = item.get("status")
    return {"status": status if status in ("in_progress", "completed", "incomplete") else "completed"}


def _texts(item: Body, key: str) -> list[Body]:
    return [part for part in list_of_objects(item.get(key)) if isinstance(part.get("text"), str)]


def _word(item: Body, key: str) -> Body:
    return {} if isinstance(item.get(key), str | None) else {key: None}


def _logprobs(part: Body) -> Body:
    found: object = part.get("logprobs")
    return {} if found is None or isinstance(found, list) else {"logprobs": None}


def _usage(body: Mapping[str, Any]) -> Body | None:
    found: object = body.get("usage")
    if not isinstance(found, dict):
        return None
    usage = cast("Body", found)
    odd = [key for key, each in usage.items() if key.endswith("_details") and not isinstance(each, dict)]
    return {**usage, **counted(usage, "input_tokens", "output_tokens"), **dict.fromkeys(odd)}


def _code(status: int, error: Body) -> str:
    code = error.get("code")
    return code if isinstance(code, str) and code else str(status)


def _fail(status: int, error: Body) -> Body:
    return {"error": {**error, "code": _code(status, error)}}


def _event(status: int, error: Body) -> Body:
    code = None if status == 400 and not error.get("code") else _code(status, error)
    return {"type": "error", "code": code, "message": error["message"], "param": error.get("param")}


RESPONSES = Wire(
    "/responses",
    "output",
    names=True,
    whole=repaired,
    stream=ResponsesRepair,
    pieces=as_events,
    error=_fail,
    event=_event,
)
