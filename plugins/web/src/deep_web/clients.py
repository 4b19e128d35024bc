"""The turn of a program that speaks AG-UI or Vercel AI: what it adds to a session, and the events that follow.

The session holds the history. Of what a client sends, this takes the last message of the user, and answers to questions
that the session asks now; the rest is the client's copy of the conversation, which counts for nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from deep_sessions import NotPending, Question, WaitingCalls, answer_questions, questions_of
from pydantic_ai import AgentRunResult, AgentRunResultEvent
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import (
    BinaryContent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
)

from deep_core.plugin_api import call_path

from .api import ready

if TYPE_CHECKING:
    from deep_sessions import Event, Sessions
    from pydantic_ai.tools import DeferredToolApprovalResult
    from pydantic_ai.ui import NativeEvent

    from .site import Site

__all__ = ["Again", "Refused", "Sent", "Shown", "Turn", "name_of", "user_content"]

Message: TypeAlias = "str | list[UserContent]"
Shown: TypeAlias = "NativeEvent | Again"
"""What a client is shown, in the events of Pydantic AI, and one of ours."""
OUTCOMES: Mapping[str, str] = {"unknown": "interrupted", "retried": "failed"}
"""Outcomes of calls that Pydantic AI names otherwise."""
CUT = re.compile(r" … [\d,]+ characters hidden\Z")


class Refused(Exception):
    """A request that cannot be obeyed. The message is for the client."""


@dataclass(frozen=True)
class Again:
    """The answer under way was cut, and begins again: what the client has of it counts no more.

    Attributes:
        words: why, for people.
        parts: of the cut answer, in order.
    """

    words: str
    parts: Sequence[TextPart | ThinkingPart]


@dataclass(frozen=True)
class Sent:
    """What a request adds to a session.

    Attributes:
        message: the user's message, if the conversation that was sent ends with one.
        message_id: its id, which the client chose. The same id again shows the run that it began, and begins none.
        approvals: decisions on calls that wait, by the names under which they were asked (`name_of`).
        results: results of calls, by the calls' paths: they are answers to questions of the model, and nothing else.
    """

    message: Message | None = None
    message_id: str = ""
    approvals: Mapping[str, bool | DeferredToolApprovalResult] = field(default_factory=dict[str, Any])
    results: Mapping[str, str] = field(default_factory=dict[str, str])


def name_of(approval: str, path: str) -> str:
    """Return the name under which a client is asked about a call. A call of a later question has another one."""
    return f"{approval}:{path}"


def user_content(parts: list[Any]) -> Message:
    """Return what a user may send, of the parts of a message: text and pictures that are in it.

    Raises:
        Refused: it has anything else. The server or the provider would read an address.
    """
    found: list[UserContent] = []
    for part in parts:
        content = part.content
        found += [content] if isinstance(content, str) else cast("list[UserContent]", content)
    if not all(isinstance(item, str) or (isinstance(item, BinaryContent) and item.is_image) for item in found):
        raise Refused("a message may have text and pictures that are in it: upload other files")
    return found[0] if len(found) == 1 and isinstance(found[0], str) else found


class Turn:
    """One request of a client, from what it adds to the end of the run or its next question.

    Args:
        site: what the application serves.
        session_id: the session, which exists.
        sent: what the client adds.
        show: returns an event as the client may see it: without the texts of exceptions, for example.
    """

    def __init__(self, site: Site, session_id: str, sent: Sent, show: Callable[[Event], Event]) -> None:
        self._site = site
        self._id = session_id
        self._sent = sent
        self._show = show
        self._answered: list[Question] = []
        """The questions whose results have not come."""

    async def events(self) -> AsyncGenerator[Shown]:
        """Do what the request asks for, and yield what happens.

        Raises:
            Refused: it cannot be done, or the run failed.
            RunCancelled: the run was stopped.
            AgentError: the session is busy, or the store fails.
        """
        async with self._site.lock(self._id):
            runs = await ready(self._site, self._id)
            run_id, after = await self._begin(runs)
        self._site.notify(self._id)
        async with aclosing(self._follow(runs, run_id, after)) as events:
            async for event in events:
                yield event

    async def _begin(self, runs: Sessions) -> tuple[str, int]:
        """Add what was sent; return the run to follow, and the number of the event before."""
        requests = await runs.waiting(self._id)  # before the past, which then has its run
        begun, last = await self._past(runs)
        asked = {} if requests is None else {question.path: question for question in questions_of(requests)}
        answers, run_id = self._answers("" if requests is None else requests.approval, asked), self._run_id()
        if requests is not None and answers:
            try:
                results = answer_questions(requests, answers)
            except ValueError as error:
                raise Refused(str(error)) from error
            try:
                await runs.decide(self._id, results, approval=requests.approval)
            except NotPending as error:  # another interface was faster
                raise Refused(error.message) from error
            self._answered = [*asked.values()]
            return [*begun][-1], last
        if self._sent.message is not None and not (self._sent.message and self._sent.message_id):
            raise Refused("a message needs a text and an id")
        if self._sent.message is not None and run_id not in begun:
            labels = self._site.labels(self._site.model_of(runs))
            await runs.send(self._id, self._sent.message, run_id=run_id, labels=labels)
            return run_id, last
        if self._sent.message is not None:
            return run_id, begun[run_id] - 1
        if begun and (requests is not None or self._id in runs.active):
            run_id = [*begun][-1]
            return run_id, begun[run_id] - 1
        raise Refused("there is nothing to do: the conversation that was sent does not end with a message of the user")

    def _run_id(self) -> str:
        """The run that a message begins. Clients choose ids that other sessions have too."""
        return hashlib.sha256(f"{self._id} {self._sent.message_id}".encode()).hexdigest()[:32]

    def _answers(self, approval: str, asked: Mapping[str, Question]) -> dict[str, Any]:
        paths = {name_of(approval, path): path for path, question in asked.items() if not question.text}
        if wrong := self._sent.approvals.keys() - paths.keys():
            raise Refused(f"the request decides {len(wrong)} call(s) that this session does not ask about")
        results = {path: text for path, text in self._sent.results.items() if path in asked and asked[path].text}
        return {**{paths[name]: answer for name, answer in self._sent.approvals.items()}, **results}

    async def _past(self, runs: Sessions) -> tuple[dict[str, int], int]:
        """Return the runs of the session with the numbers of their first events, and the last number."""
        begun, last = dict[str, int](), 0
        async with aclosing(runs.stream(self._id, follow=False)) as events:
            async for event in events:
                last = event.n
                if event.kind == "run_started":
                    begun.setdefault(event.run_id, event.n)
        return begun, last

    async def _follow(self, runs: Sessions, run_id: str, after: int) -> AsyncGenerator[Shown]:
        view = _View()
        async with aclosing(runs.stream(self._id, after=after)) as events:
            async for event in events:
                if event.run_id != run_id and event.kind != "run_interrupted":
                    continue
                event = self._show(event)
                if event.kind == "approvals_asked":
                    requests = await self._asked(runs, event)
                    if requests is not None:
                        for each in view.ask(requests):
                            yield each
                        yield AgentRunResultEvent(AgentRunResult(requests))
                        return
                elif event.kind in ("run_ended", "run_interrupted"):
                    for each in view.end(_field(event, "words")):
                        yield each
                    _check_end(event)
                    yield AgentRunResultEvent(AgentRunResult(view.text))
                    return
                elif event.kind == "tool_started" and not event.path:
                    args = await self._args(runs, event)
                    # Under the name of its question: as it is, an id may be the path of another call.
                    for each in view.call(
                        ToolCallPart(_field(event, "tool"), args, call_path(_field(event, "call_id")))
                    ):
                        yield each
                elif event.kind == "tool_ended" and (name := await self._name(runs, event)):
                    outcome: Any = OUTCOMES.get(_field(event, "outcome"), _field(event, "outcome"))
                    result = await self._result(runs, event)
                    for each in view.result(ToolReturnPart(_field(event, "tool"), result, name, outcome=outcome)):
                        yield each
                else:
                    for each in view.translate(event):
                        yield each
        raise Refused("the server stopped: send the request again")

    async def _name(self, runs: Sessions, event: Event) -> str:
        """The name of a call for the client; "" for a subagent's own affair, whose result is that of its `task`."""
        tool, call_id = _field(event, "tool"), _field(event, "call_id")
        if not event.path:
            return call_path(call_id)
        found = [each for each in self._answered if each.agent and (each.tool, each.call_id) == (tool, call_id)]
        if len(found) > 1:  # of several subagents: their arguments tell them apart
            args = json.loads(await self._args(runs, event))
            found = [each for each in found if each.args == args] or found
        if not found:
            return ""
        self._answered.remove(found[0])
        return found[0].path

    async def _args(self, runs: Sessions, event: Event) -> str:
        # Not those of the event: they are for people to read, and cut.
        try:
            return (await runs.call(self._id, _field(event, "call_id"), event.path)).args
        except LookupError:  # a rewind took it back
            return "{}"

    async def _result(self, runs: Sessions, event: Event) -> str:
        text = _field(event, "result")
        if _field(event, "outcome") == "failed" or not CUT.search(text):
            return text
        try:
            return (await runs.call(self._id, _field(event, "call_id"), event.path)).result or text
        except LookupError:
            return text

    async def _asked(self, runs: Sessions, event: Event) -> WaitingCalls | None:
        """Return the calls that wait, if they are those of the event: each question under its own name."""
        requests = await runs.waiting(self._id)
        if requests is None:
            return None
        calls = {call.tool_call_id for call in (*requests.approvals, *requests.calls)}
        if calls != {*event.to_json()["calls"]}:
            return None  # these were answered
        found = WaitingCalls(approval=requests.approval)
        for question in questions_of(requests):
            call = ToolCallPart(question.tool, {**question.args}, question.path)
            (found.calls if question.text else found.approvals).append(call)
            about: dict[str, Any] = {"plugin": question.plugin, "identity": question.identity}
            about |= {"reason": question.reason, "reasons": [each._asdict() for each in question.reasons]}
            about["subagent"] = question.agent
            found.metadata[question.path] = {name: value for name, value in about.items() if value}
        return found


