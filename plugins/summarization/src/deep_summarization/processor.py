"""The history processor: decide when, cut, request the summary, and build the new history."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast, overload

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import AbstractModel, Model, infer_model_profile
from pydantic_ai.tools import RunContext

from deep_core import DeepAgentDeps
from deep_core.plugin_api import live_text

from .counting import Tally, TokenCounter, count_tokens_approximately, responses
from .earlier import Earlier
from .failed import SummaryFailed
from .frames import is_summary, without_frame
from .options import StoredLimits, SummarizationOptions
from .prompt import DEFAULT_SUMMARY_PROMPT, filled
from .sizes import DEFAULT_KEEP, DEFAULT_WINDOW, ContextSize, checked_size, checked_triggers, in_tokens
from .slot import LAST_FAILURE, LastFailure

__all__ = ["SummarizationProcessor", "create_summarization_processor", "from_options", "window_of"]

logger = logging.getLogger("deep.summarization")

GROWTH = 1.05
"""Summarize again only after the messages have grown by a twentieth since the last summary or failure:
parts that no cut removes (large schemas, a long tail) must not cost a call per request. At the default trigger
of 0.85 this leaves three more attempts after a failure before the window is full."""
PAUSE = 4
"""Messages (two tool calls or turns) that must also pass after a failure, unless the history grew by a fifth."""
ALARM = 1.2
INPUT_SHARE = 0.75
"""Share of the summary model's window for the conversation; the rest is for prompt, answer and error."""
SUMMARY_SHARE = 4
MOST_SUMMARY = 16_000
"""Maximum tokens of a summary; also a quarter of the window. A longer one would not last."""
SMALL_WINDOW = 32_000
"""Up to this window, a summary is stopped at its largest size: a small model may go on until the window is full."""
EXTRACT_SHARE = 0.125
"""Share of the window for the beginning of a history that no summary replaces."""
EXTRACT = "No summary could be written ({why}). What was said up to here, shortened:"
SHORTENED = "What was said up to here, shortened:"
ANSWER_SHARE = 0.0625
"""Share of the window to leave for the answer, where the history has to fit."""
SQUEEZED = (1, 0.5, 0.25, 0.12, 0.06)
"""Shares of a summary and of the user's words that are tried in turn, where the history has to fit."""
PATH = 40
"""Tokens of the line that says where the replaced messages are, about."""
LAST_MESSAGE: ContextSize = ("messages", 1)
"""What to keep where a person asks for a summary: what follows the conversation."""
LOOK_BACK = 20
"""Messages to search for the instructions of the last request, so that no step scans them all."""
REMEMBERED = 1_000
"""Maximum conversations outside of deep sessions whose last failure is cached."""


