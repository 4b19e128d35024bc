"""The wrapper around the model of each request."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import (
    FinalResultEvent,
    FinishReason,
    ModelMessage,
    ModelResponse,
    ModelResponseState,
    repair_messages,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage

from deep_core import DeepAgentDeps

from ..door.slot import PASSED
from .ends import End, RequestFailed, end_of_error, is_about_files
from .sending import Sending
from .silence import Watch
from .wire import check_whole, watch_mark

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponseStreamEvent
    from pydantic_ai.models import ModelRequestContext

    from ..door.slot import Passed
    from .patience import Patience

__all__ = ["INSIDE", "Desk", "GuardedModel", "Prepared"]

LOGGER = logging.getLogger("deep.sessions")
WIDTH = 200
"""Most characters of an error, in a log."""
INSIDE: ContextVar[bool] = ContextVar("deep_sessions_inside", default=False)
"""Whether a guarded model outside of this one sends the request."""


class Prepared(NamedTuple):
    """A request as plugins prepared it, for any model.

    Attributes:
        request: the request.
        messages: its messages.
    """

    request: ModelRequestContext
    messages: list[ModelMessage]


class Desk(Protocol):
    """What guarded models ask of their agent."""

    patience: Patience

    @property
    def has_others(self) -> bool:
        """Whether there are models to ask if the first one fails."""
        ...

    def others(self, ctx: RunContext[Any] | None) -> list[Model[Any]]:
        """Return them."""
        ...

    async def report(self, ctx: RunContext[Any] | None, wait: Any) -> None:
        """Tell watchers of a wait."""
        ...

    async def shorter(
        self,
        ctx: RunContext[Any] | None,
        prepared: Prepared | None,
        model: Model[Any],
        sent: list[ModelMessage],
        end: End,
    ) -> list[ModelMessage] | None:
        """Return fewer messages for a request that was larger than the window; None if there is no way."""
        ...


class GuardedModel(WrapperModel):
    """A model whose requests are sent until they are answered, fit into the window, and end in time.

    Args:
        wrapped: the model.
        desk: of the agent.
        ctx: the run; None if it is not known.
        prepared: the request before it was made for this model; None likewise.
        alone: whether nothing is done but to limit the time, as for one of several models of a `FallbackModel`.
    """

    def __init__(
        self,
        wrapped: Model[Any],
        desk: Desk,
        ctx: RunContext[Any] | None,
        *,
        prepared: Prepared | None = None,
        alone: bool = False,
    ) -> None:
        super().__init__(wrapped)
        self._desk, self._ctx, self._alone = desk, ctx, alone
        self.prepared = prepared
        self._is_inside = INSIDE.get()
        self._has_others = desk.has_others and not alone and not self._is_inside

    def prepare_messages(
        self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters | None = None
    ) -> list[ModelMessage]:
        """Leave this to each of several models."""
        if self._has_others:
            return messages
        return self.fitted(self.wrapped, messages, model_request_parameters)

    def fitted(
        self, model: Model[Any], messages: list[ModelMessage], parameters: ModelRequestParameters | None
    ) -> list[ModelMessage]:
        """Return messages as one of the models gets them: with words for the files that it does not take."""
        passed = self.passed()
        if passed is None or passed.has_files:
            from pydantic_ai.models.fallback import FallbackModel

            from ..door.leaving import fitted

            if not isinstance(model, FallbackModel):  # it asks each of its models, and has no profile
                messages = fitted(messages, model.profile, passed.refused if passed is not None else ())
        return model.prepare_messages(messages, parameters)

    def passed(self) -> Passed | None:
        """Return what passed the door in the session; None outside of one."""
        deps: object = None if self._ctx is None else self._ctx.deps
        return deps.state[PASSED] if isinstance(deps, DeepAgentDeps) else None

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send a request until it is answered."""
        if self._passes(messages):
            return await self.wrapped.request(messages, model_settings, model_request_parameters)
        token = INSIDE.set(True)
        try:
            work = _Work(self, messages, model_settings, model_request_parameters)
            while True:
                model = await work.sending.model()
                watch = Watch(model.model_name, self._desk.patience)
                try:
                    response = await watch.of(model.request(*work.arguments(model)))
                except Exception as error:  # noqa: BLE001 - raised again where nothing else helps
                    await work.failed(model, error)
                    continue
                except BaseException:
                    work.sending.stopped()
                    raise
                work.succeeded()
                return response
        finally:
            INSIDE.reset(token)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Open a stream. If it fails later too, the pieces of another one follow: their parts replace the others."""
        if self._passes(messages):
            arguments = (messages, model_settings, model_request_parameters, run_context)
            async with self.wrapped.request_stream(*arguments) as stream:
                yield stream
            return
        work = _Work(self, messages, model_settings, model_request_parameters, run_context or self._ctx)
        guarded = _GuardedStream(work)
        try:
            await guarded.open()
            yield guarded
        finally:
            await guarded.leave()

    def _passes(self, messages: list[ModelMessage]) -> bool:
        """Whether a request is left alone: another guard sends it, or it goes on with what a provider works on."""
        last = messages[-1] if messages else None
        return self._is_inside or INSIDE.get() or (isinstance(last, ModelResponse) and last.state == "suspended")

    def settings_for(self, model: Model[Any], given: ModelSettings | None) -> ModelSettings | None:
        """Return the settings without the retries of the provider's own client: nobody sees their waits."""
        has_client = model.base_url is not None and "max_retries" not in getattr(model, "unsupported_settings", ())
        if not has_client or "max_retries" in (given or {}):
            return given
        return cast("ModelSettings", {**(given or {}), "max_retries": 0})

    def work(self) -> tuple[Desk, RunContext[Any] | None, list[Model[Any]], bool]:
        """Return what a request needs."""
        others = self._desk.others(self._ctx) if self._has_others else []
        return self._desk, self._ctx, [self.wrapped, *others], self._alone