def _check_end(event: Event) -> None:
    status = _field(event, "status")
    if status == "aborted":
        raise RunCancelled("the run was stopped")
    if status != "completed":
        raise Refused(_field(event, "message") or "the run was interrupted")


def _field(event: Event, name: str) -> str:
    return str(event.to_json().get(name, ""))


class _View:
    """Turns events of a session into those of Pydantic AI."""

    def __init__(self) -> None:
        self.text = ""
        """The last text of the model."""
        self._open: TextPart | ThinkingPart | None = None
        self._index = -1
        self._parts: list[TextPart | ThinkingPart] = []
        """What the client has of the message that the model is writing."""
        self._calls: set[str] = set()

    def translate(self, event: Event) -> Iterator[Shown]:
        """Yield what text changes for the client."""
        text = _field(event, "text")
        if event.depth:
            return
        if event.kind == "text_added":
            yield from self._add(TextPart(text), TextPartDelta(content_delta=text))
        elif event.kind == "thinking_added":
            yield from self._add(ThinkingPart(text), ThinkingPartDelta(content_delta=text))
        elif event.kind == "message_added" and _field(event, "role") == "assistant":
            # Pieces are in memory only: who is late gets the rest at once.
            begun = self._parts if self._open is None else [*self._parts, self._open]
            written = "".join(part.content for part in begun if isinstance(part, TextPart))
            if missing := text.removeprefix(written):
                yield from self._add(TextPart(missing), TextPartDelta(content_delta=missing))
            yield from self.close()
            self.text, self._parts = text, []
        elif event.kind == "request_retried" and event.to_json().get("replaces"):
            yield from self.close()
            if self._parts:
                yield Again(_field(event, "words"), self._parts)
            self._parts = []

    def call(self, part: ToolCallPart) -> Iterator[NativeEvent]:
        """Yield a call."""
        yield from self.close()
        self._index += 1
        self._calls.add(part.tool_call_id)
        yield PartStartEvent(index=self._index, part=part)
        yield PartEndEvent(index=self._index, part=part)
        yield FunctionToolCallEvent(part, args_valid=True)

    def result(self, part: ToolReturnPart) -> Iterator[NativeEvent]:
        """Yield a result."""
        yield from self.close()
        yield FunctionToolResultEvent(part)

    def ask(self, requests: WaitingCalls) -> Iterator[NativeEvent]:
        """Yield the calls that wait and that the client does not know: those of subagents."""
        yield from self.close()
        for call in (*requests.approvals, *requests.calls):
            if call.tool_call_id not in self._calls:
                yield from self.call(call)

    def end(self, words: str) -> Iterator[NativeEvent]:
        """End the answer, and say why it is not whole; "" for one that is."""
        yield from self.close()
        if words:
            text = f"\n\nThis answer is not whole: {words}\n"
            yield from self._add(TextPart(text), TextPartDelta(content_delta=text))
            yield from self.close()

    def close(self) -> Iterator[NativeEvent]:
        """End the part that is open."""
        if self._open is not None:
            yield PartEndEvent(index=self._index, part=self._open)
            self._parts.append(self._open)
            self._open = None

    def _add(self, part: TextPart | ThinkingPart, delta: TextPartDelta | ThinkingPartDelta) -> Iterator[NativeEvent]:
        if self._open is not None and self._open.part_kind == part.part_kind:
            self._open = replace(self._open, content=self._open.content + part.content)
            yield PartDeltaEvent(index=self._index, delta=delta)
            return
        yield from self.close()
        self._index += 1
        self._open = part
        yield PartStartEvent(index=self._index, part=part)