@dataclass
class SummarizationProcessor:
    """Replace the beginning of a long history by a summary. For `ProcessHistory(processor)` in any agent.

    If the summary fails, the history is unchanged, byte for byte: the failure is logged, and retried
    only after the history has grown. The processor holds no conversation: one serves all sessions.

    Attributes:
        model: writes the summary; None means the run's model.
        trigger: when: a size or a list of sizes, any of which is enough; None means 85 % of the window.
        keep: how much of the end to keep. A tool call stays with its result, and the tail is limited to half of a
            trigger in tokens (three quarters if `keep` counts tokens), so that one summary does not trigger the next.
        token_counter: counts the tokens of messages; called with one message at a time, once for each.
        summary_prompt: `{messages}` in it becomes the conversation; other braces are unchanged.
        max_input_tokens: the window of the run's model; None means its profile's, else `fallback_window`.
        trim_tokens_to_summarize: maximum tokens of the conversation for the summary's model; None means three
            quarters of its window.
        seconds: time limit of a summary.
        store_history: store the replaced messages in the run's workspace.
        stored_limits: how much a session may store, and how long; None means the defaults.
        fallback_window: window of a model without a known one; None means 128,000, except that a fraction
            of a `model` without a known window is an error.
        log: logs failures.

    Raises:
        ValueError: an invalid size; a fraction of an unknown window.
    """

    model: Model[Any] | str | None = None
    trigger: ContextSize | list[ContextSize] | None = None
    keep: ContextSize = DEFAULT_KEEP
    token_counter: TokenCounter = count_tokens_approximately
    summary_prompt: str = DEFAULT_SUMMARY_PROMPT
    max_input_tokens: int | None = None
    trim_tokens_to_summarize: int | None = None
    seconds: float = 120
    store_history: bool = True
    stored_limits: StoredLimits | None = None
    fallback_window: int | None = None
    log: logging.Logger = field(default=logger, repr=False)
    _tally: Tally = field(init=False, repr=False, compare=False)
    _triggers: tuple[ContextSize, ...] = field(init=False, repr=False, compare=False)
    _failures: OrderedDict[str, LastFailure] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._triggers = checked_triggers(self.trigger)
        self.keep = checked_size(self.keep, "keep")
        self._tally = Tally(self.token_counter)
        self._failures = OrderedDict()
        asked = self.keep[0] == "fraction" or (
            self.trigger is not None and any(kind == "fraction" for kind, _ in self._triggers)
        )
        if self.max_input_tokens is not None:
            if self.max_input_tokens <= 0:
                raise ValueError(f"max_input_tokens must be greater than 0, got {self.max_input_tokens}.")
        elif asked and self.model is not None and self.fallback_window is None and window_of(self.model) is None:
            raise ValueError(
                f"a fraction needs the model's window, and that of {_name(self.model)} is not known: "
                'give max_input_tokens, or sizes in ("tokens", n)'
            )

    @overload
    async def __call__(self, ctx: list[ModelMessage], /) -> list[ModelMessage]: ...
    @overload
    async def __call__(self, ctx: RunContext[Any], messages: list[ModelMessage], /) -> list[ModelMessage]: ...
    async def __call__(  # pyright: ignore[reportInconsistentOverload]
        self, ctx: RunContext[Any], messages: list[ModelMessage] | None = None
    ) -> list[ModelMessage]:
        """Return the history to continue with: the same list if nothing was done.

        Pydantic AI calls it with the run's context, an application with the messages alone (then `model` must be set).
        """
        run = None if messages is None else ctx
        history = cast("list[ModelMessage]", ctx) if messages is None else messages
        try:
            return await self._process(run, history)
        except SummaryFailed as error:
            self.log.warning("%s; the history is unchanged", error)
            return history

    async def compact(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        """Summarize, but raise for the kernel, which records the failure under the plugin's name.

        Raises:
            SummaryFailed: there is no summary; the messages are unchanged.
        """
        return await self._process(ctx, messages)

    def tokens(self, ctx: RunContext[Any], messages: Sequence[ModelMessage], *, whole: bool) -> int:
        """Return about how many tokens a request with these messages has.

        Args:
            ctx: the run.
            messages: the messages.
            whole: whether they are the whole history: then the provider's count of the last request helps.
        """
        own = self._tally.total(messages) + self._fixed(ctx, messages)
        return max(own, self._reported(messages, Earlier.of(messages))) if whole else own

    async def _process(self, ctx: RunContext[Any] | None, given: list[ModelMessage]) -> list[ModelMessage]:
        if not given or _suspended(given[-1]):
            return given
        window = self._window(ctx)
        own = self._tally.total(given)
        fixed = self._fixed(ctx, given)
        earlier = Earlier.of(given)
        used = max(own + fixed, self._reported(given, earlier))
        asked = _asked(ctx)
        must = self._must(ctx, asked, used, window)
        if asked is None and not must and not self._is_time(ctx, given, own, used, window, earlier):
            return given
        from .cutting import choose_cut, parted  # and more in `_replaced`: most runs never need it

        messages = parted(given) if must else given
        dense = max(1, used / max(1, own + fixed))
        # In the provider's tokens: the cut must count like the trigger.
        counts = [int(count * dense) for count in self._tally.each(messages)]
        keep = LAST_MESSAGE if asked is not None and asked.by_hand else self.keep
        cut = choose_cut(messages, counts, keep=keep, triggers=self._triggers, window=window, fixed=int(fixed * dense))
        # It would only summarize a summary; with what was said since, there is more.
        if cut is None or (cut == 1 and earlier.number and not must):
            if asked is not None:
                asked.why_not = "there is nothing to compact yet"
            return given
        over = (asked.over or own + fixed - window) if asked is not None else used - window
        most = self._tally.total(messages[:cut]) - max(0, over) - int(window * ANSWER_SHARE) if must else None
        replaced = partial(self._replaced, ctx, messages, cut, earlier, window, dense, most)
        if cut == 1 and earlier.number and not _has_more(messages[0]):
            return await replaced(why_none="there is no room for one")
        failure = self._failure(ctx, messages)
        if must and failure is not None and not _grown_since(failure, len(messages), own):
            return await replaced(why_none=failure.reason)  # a second failure would take a person's time again
        try:
            keep = asked.keep if asked is not None else ""
            keep = await self._before(ctx, keep, by_hand=asked is not None and asked.by_hand, must=must)
            return await replaced(above_all=keep)
        except SummaryFailed as error:
            self._remember(ctx, messages, LastFailure(_conversation(ctx), len(messages), own, str(error)))
            if must:
                self.log.warning("%s; the beginning is shortened without a summary, so that the rest fits", error)
                return await replaced(why_none=str(error))
            if asked is not None:
                asked.why_not = str(error)
            raise

    async def _before(self, ctx: RunContext[Any] | None, keep: str, *, by_hand: bool, must: bool) -> str:
        """Ask deep-folders' hooks; return what to keep above all, as they add to it.

        Raises:
            SummaryFailed: one of them does not want a summary now, and the history fits without one.
        """
        session = _session(ctx)
        ask = None if session is None else session.state.get("before_compaction")
        if ask is None:
            return keep
        why_not, more = await ask(ctx, by_hand, keep)
        if why_not and not must:
            raise SummaryFailed(why_not)
        return "\n\n".join(filter(None, (keep, more)))

    def _must(self, ctx: RunContext[Any] | None, asked: Any, used: int, window: int) -> bool:
        """Whether the history has to become shorter, with a summary or without: the request does not fit.

        The provider said so, or the window is known: some servers cut what does not fit, and say nothing.
        """
        if asked is not None:
            return not asked.by_hand
        session = _session(ctx)
        return session is not None and session.state.get("model_window") is not None and used >= window

    def _is_time(
        self,
        ctx: RunContext[Any] | None,
        messages: Sequence[ModelMessage],
        own: int,
        used: int,
        window: int,
        earlier: Earlier,
    ) -> bool:
        """Whether a trigger is met, and the last summary did not fail a short time ago."""
        if not self._due(len(messages), own, used, window, earlier):
            return False
        failure = self._failure(ctx, messages)
        return failure is None or _grown_since(failure, len(messages), own)

    async def _replaced(
        self,
        ctx: RunContext[Any] | None,
        messages: list[ModelMessage],
        cut: int,
        earlier: Earlier,
        window: int,
        dense: float,
        most: int | None,
        *,
        above_all: str = "",
        why_none: str = "",
    ) -> list[ModelMessage]:
        """`dense`: how many of the provider's tokens are in one of ours, if known to be more than one.

        `most`: tokens that the new beginning may have; None for any number. `above_all`: what the user wants to keep;
        "" if nothing was said. `why_none`: why no model writes a summary.
        """
        from .compacted import REQUEST_CHARS, head_message
        from .transcript import transcript

        gone, tail = messages[:cut], messages[cut:]
        before = self._tally.total(gone)
        if why_none:
            limit = int(min(window * EXTRACT_SHARE / dense, before / 2))
            summary = transcript(_unframed(gone), limit, self._tally.text)
            frame = EXTRACT.format(why=why_none)
        else:
            summary, frame = await self._summary(ctx, gone, window, dense, above_all), ""
        chars = min(REQUEST_CHARS, window // 4)
        build = partial(head_message, gone, tail, summary, earlier=earlier, most_chars=chars, frame=frame)
        if most is not None and self._tally.one(build(brief=False)) + PATH > most:
            await self._store(ctx, gone, earlier)  # for people: the path would be too much for the model
            squeezed = partial(head_message, gone, tail, earlier=earlier, frame=frame and SHORTENED)
            head = self._squeezed(squeezed, summary, chars, tail, most)
            self.log.info("shortened %d messages: %d tokens became %d", cut, before, self._tally.one(head))
            return [head, *tail]
        brief = self._tally.one(build(brief=False)) >= before
        size = self._tally.one(build(brief=brief))
        if size >= before:
            raise SummaryFailed(f"the summary has {size} tokens, not fewer than the {before} it would replace")
        stored, why_not = await self._store(ctx, gone, earlier)
        # The line with the path may be too much.
        brief = brief or self._tally.one(build(brief=False, stored=stored, why_not=why_not)) >= before
        head = build(brief=brief, stored=stored, why_not=why_not)
        tokens = self._tally.one(head) + self._tally.total(tail)
        self.log.info("summarized %d messages: %d tokens became %d", cut, before, self._tally.one(head))
        return [build(brief=brief, stored=stored, why_not=why_not, tokens=tokens), *tail]

    def _squeezed(
        self, build: Callable[..., ModelRequest], summary: str, chars: int, tail: Sequence[ModelMessage], most: int
    ) -> ModelRequest:
        """Return the fullest beginning that has at most so many tokens, or the smallest that there is."""
        from .transcript import shortened

        behind = self._tally.total(tail)
        for share in SQUEEZED:
            text = shortened(summary, int(len(summary) * share))
            for brief in (False, True):
                made = partial(build, text, brief=brief, most_chars=int(chars * share))
                tokens = self._tally.one(made())
                if tokens <= most or (brief and share == SQUEEZED[-1]):
                    return made(tokens=tokens + behind)
        raise AssertionError("the smallest is always returned")

    async def _summary(
        self, ctx: RunContext[Any] | None, gone: Sequence[ModelMessage], window: int, dense: float, above_all: str
    ) -> str:
        from .summarize import write_summary
        from .transcript import transcript

        model = self._writer(ctx)
        theirs = min(window_of(model) or window, window)
        limit = self.trim_tokens_to_summarize or int(theirs * INPUT_SHARE / dense)
        text = transcript(gone, limit, self._tally.text)
        most = min(MOST_SUMMARY, max(1, window // SUMMARY_SHARE))
        return await write_summary(
            model,
            filled(self.summary_prompt, text, above_all),
            ctx=ctx,
            seconds=self.seconds,
            most_tokens=most,
            count=self._tally.text,
            stop_at=most if window <= SMALL_WINDOW else None,
        )

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def _window(self, ctx: RunContext[Any] | None) -> int:
        known = window_of(ctx.model if ctx is not None else self.model)
        session = _session(ctx)
        if session is not None and (said := session.state.get("model_window")) is not None:
            known = said.tokens  # deep-sessions asked the server, or an overflow showed it
            if said.source != "list" and self.max_input_tokens is not None:
                return min(known, self.max_input_tokens)  # more than the server has is never there
        return self.max_input_tokens or known or self.fallback_window or DEFAULT_WINDOW

    def _fixed(self, ctx: RunContext[Any] | None, messages: Sequence[ModelMessage]) -> int:
        """Tokens in every request: the instructions and the visible tools."""
        latest = next(
            (m.instructions for m in reversed(messages) if isinstance(m, ModelRequest) and m.instructions), ""
        )
        tokens = self._tally.standing(latest) if latest else 0
        tools = ctx.tool_manager.tools if ctx is not None and ctx.tool_manager is not None else None
        shown = (tool.tool_def for tool in (tools or {}).values() if not tool.tool_def.defer_loading)
        return tokens + sum(map(self._tally.tool, shown))

    def _reported(self, messages: Sequence[ModelMessage], earlier: Earlier) -> int:
        """The provider's count up to its last answer, plus newer messages; 0 if it does not apply.

        An estimate by characters is low for some languages, and an overflow ends the run. A custom counter
        is trusted, and a count from before a summary belongs to another history.
        """
        if self.token_counter is not count_tokens_approximately:
            return 0
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if isinstance(message, ModelResponse):
                counted = message.usage.input_tokens + message.usage.output_tokens
                if not counted or (earlier.number and responses(messages) <= earlier.responses):
                    return 0
                return counted + sum(map(self._tally.one, messages[index + 1 :]))
        return 0

    def _due(self, messages: int, own: int, used: int, window: int, earlier: Earlier) -> bool:
        """Whether a trigger is met, by a history that has grown enough since its last summary."""
        if earlier.number and own < earlier.tokens * GROWTH:
            return False
        for trigger in self._triggers:
            limit = in_tokens(trigger, window)
            if limit is not None:
                if used >= limit:
                    return True
            elif messages >= max(int(trigger[1]), earlier.messages + int(trigger[1]) // 4):
                return True
        return False

    # -- failures ------------------------------------------------------------------------------------------------------

    def _failure(self, ctx: RunContext[Any] | None, messages: Sequence[ModelMessage]) -> LastFailure | None:
        session = _session(ctx)
        if session is not None:
            last = session.state[LAST_FAILURE]
            return last if last.messages and last.conversation == _conversation(ctx) else None
        return self._failures.get(_key(ctx, messages))

    def _remember(self, ctx: RunContext[Any] | None, messages: Sequence[ModelMessage], failure: LastFailure) -> None:
        session = _session(ctx)
        if session is not None:
            session.state[LAST_FAILURE] = failure
            return
        # Without a session: by conversation, or for a direct call by the history's beginning.
        self._failures[_key(ctx, messages)] = failure
        while len(self._failures) > REMEMBERED:
            self._failures.popitem(last=False)

    # -- the run -------------------------------------------------------------------------------------------------------

    def _writer(self, ctx: RunContext[Any] | None) -> Model[Any] | str:
        if self.model is not None:
            return self.model
        model: object = None if ctx is None else ctx.model
        if isinstance(model, Model):
            return cast("Model[Any]", model)
        raise SummaryFailed("no model to write the summary: pass SummarizationProcessor(model=…)")

    async def _store(
        self, ctx: RunContext[Any] | None, gone: Sequence[ModelMessage], earlier: Earlier
    ) -> tuple[str | None, str | None]:
        """Store the cut messages; return the path, or why that failed.

        The conversation continues anyway: without the cut it would end."""
        if ctx is None or not self.store_history:
            return None, None
        from .stored_files import stored_files

        try:
            data = ModelMessagesTypeAdapter.dump_json([*gone])
            what = f"messages-{earlier.number + 1:03}"
            return await stored_files(ctx, self.stored_limits).store(ctx.workspace, what, data, "json"), None
        except Exception as error:  # noqa: BLE001 - a backend may raise anything; the model and the log get it
            self.log.warning("%d summarized messages could not be stored: %s", len(gone), error)
            return None, f"the workspace could not store them ({type(error).__name__})"


def create_summarization_processor(
    model: Model[Any] | str | None = None,
    trigger: ContextSize | list[ContextSize] | None = None,
    keep: ContextSize = DEFAULT_KEEP,
    max_input_tokens: int | None = None,
    token_counter: TokenCounter | None = None,
    summary_prompt: str | None = None,
) -> SummarizationProcessor:
    """Create a `SummarizationProcessor`; None means its default.

    Raises:
        ValueError: see `SummarizationProcessor`.
    """
    return SummarizationProcessor(
        model=model,
        trigger=trigger,
        keep=keep,
        max_input_tokens=max_input_tokens,
        token_counter=token_counter or count_tokens_approximately,
        summary_prompt=summary_prompt or DEFAULT_SUMMARY_PROMPT,
    )


def from_options(options: SummarizationOptions, log: logging.Logger) -> SummarizationProcessor:
    """Create the plugin's processor: an unknown window is no error here, since the user did not choose a fraction."""
    return SummarizationProcessor(
        model=options.model,
        trigger=cast("list[ContextSize]", list(options.trigger)),
        keep=cast("ContextSize", options.keep),
        max_input_tokens=options.max_input_tokens,
        summary_prompt=options.summary_prompt or DEFAULT_SUMMARY_PROMPT,
        trim_tokens_to_summarize=options.trim_tokens_to_summarize,
        seconds=options.summary_seconds,
        store_history=options.store_history,
        stored_limits=options.stored_limits,
        fallback_window=DEFAULT_WINDOW,
        log=log,
    )


def window_of(model: AbstractModel | str | None) -> int | None:
    """Return the tokens of a model's window; None if unknown.

    It is in the model's profile, which Pydantic AI fills from genai-prices.
    """
    if isinstance(model, str):
        try:
            profile = cast("Mapping[str, Any]", infer_model_profile(model))
        except (UserError, ValueError, ImportError):
            return None
        window = profile.get("context_window")
        return window if isinstance(window, int) else None
    return None if model is None else model.context_window


def _name(model: Model[Any] | str) -> str:
    return model if isinstance(model, str) else model.model_name


def _session(ctx: RunContext[Any] | None) -> DeepAgentDeps[Any] | None:
    deps: object = None if ctx is None else ctx.deps
    return cast("DeepAgentDeps[Any]", deps) if isinstance(deps, DeepAgentDeps) else None


def _asked(ctx: RunContext[Any] | None) -> Any:
    """Return what deep-sessions notes if the history must become shorter now: a person asks, or the window is full."""
    session = _session(ctx)
    return None if session is None else session.state.get("compaction")


def _conversation(ctx: RunContext[Any] | None) -> str | None:
    return None if ctx is None else ctx.conversation_id or ctx.run_id


def _key(ctx: RunContext[Any] | None, messages: Sequence[ModelMessage]) -> str:
    return _conversation(ctx) or f"by hand: {messages[0].timestamp}, {repr(messages[0].parts)[:200]}"


def _grown_since(failure: LastFailure, messages: int, tokens: int) -> bool:
    if tokens >= failure.tokens * ALARM:
        return True
    return messages >= failure.messages + PAUSE and tokens >= failure.tokens * GROWTH


def _unframed(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the messages with an earlier summary as it was written."""
    first = messages[0]
    if not isinstance(first, ModelRequest) or not any(map(is_summary, first.parts)):
        return [*messages]
    parts = [without_frame(part) if isinstance(part, UserPromptPart) else part for part in first.parts]
    return [replace(first, parts=parts), *messages[1:]]


def _has_more(message: ModelMessage) -> bool:
    """Whether a message has a prompt that is no summary."""
    prompts = [part for part in message.parts if isinstance(part, UserPromptPart) and live_text(part) is None]
    return not all(map(is_summary, prompts))


def _suspended(message: ModelMessage) -> bool:
    """A response that the provider will finish later; nothing may come between it and its continuation."""
    return isinstance(message, ModelResponse) and message.state == "suspended"
