"""Tests of the request layer with a clock that jumps: retries, waits, breakers, stalls and timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from deep_sessions.requests import breaker as breaker_module
from deep_sessions.requests.breaker import Breaker
from deep_sessions.requests.ends import End, RequestFailed
from deep_sessions.requests.model import GuardedModel
from deep_sessions.requests.patience import Patience, patience
from deep_sessions.requests.sending import Wait
from deep_sessions.requests.silence import Watch
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    TextPart,
    TextPartDelta,
    ThinkingPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel

from plugins.sessions.tests.fake_clock import run

PARAMETERS = ModelRequestParameters()
Step = Exception | str | float


@pytest.fixture(autouse=True)
def _no_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker_module, "_BREAKERS", {})


class Desk:
    """What an agent would say."""

    def __init__(self, patience: Patience = Patience(), others: tuple[Model[Any], ...] = ()) -> None:  # noqa: B008
        self.patience, self._others = patience, [*others]
        self.waits: list[Wait] = []

    @property
    def has_others(self) -> bool:
        return bool(self._others)

    def others(self, ctx: object) -> list[Model[Any]]:
        return self._others

    async def report(self, ctx: object, wait: Wait) -> None:
        self.waits.append(wait)

    async def shorter(self, *about: Any) -> None:
        return None


def scripted(*steps: Step, name: str = "m") -> tuple[Model[Any], list[float]]:
    """A model that takes each step in turn: raises it, sleeps so long, or answers. Returns when it was asked, too."""
    todo: Iterator[Step] = iter(steps)
    asked: list[float] = []

    async def step() -> str:
        asked.append(asyncio.get_running_loop().time())
        for each in todo:
            if isinstance(each, Exception):
                raise each
            if isinstance(each, str):
                return each
            await asyncio.sleep(each)
        raise AssertionError("asked too often")

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart(await step())])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str]:
        yield await step()

    return FunctionModel(answer, stream_function=stream, model_name=name), asked


async def ask(model: Model[Any], desk: Desk, *, streams: bool = False) -> str:
    guarded = GuardedModel(model, cast("Any", desk), None)
    messages: list[ModelMessage] = [ModelRequest.user_text_prompt("go")]
    if not streams:
        return (await guarded.request(messages, None, PARAMETERS)).text or ""
    async with guarded.request_stream(messages, None, PARAMETERS) as stream:
        async for _ in stream:
            pass
        return stream.get().text or ""


def busy(status: int = 503, **headers: str) -> ModelHTTPError:
    return ModelHTTPError(status, "m", None, headers={name.replace("_", "-"): said for name, said in headers.items()})


@pytest.mark.parametrize("streams", [False, True])
def test_a_provider_that_is_down_for_half_a_minute_is_waited_for(streams: bool) -> None:
    desk = Desk()

    async def main() -> tuple[str, float]:
        began = asyncio.get_running_loop().time()

        async def answer(*_: Any) -> ModelResponse:
            if asyncio.get_running_loop().time() - began < 30:
                raise busy()
            return ModelResponse([TextPart("back")])

        async def stream(*_: Any) -> AsyncGenerator[str]:
            yield (await answer()).text or ""

        text = await ask(FunctionModel(answer, stream_function=stream), desk, streams=streams)
        return text, asyncio.get_running_loop().time() - began

    text, seconds = run(main())

    assert text == "back"
    assert 30 <= seconds <= 90
    assert [wait.end.code for wait in desk.waits] == ["unavailable"] * len(desk.waits)
    assert 4 <= len(desk.waits) <= 12


def test_a_wait_ends_after_two_minutes() -> None:
    desk = Desk()

    async def main() -> float:
        model, _ = scripted(*[busy()] * 100)
        began = asyncio.get_running_loop().time()
        with pytest.raises(ModelHTTPError):
            await ask(model, desk)
        return asyncio.get_running_loop().time() - began

    assert 60 < run(main()) <= 121
    assert sum(wait.seconds for wait in desk.waits) <= 120


@pytest.mark.parametrize(("retry_after", "waits"), [("7", [7.0]), ("600", [])])
def test_retry_after_is_obeyed_or_ends_the_request_at_once(retry_after: str, waits: list[float]) -> None:
    desk = Desk()
    model, asked = scripted(busy(429, retry_after=retry_after), "done")

    async def main() -> str:
        try:
            return await ask(model, desk)
        except ModelHTTPError as error:
            return f"{error.retry_after:g}"

    assert run(main()) == ("done" if waits else "600")
    assert [round(wait.seconds, 1) for wait in desk.waits] == waits
    assert len(asked) == 1 + len(waits)


@pytest.mark.parametrize(
    ("failure", "sent"),
    [
        pytest.param(UnexpectedModelBehavior("Invalid response"), 3, id="garbled"),
        pytest.param(RequestFailed("m", End(kind="incomplete", code="cut")), 3, id="cut"),
        pytest.param(ModelHTTPError(400, "m"), 1, id="permanent"),
        pytest.param(ModelHTTPError(401, "m"), 1, id="key"),
        pytest.param(ValueError("a defect"), 1, id="no end of a request"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_how_often_a_request_is_sent(failure: Exception, sent: int, streams: bool) -> None:
    model, asked = scripted(*[failure] * 10)

    async def main() -> None:
        await ask(model, Desk(), streams=streams)

    with pytest.raises(RequestFailed if isinstance(failure, UnexpectedModelBehavior) else type(failure)):
        run(main())
    assert len(asked) == sent


def test_max_attempts_counts_all() -> None:
    model, asked = scripted(*[busy()] * 10)
    with pytest.raises(ModelHTTPError):
        run(ask(model, Desk(Patience(max_attempts=2))))
    assert len(asked) == 2


def test_a_worker_has_no_patience() -> None:
    model, asked = scripted(busy(), "done")

    async def main() -> None:
        with patience(0):
            await ask(model, Desk())

    with pytest.raises(ModelHTTPError):
        run(main())
    assert len(asked) == 1


def test_other_models_are_asked_before_any_wait() -> None:
    first, first_asked = scripted(busy(), busy(), "first", name="first")
    second, second_asked = scripted(busy(), "second", name="second")
    desk = Desk(others=(second,))

    assert run(ask(first, desk)) == "second"
    # In the second round the first model's breaker is still open, or it failed again.
    assert len(second_asked) == 2
    assert 1 <= len(first_asked) <= 2
    assert desk.waits[0].seconds == 0


def test_a_model_whose_key_is_refused_is_passed_by() -> None:
    first, asked = scripted(ModelHTTPError(401, "m"), name="first")
    second, _ = scripted("second", name="second")
    assert run(ask(first, Desk(others=(second,)))) == "second"
    assert len(asked) == 1


# -- breakers ----------------------------------------------------------------------------------------------------------


def test_two_hundred_requests_send_few_probes_and_all_are_answered() -> None:
    async def main() -> tuple[list[str], list[float]]:
        loop = asyncio.get_running_loop()
        began, asked = loop.time(), list[float]()

        async def answer(*_: Any) -> ModelResponse:
            now = loop.time() - began
            asked.append(now)
            if now < 30:
                raise busy()
            return ModelResponse([TextPart("back")])

        model = FunctionModel(answer)

        async def one(after: float) -> str:
            await asyncio.sleep(after)
            return await ask(model, Desk())

        texts = await asyncio.gather(*(one(number / 20) for number in range(200)))
        return texts, asked

    texts, asked = run(main())

    assert texts == ["back"] * 200
    during = [when for when in asked if 1 < when < 30]
    for second in range(1, 30):
        assert sum(second <= when < second + 1 for when in during) <= 3


def test_a_stopped_probe_leaves_room_for_another() -> None:
    breaker = Breaker("k")
    breaker.failed(End(kind="transient", code="unavailable", refused=True), 0.0, 1.0)
    assert breaker.ask(2.0) == 0
    assert breaker.ask(2.0) > 0

    breaker.released()

    assert breaker.ask(2.0) == 0


REFUSED = End(kind="transient", code="unavailable", refused=True)


def test_a_refusal_from_before_the_providers_return_does_not_open_a_breaker() -> None:
    breaker = Breaker("k")
    breaker.failed(REFUSED, 1.0, 1.0, sent=0.0)
    breaker.succeeded(5.0, sent=4.0)

    breaker.failed(REFUSED, 6.0, 1.0, sent=3.0)
    assert breaker.state(6.0) is None

    breaker.failed(REFUSED, 7.0, 1.0, sent=5.5)
    assert breaker.state(7.0) is not None


def test_an_answer_that_began_before_the_outage_does_not_close_a_breaker() -> None:
    breaker = Breaker("k")
    breaker.failed(REFUSED, 1.0, 1.0, sent=0.5)

    breaker.succeeded(2.0, sent=0.0)
    assert breaker.state(2.0) is not None

    breaker.succeeded(4.0, sent=3.0)
    assert breaker.state(4.0) is None


def test_who_is_told_by_a_queue_when_to_send_is_not_kept_by_what_this_process_knows() -> None:
    async def main() -> list[str]:
        model, _ = scripted(*["back"] * 4)
        breaker_module.breaker_of(model).failed(REFUSED, asyncio.get_running_loop().time(), 1e6)
        with patience(0):
            return [*await asyncio.gather(*(ask(model, Desk()) for _ in range(4)))]

    assert run(main()) == ["back"] * 4


def test_the_state_of_a_breaker_can_be_handed_on() -> None:
    end = End(kind="transient", code="overloaded", words="the provider is overloaded", refused=True, retry_after=9)
    first, second = Breaker("k"), Breaker("k")
    first.failed(end, 100.0, 1.0)
    state = first.state(103.0)
    assert state is not None
    assert (state.code, state.pause, state.failures) == ("overloaded", 6.0, 1)

    second.restore(end, state.pause, state.failures, 7.0)

    assert second.ask(8.0) == 5.0
    second.succeeded(8.0)
    assert second.ask(8.0) == 0
    assert second.state(8.0) is None


# -- time --------------------------------------------------------------------------------------------------------------

PIECES = st.lists(
    st.tuples(st.floats(0, 700), st.sampled_from(["answer", "thinking", "nothing"])), min_size=1, max_size=12
)


def piece(kind: str) -> PartDeltaEvent:
    if kind == "thinking":
        return PartDeltaEvent(index=0, delta=ThinkingPartDelta(content_delta="hm"))
    return PartDeltaEvent(index=0, delta=TextPartDelta("x" if kind == "answer" else ""))


@given(PIECES, st.one_of(st.none(), st.floats(1, 2_000)), st.floats(1, 130))
def test_a_stream_ends_when_its_time_or_its_silence_is_over(
    pieces: list[tuple[float, str]], timeout: float | None, stall: float
) -> None:
    async def main() -> tuple[str, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def source() -> AsyncGenerator[Any]:
            for pause, kind in pieces:
                await asyncio.sleep(pause)
                yield piece(kind)

        watch = Watch("m", Patience(timeout=timeout, stall=stall))
        try:
            async for _ in watch.pieces(source()):
                pass
        except RequestFailed as error:
            return error.end.code, loop.time() - began
        return "whole", loop.time() - began

    expected, at = _model(pieces, timeout, stall)
    code, seconds = run(main())

    if min(abs(limit - at) for limit in (timeout or 1e9, 1e8)) > 1e-6:  # which of two comes first at one time is open
        assert code == expected
    assert seconds == pytest.approx(at, abs=1e-6)


def _model(pieces: list[tuple[float, str]], timeout: float | None, stall: float) -> tuple[str, float]:
    """What is to happen, and when: a second way to count."""
    now, heard, allowed = 0.0, 0.0, 5 * stall
    for pause, kind in pieces:
        silence_ends = heard + allowed
        ends = min(silence_ends, timeout if timeout is not None else float("inf"))
        if now + pause > ends:
            return ("stalled" if ends == silence_ends else "timed_out"), ends
        now += pause
        if kind != "nothing":
            heard, allowed = now, stall * (5 if kind == "thinking" else 1)
    return "whole", now


def test_the_time_that_a_consumer_takes_is_not_silence() -> None:
    async def main() -> int:
        async def source() -> AsyncGenerator[Any]:
            for _ in range(5):
                await asyncio.sleep(1)
                yield piece("answer")

        count = 0
        async for _ in Watch("m", Patience(stall=2)).pieces(source()):
            await asyncio.sleep(500)
            count += 1
        return count

    assert run(main()) == 5


@pytest.mark.parametrize("streams", [False, True])
def test_a_request_that_takes_too_long_is_sent_three_times(streams: bool) -> None:
    model, asked = scripted(*[3_000.0] * 9)
    desk = Desk(Patience(timeout=4))

    async def main() -> float:
        began = asyncio.get_running_loop().time()
        with pytest.raises(RequestFailed, match="longer than 4 s"):
            await ask(model, desk, streams=streams)
        return asyncio.get_running_loop().time() - began

    assert 12 <= run(main()) <= 14
    assert len(asked) == 3


# -- streams that fail later -------------------------------------------------------------------------------------------


def test_an_answer_that_is_cut_is_replaced_and_watchers_hear_of_it() -> None:
    attempts: list[int] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str]:
        attempts.append(1)
        yield "Half of "
        if len(attempts) < 3:
            raise RequestFailed("m", End(kind="incomplete", code="cut", words="cut"))
        yield "it"

    desk = Desk()
    starts: list[str] = []

    async def main() -> str:
        guarded = GuardedModel(FunctionModel(stream_function=stream), cast("Any", desk), None)
        async with guarded.request_stream([ModelRequest.user_text_prompt("go")], None, PARAMETERS) as found:
            async for event in found:
                if event.event_kind == "part_start":
                    starts.append(f"{event.index} {cast('TextPart', event.part).content}")
            response = found.get()
            assert response.state == "complete"
            return response.text or ""

    assert run(main()) == "Half of it"
    assert starts == ["0 Half of "] * 3
    assert [wait.replaces for wait in desk.waits] == [True, True]


def test_a_request_that_is_cancelled_while_it_waits_stops_at_once() -> None:
    model, asked = scripted(busy(429, retry_after="60"), "done")

    async def main() -> float:
        began = asyncio.get_running_loop().time()
        task = asyncio.ensure_future(ask(model, Desk()))
        await asyncio.sleep(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.get_running_loop().time() - began

    assert run(main()) == pytest.approx(5)
    assert len(asked) == 1


def test_a_stream_whose_consumer_leaves_is_closed() -> None:
    closed: list[bool] = []

    class Watched(FunctionModel):
        @asynccontextmanager
        async def request_stream(self, *arguments: Any, **more: Any) -> Any:
            async with super().request_stream(*arguments, **more) as stream:
                try:
                    yield stream
                finally:
                    closed.append(True)

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str]:
        yield "a"
        yield "b"

    async def main() -> str:
        guarded = GuardedModel(Watched(stream_function=stream), cast("Any", Desk()), None)
        async with guarded.request_stream([ModelRequest.user_text_prompt("go")], None, PARAMETERS) as found:
            async for _ in found:
                break
            return found.get().state

    assert run(main()) == "incomplete"
    assert closed == [True]


def test_a_look_at_the_pause_leaves_the_probe_to_who_asks_after_it() -> None:
    breaker = Breaker("k")
    breaker.failed(REFUSED, 0.0, 1.0)
    assert 0 < breaker.pause(0.0) <= 1
    assert breaker.pause(2.0) == 0  # as where the machine was busy for longer than the pause
    assert breaker.ask(2.0) == 0