class _Work:
    """One request to a guarded model."""

    def __init__(
        self,
        guarded: GuardedModel,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        ctx: RunContext[Any] | None = None,
    ) -> None:
        self._guarded = guarded
        self._messages, self._settings, self.parameters = messages, settings, parameters
        self.desk, run, models, alone = guarded.work()
        self.ctx = ctx or run
        self._several = len(models) > 1
        self._shortened = False
        self._left_out: set[str] = set()
        """Files without which the request is sent again."""
        self.patience = self.desk.patience
        limits = self.patience._replace(max_attempts=1, wait=0.0) if alone else self.patience
        self.sending = Sending(models, limits, self._report)

    def arguments(self, model: Model[Any]) -> tuple[list[ModelMessage], ModelSettings | None, ModelRequestParameters]:
        """Return the arguments of a request to one of the models."""
        messages = self._messages
        if self._several:
            messages = self._guarded.fitted(model, messages, self.parameters)
        return messages, self._guarded.settings_for(model, self._settings), self.parameters

    async def failed(self, model: Model[Any], error: Exception) -> None:
        """Return if the request is to be sent again.

        Raises:
            Exception: what ended it.
        """
        if self._leave_out(error):
            return
        try:
            await self.sending.failed(error)
        except Exception as final:
            end = end_of_error(final, in_request=True)
            if end is not None and end.kind == "overflow":
                if await self._shorten(model, end):
                    return
                from .overflow import too_large

                words = too_large(end, self._messages, self.parameters)
                raise RequestFailed(model.model_name, replace(end, words=words)) from final
            if end is None or not end.retryable or isinstance(final, ModelAPIError | BaseExceptionGroup):
                raise
            raise RequestFailed(model.model_name, end, str(final)) from final

    def succeeded(self) -> None:
        """Note that the provider answered, and without which files."""
        self.sending.succeeded()
        if self._left_out and (passed := self._guarded.passed()) is not None:
            passed.refused |= self._left_out

    def _leave_out(self, error: Exception) -> bool:
        """Leave out the newest files, then all, of a request that may have failed for one; return whether there are."""
        if self.sending.replaces or not is_about_files(error):
            return False
        from ..door.leaving import files_of, fitted

        found = files_of(self._messages)
        if not found:
            return False
        self._left_out |= set[str]().union(*found) if self._left_out else found[-1]
        self._messages = fitted(self._messages, {}, self._left_out)
        self.sending.stopped()
        words = " ".join(str(error).split())[:WIDTH] or type(error).__name__
        LOGGER.warning("files are left out of a request, which failed: %s", words)
        return True

    async def _shorten(self, model: Model[Any], end: End) -> bool:
        """Make the messages fewer, once; return whether they are."""
        if self._shortened:
            return False
        self._shortened = True
        shorter = await self.desk.shorter(self.ctx, self._guarded.prepared, model, self._messages, end)
        if shorter is None:
            return False
        shorter = repair_messages(shorter)
        if not self._several:
            shorter = repair_messages(self._guarded.fitted(model, shorter, self.parameters))
        self._messages = shorter
        return True

    async def _report(self, wait: Any) -> None:
        await self.desk.report(self.ctx, wait)


