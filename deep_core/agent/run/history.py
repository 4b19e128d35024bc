"""Run the history processors before each request, and append live sections whose text has changed.

One place does both because they depend on each other: redactors must see what is appended, and a live text that a
reducer removed must be appended again.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pydantic_ai.messages import ModelMessage, ModelRequest, TextContent, UserPromptPart
from pydantic_ai.models import ModelRequestContext

from ...errors import describe_error, reraise_control
from ...plugins.contributions import Contribution, Processor, StateSlot
from .._pydantic_ai import await_maybe, is_async_callable, run_in_executor, takes_run_context
from .observers import Observers, where
from .session import session

if TYPE_CHECKING:
    from ...plugins.dispatch import Incidents
    from ...tracing import Tracer
    from ..sections import PromptSection
    from .session import Ctx

LIVE_LIMIT = 8_000
"""Most characters of one live text in the conversation: text from files and users must not flood it."""
FRAME = '<context id="{name}">\n{text}\n</context>'
"""A live text is data in a user turn. As a system prompt it would change the prefix: adapters without a system role
(Anthropic's) explain such messages there as soon as there is one."""
MARK = "deep_live"
"""The key of a live text's section and revision, in the metadata of its part. A text that only looks like a frame has
none: metadata is stored and never sent, and UI adapters drop a client's metadata."""
_EDGE = re.compile(r"<(?=[\s/]*context\b)", re.I)
"""Anything in a text that a model may read as the frame's own edge."""


class SentLiveText(NamedTuple):
    """A live section's text in a conversation.

    Attributes:
        section: `plugin.section`.
        revision: of the text before redaction, to tell a changed text from a redacted one.
        text: with its frame.
    """

    section: str
    revision: str
    text: str


@dataclass(eq=False, repr=False)
class LiveSent:
    """The revision that this run last sent of each live section, by `plugin.section`."""

    run_id: str | None = None
    revisions: dict[str, str] = field(default_factory=dict[str, str])
    clean: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Section -> its last text, as returned and as sanitized: sanitizing 4,000 characters takes 0.25 ms."""
    redacted: Sequence[ModelMessage] = ()
    """The messages of the last request, as the redactors left them."""


LIVE: StateSlot[LiveSent] = StateSlot("deep_live", LiveSent, LiveSent, persist=False)
"""Not persisted: the first request of a run reads it from the history, which is right after a fork too."""


def sanitize(text: str) -> str:
    """Truncate a live text, remove its control characters, and escape whatever could close its frame."""
    text = "".join(c for c in text if c in "\n\t" or c.isprintable())
    text = _EDGE.sub(r"<\\", text)
    if len(text) > LIVE_LIMIT:
        text = text[:LIVE_LIMIT] + f"\n… ({len(text) - LIVE_LIMIT} more characters)"
    return text.strip()


@dataclass(eq=False, repr=False)
class History:
    """The processors and live sections of one agent.

    Attributes:
        live: the live sections, in order.
        processors: the history processors, by phase, then in plugin order.
        tracer: traces the sections.
        incidents: records failures.
        observers: hear of compaction.
    """

    live: Sequence[Contribution[PromptSection]]
    processors: Sequence[Contribution[Processor]]
    tracer: Tracer
    incidents: Incidents
    observers: Observers
    _forms: dict[int, Form] = field(default_factory=dict[int, "Form"], init=False, repr=False, compare=False)
    """By the identity of a processor, which lives as long as this object."""

    async def prepare(self, ctx: Ctx, request: ModelRequestContext, offered: frozenset[str]) -> None:
        """Change the request's messages, and the stored ones, before it is sent."""
        added = await self._speak(ctx, offered, request.messages, again=False)
        if added is None and not self.processors:
            return
        stored, sent = [*ctx.messages], [*request.messages]
        if added is not None:
            stored.append(added)
            sent.append(added)
        for phase, processors in groupby(self.processors, attrgetter("value.phase")):
            before = sent
            for processor in processors:
                stored, sent = await self._process(ctx, processor, stored, sent)
            if phase == "reduce" and self.live and _cut(before, sent):
                # The reducer removed messages, perhaps with live texts: append those again.
                added = await self._speak(ctx, offered, sent, again=True)
                if added is not None:
                    stored.append(added)
                    sent = [*sent, added]
                    for processor in self.redactors:
                        stored, sent = await self._process(ctx, processor, stored, sent)
        ctx.messages[:] = stored
        request.messages = session(ctx).state[LIVE].redacted = sent

    async def redact(self, ctx: Ctx, request: ModelRequestContext) -> None:
        """Redact an attempt's messages again if another capability has changed them since `prepare`."""
        if _changed(session(ctx).state[LIVE].redacted, request.messages):
            for processor in self.redactors:
                _, request.messages = await self._process(ctx, processor, [], request.messages)

    @cached_property
    def redactors(self) -> Sequence[Contribution[Processor]]:
        """The processors that redact."""
        return [processor for processor in self.processors if processor.value.phase == "redact"]

    async def _process(
        self, ctx: Ctx, processor: Contribution[Processor], stored: list[ModelMessage], sent: list[ModelMessage]
    ) -> tuple[list[ModelMessage], list[ModelMessage]]:
        rule = processor.value
        try:
            # Copies: a failure changes nothing.
            messages = await self._form(rule)(replace(ctx, messages=[*sent]), [*sent])
            if not messages:
                raise ValueError("a history processor returned no messages")
        except BaseException as error:
            reraise_control(error)
            error.add_note(f"plugin {processor.plugin}, processor {rule.name}")
            if rule.stops:
                raise
            where, effect = f"processor {rule.name}", "the history stays as it was"
            self.incidents.record(processor.plugin, where, error, effect)
            if rule.phase == "reduce":
                await self._report(ctx, processor, sent, sent, describe_error(error))
            return stored, sent
        if rule.phase == "reduce" and _cut(sent, messages):
            await self._report(ctx, processor, sent, messages)
        return ([*messages] if rule.persist else stored), messages

    async def _report(
        self,
        ctx: Ctx,
        processor: Contribution[Processor],
        before: Sequence[ModelMessage],
        after: Sequence[ModelMessage],
        error: str | None = None,
    ) -> None:
        if self.observers.listeners:
            from .events import CompactionEvent

            plugin, name, old, new = processor.plugin, processor.value.name, len(before), len(after)
            event = CompactionEvent(
                **where(ctx), plugin=plugin, processor=name, messages_before=old, messages_after=new, error=error
            )
            await self.observers.send(event)

    def _form(self, rule: Processor) -> Form:
        if id(rule) not in self._forms:
            self._forms[id(rule)] = as_form(rule.fn)
        return self._forms[id(rule)]

    async def _speak(
        self, ctx: Ctx, offered: frozenset[str], messages: Sequence[ModelMessage], *, again: bool
    ) -> ModelRequest | None:
        if not self.live:
            return None
        said = session(ctx).state[LIVE]
        if again or said.run_id != ctx.run_id:
            said.run_id = ctx.run_id
            said.revisions = {name: text.revision for name, text in last_live_texts(messages).items()}
        revisions = said.revisions  # another run of this session may replace them meanwhile
        parts: list[UserPromptPart] = []
        for section in self.live:
            name = f"{section.plugin}.{section.value.name}"
            text = await self._text(replace(ctx, messages=[*messages]) if again else ctx, section, offered, said.clean)
            if text is None or (not text and name not in revisions):
                continue
            revision = sha256(text.encode()).hexdigest()[:8]
            if revision != revisions.get(name):
                revisions[name] = revision
                parts.append(_marked(name, revision, text))
        if not parts:
            return None
        return ModelRequest(parts=parts, run_id=ctx.run_id, conversation_id=ctx.conversation_id)

    async def _text(
        self, ctx: Ctx, section: Contribution[PromptSection], offered: frozenset[str], clean: dict[str, tuple[str, str]]
    ) -> str | None:
        """Return the current text; "" for none; None if the section failed, so that the last text stays."""
        rule = section.value
        if rule.fn is None or not offered.issuperset(rule.needs):
            return ""
        try:
            with self.tracer.step(section.plugin, "section", rule.name, ctx):
                returned: Any = rule.fn(ctx)
                text: Any = await returned if inspect.isawaitable(returned) else returned
            if text is not None and not isinstance(text, str):
                raise TypeError(f"a live section returns text or None, not {type(text).__name__}")
        except BaseException as error:
            reraise_control(error)
            self.incidents.record(section.plugin, f"section {rule.name}", error, "its last text stays")
            return None
        if not text:
            return ""
        name = f"{section.plugin}.{rule.name}"
        if name not in clean or clean[name][0] != text:
            clean[name] = (text, sanitize(text))
        return clean[name][1]


Form: TypeAlias = "Callable[[Ctx, list[ModelMessage]], Awaitable[list[ModelMessage]]]"
"""The one form to which `as_form` converts every history processor that Pydantic AI accepts."""


def as_form(processor: Any) -> Form:
    """Convert a processor to `Form`. Reads its signature once: that takes longer than most processors run.

    Raises:
        UserError: its annotations cannot be resolved.
    """
    # Pydantic AI looks only at annotations; a function without any that needs two arguments must want the context.
    takes_context = takes_run_context(processor) or _needs(processor) == 2
    is_async = is_async_callable(processor)

    async def process(ctx: Ctx, messages: list[ModelMessage]) -> list[ModelMessage]:
        given: tuple[Any, ...] = (ctx, messages) if takes_context else (messages,)
        if is_async:
            return await processor(*given)
        return await await_maybe(await run_in_executor(processor, *given))

    return process


def _needs(function: Callable[..., Any]) -> int:
    """Return the number of a function's required positional arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some builtins have no signature
        return 0
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _marked(name: str, revision: str, text: str) -> UserPromptPart:
    mark = {MARK: {"section": name, "revision": revision}}
    return UserPromptPart([TextContent(FRAME.format(name=name, text=text), metadata=mark)])


def live_text(part: object) -> SentLiveText | None:
    """Return the live text in a part of a message; None for any other part."""
    if not isinstance(part, UserPromptPart) or isinstance(part.content, str) or len(part.content) != 1:
        return None
    item = part.content[0]
    match item:
        case TextContent(metadata={"deep_live": {"section": str(section), "revision": str(revision)}}):
            return SentLiveText(section, revision, item.content)
        case _:
            return None


def last_live_texts(messages: Sequence[ModelMessage]) -> dict[str, SentLiveText]:
    """Return the last text of each live section in a conversation, by `plugin.section`."""
    requests = (message for message in messages if isinstance(message, ModelRequest))
    texts = (live_text(part) for request in requests for part in request.parts)
    return {text.section: text for text in texts if text is not None}


def _cut(before: Sequence[ModelMessage], after: Sequence[ModelMessage]) -> bool:
    return len(after) < len(before) or not all(map(is_, before, after))


def _changed(before: Sequence[ModelMessage], after: Sequence[ModelMessage]) -> bool:
    return len(after) != len(before) or not all(map(is_, before, after))