class _GuardedStream(StreamedResponse):
    """A stream, or several one after another: each replaces the parts of the one before."""

    def __init__(self, work: _Work) -> None:
        # Not the base's: it would set what the properties below take from the stream under way.
        self.model_request_parameters = work.parameters
        self._work = work
        self._stack = AsyncExitStack()
        # `open` sets them, and is called before anything else.
        self._model: Model[Any]
        self._watch: Watch
        self._mark: Callable[[], bool]
        self._sub: StreamedResponse

    async def open(self) -> None:
        """Open a stream, in as many attempts as it takes."""
        work = self._work
        while True:
            model = await work.sending.model()
            self._watch = Watch(model.model_name, work.patience)
            token = INSIDE.set(True)
            try:
                opening = self._stack.enter_async_context(model.request_stream(*work.arguments(model), work.ctx))
                self._sub = await self._watch.of(opening)
            except Exception as error:  # noqa: BLE001 - raised again where nothing else helps
                await self._again(model, error)
                continue
            except BaseException:
                work.sending.stopped()
                raise
            finally:
                INSIDE.reset(token)
            self._model = model
            self._mark = watch_mark(self._sub)
            return

    async def leave(self) -> None:
        """Close the stream."""
        self._work.sending.stopped()
        await self._stack.aclose()

    async def _again(self, model: Model[Any], error: Exception) -> None:
        await self._leave_stream(error)
        await self._work.failed(model, error)

    async def _leave_stream(self, error: Exception) -> None:
        stack, self._stack = self._stack, AsyncExitStack()
        try:
            await stack.__aexit__(type(error), error, error.__traceback__)
        except Exception as again:
            if again is not error and end_of_error(again, in_request=True) is None:
                raise

    def __aiter__(self) -> AsyncIterator[ModelResponseStreamEvent]:
        """Stream the pieces. The streams inside have added what the base class would."""
        if self._event_iterator is None:
            events = self._get_event_iterator()
            deadline = self._request_deadline
            self._event_iterator = events if deadline is None else deadline.iterate(events)
        return self._event_iterator

    async def _get_event_iterator(self) -> AsyncGenerator[ModelResponseStreamEvent]:
        while True:
            stream = self._sub
            try:
                async for event in self._watch.pieces(aiter(stream)):
                    if self._first_chunk_monotonic is None:
                        self._first_chunk_monotonic = time.perf_counter()
                    if isinstance(event, FinalResultEvent):
                        self.final_result_event = event
                    self._work.sending.replaces = True
                    yield event
                if not self.cancelled:
                    check_whole(stream, self._mark)
                    self._work.succeeded()
                    self._finished = True
                return
            except Exception as error:
                if self.cancelled:
                    raise
                await self._again(self._model, error)
                self.final_result_event = None
                await self.open()

    async def cancel(self) -> None:
        """Stop the stream."""
        self._cancelled = True
        await self._sub.cancel()

    async def close_stream(self) -> None:
        """Close the stream under way."""
        await self._sub.close_stream()

    def get(self) -> ModelResponse:
        """Return the response so far."""
        response = self._sub.get()
        if self.metadata:
            response.metadata = {**(response.metadata or {}), **self.metadata}
        if self.failed_attempts:
            response.failed_attempts = [*self.failed_attempts, *(response.failed_attempts or [])]
        return response

    @property
    def state(self) -> ModelResponseState:  # type: ignore[override]
        """The state of the stream under way."""
        return self._sub.state

    @property
    def finish_reason(self) -> FinishReason | None:  # type: ignore[override]
        """Its finish reason."""
        return self._sub.finish_reason

    @property
    def provider_details(self) -> dict[str, Any] | None:  # type: ignore[override]
        """What its provider said besides."""
        return self._sub.provider_details

    @property
    def provider_response_id(self) -> str | None:  # type: ignore[override]
        """Its id."""
        return self._sub.provider_response_id

    @property
    def usage(self) -> RequestUsage:
        """The usage so far."""
        return self._sub.usage

    @property
    def model_name(self) -> str:
        """The model that answers."""
        return self._sub.model_name

    @property
    def provider_name(self) -> str | None:
        """Its provider."""
        return self._sub.provider_name

    @property
    def provider_url(self) -> str | None:
        """The provider's address."""
        return self._sub.provider_url

    @property
    def timestamp(self) -> datetime:
        """When the answer began."""
        return self._sub.timestamp
