"""Layers: who they are, in which order they run, and what their failure costs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from deep_universe import FunctionTool, Layer, MiddlewareError, ToolCall
from deep_universe.middleware import Middleware, Next, layers_of, run_layers

from deep_core import Tag, ToolFacts
from tests import another_process

pytestmark = pytest.mark.anyio

CALL = ToolCall("c1", "pay", {"amount": 5}, {"trace": []})
PAY = ToolFacts("pay", "pay", tags=("finance",))


class Audit:
    """A middleware with a place of its own in a module."""

    def __init__(self, name: str = "audit") -> None:
        self.name = name

    async def __call__(self, call: ToolCall, next: Next) -> Any:
        call.context["trace"].append(self.name)
        return await next(call)


class RateLimit(Audit):
    """Another one."""


async def log_call(call: ToolCall, next: Next) -> Any:
    return await next(call)


def tracing(name: str) -> Middleware:
    """A closure: all of them have one qualified name."""

    async def trace(call: ToolCall, next: Next) -> Any:
        call.context["trace"].append(f"{name}-in")
        result = await next(call)
        call.context["trace"].append(f"{name}-out")
        return result

    return trace


class Tool:
    """What is inside of all layers: counts its runs."""

    def __init__(self, result: Any = "paid", error: Exception | None = None) -> None:
        self.runs, self.result, self.error = 0, result, error

    async def __call__(self, call: ToolCall) -> Any:
        self.runs += 1
        if "trace" in call.context:
            call.context["trace"].append("tool")
        for _ in range(3):
            await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return self.result


# -- identity ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("middleware", "name"), [(Audit(), "Audit"), (log_call, "log_call"), (Audit().__call__, "Audit")]
)
def test_M1_the_uid_is_the_name_of_the_class_or_function(middleware: Any, name: str) -> None:
    assert name in Layer(middleware).uid
    assert Layer(Audit("a")).uid == Layer(Audit("b")).uid


def test_M1_the_uid_is_equal_in_two_processes(tmp_path: Any) -> None:
    (tmp_path / "acme.py").write_text("class Audit:\n    async def __call__(self, call, next): ...\n")
    program = "from acme import Audit; from deep_universe import Layer; print(Layer(Audit()).uid)"
    assert [another_process.run(program, cwd=tmp_path).stdout for _ in range(2)] == ["acme.Audit\n"] * 2


def test_M2_the_uid_never_holds_the_objects_id() -> None:
    for middleware in (Audit(), log_call):
        assert str(id(middleware)) not in Layer(middleware).uid
        assert hex(id(middleware))[2:] not in Layer(middleware).uid


def test_M3_of_one_uid_the_later_runs_in_the_place_of_the_earlier() -> None:
    a, x, b = Layer(Audit("a")), Layer(RateLimit()), Layer(Audit("b"))
    assert layers_of(PAY, [a, x, b]) == [b, x]


def test_M3_a_tools_own_layer_replaces_a_global_one_in_its_place() -> None:
    outer, x, own = Layer(Audit("global")), Layer(RateLimit()), Audit("own")
    found = layers_of(PAY, [outer, x], [own])
    assert [layer.middleware for layer in found] == [own, x.middleware]


async def test_M4_an_explicit_uid_wins_and_different_ones_coexist() -> None:
    layers = [Layer(RateLimit("a"), uid="a"), Layer(RateLimit("b"), uid="b")]
    call = replace(CALL, context={"trace": []})
    assert await run_layers(layers_of(PAY, layers), call, Tool()) == "paid"
    assert call.context["trace"] == ["a", "b", "tool"]


@pytest.mark.parametrize(
    "middleware",
    [tracing("a"), lambda call, next: next(call), partial(log_call), type("Local", (), {"__call__": log_call})],
)
def test_M5_a_middleware_without_a_name_of_its_own_needs_a_uid(middleware: Any) -> None:
    if isinstance(middleware, type):
        middleware.__qualname__ = "make.<locals>.Local"
        middleware = middleware()
    with pytest.raises(MiddlewareError, match=r"uid="):
        Layer(middleware)
    assert Layer(middleware, uid="mine").uid == "mine"


async def test_M5_two_closures_of_one_factory_both_run() -> None:
    layers = [Layer(tracing(name), uid=name) for name in "ab"]
    call = replace(CALL, context={"trace": []})
    await run_layers(layers_of(PAY, layers), call, Tool())
    assert call.context["trace"] == ["a-in", "b-in", "tool", "b-out", "a-out"]


@pytest.mark.parametrize(
    ("given", "said"), [(Audit, r"give an instance, Audit\(…\)"), ("audit", "not str"), (None, "not None")]
)
def test_M5_what_is_no_middleware_is_refused(given: Any, said: str) -> None:
    with pytest.raises(MiddlewareError, match=said):
        Layer(given)


def test_M5_a_tool_refuses_what_is_no_middleware_when_it_is_made() -> None:
    with pytest.raises(MiddlewareError, match="uid="):
        FunctionTool(get_balance, middlewares=[tracing("a")])


def get_balance() -> str:
    return "5"


# -- order -------------------------------------------------------------------------------------------------------------


async def test_M6_layers_run_global_scoped_own_as_an_onion() -> None:
    """Whatever the order in which they were added."""
    layers = [Layer(tracing("s"), uid="s", scope=Tag("finance")), Layer(tracing("g"), uid="g")]
    own = [Layer(tracing("l"), uid="l")]
    call = replace(CALL, context={"trace": []})
    assert await run_layers(layers_of(PAY, layers, own), call, Tool()) == "paid"
    assert call.context["trace"] == ["g-in", "s-in", "l-in", "tool", "l-out", "s-out", "g-out"]


@pytest.mark.parametrize("scope", [Tag("finance"), "finance", "^pa & ~internal"])
def test_M8_a_scope_is_an_expression_or_its_text(scope: Any) -> None:
    layer = Layer(log_call, scope=scope)
    assert layers_of(PAY, [layer]) == [layer]
    assert layers_of(ToolFacts("rest", "rest", tags=("internal",)), [layer]) == []


def test_M8_a_tools_own_layer_may_have_a_scope() -> None:
    own = [Layer(Audit(), scope="finance"), Layer(RateLimit(), scope="internal")]
    assert layers_of(PAY, [], own) == own[:1]


async def test_M8_two_scopes_of_one_middleware_surround_a_tool_of_both_once() -> None:
    twice = [Layer(Audit(), scope="finance"), Layer(Audit(), scope="name:pay")]
    assert layers_of(PAY, twice) == [twice[1]]
    assert layers_of(ToolFacts("tax", "tax", tags=("finance",)), twice) == [twice[0]]


async def test_M9_a_middleware_may_answer_without_next() -> None:
    async def answer(call: ToolCall, next: Next) -> Any:
        return f"cached {call.name}"

    def answer_at_once(call: ToolCall, next: Next) -> Any:
        return "at once"

    tool = Tool()
    assert await run_layers([Layer(answer, uid="a")], CALL, tool) == "cached pay"
    assert await run_layers([Layer(answer_at_once, uid="a")], CALL, tool) == "at once"
    assert tool.runs == 0


async def test_M9_a_middleware_may_change_the_call_and_the_result() -> None:
    async def double(call: ToolCall, next: Next) -> Any:
        return 1 + await next(replace(call, arguments={"amount": call.arguments["amount"] * 2}))

    async def amount(call: ToolCall) -> Any:
        return call.arguments["amount"]

    assert await run_layers([Layer(double, uid="d")], CALL, amount) == 11


# -- failures ----------------------------------------------------------------------------------------------------------


async def fails_before(call: ToolCall, next: Next) -> Any:
    raise RuntimeError("no metrics server")


async def fails_after(call: ToolCall, next: Next) -> Any:
    await next(call)
    raise RuntimeError("no metrics server")


async def fails_at_once_and_while_next_runs(call: ToolCall, next: Next) -> Any:
    running = asyncio.ensure_future(next(call))
    await asyncio.sleep(0)
    assert not running.done()
    raise RuntimeError("no metrics server")


def fails_without_async(call: ToolCall, next: Next) -> Any:
    raise RuntimeError("no metrics server")


@pytest.mark.parametrize("fails", [fails_before, fails_after, fails_at_once_and_while_next_runs, fails_without_async])
async def test_M7_a_failure_of_a_layer_that_is_not_critical_is_logged_and_the_tool_runs_once(
    fails: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tool = Tool()
    with caplog.at_level(logging.WARNING, "deep.universe"):
        assert await run_layers([Layer(fails, critical=False)], CALL, tool) == "paid"
    assert tool.runs == 1
    (record,) = caplog.records
    assert fails.__name__ in record.message
    assert "RuntimeError: no metrics server" in record.message


@pytest.mark.parametrize("fails", [fails_before, fails_after])
async def test_M7_a_failure_of_a_critical_layer_fails_the_call(fails: Any) -> None:
    with pytest.raises(RuntimeError, match="no metrics server"):
        await run_layers([Layer(fails)], CALL, Tool())


async def test_M7_a_tool_that_raises_inside_a_layer_that_is_not_critical_runs_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The reference runs it twice: a payment, say."""
    error = ValueError("card declined")
    tool = Tool(error=error)
    with pytest.raises(ValueError, match="card declined") as raised:
        await run_layers([Layer(log_call, critical=False)], CALL, tool)
    assert raised.value is error
    assert tool.runs == 1
    assert caplog.records == []


async def test_M7_the_tools_own_error_stands_when_the_layer_raises_another(caplog: pytest.LogCaptureFixture) -> None:
    async def confuses(call: ToolCall, next: Next) -> Any:
        try:
            return await next(call)
        except ValueError as error:
            raise RuntimeError("in the handler") from error

    tool = Tool(error=ValueError("card declined"))
    with pytest.raises(ValueError, match="card declined"):
        await run_layers([Layer(confuses, uid="c", critical=False)], CALL, tool)
    assert tool.runs == 1
    assert "in the handler" in caplog.text


async def test_M7_a_tool_that_its_layer_canceled_does_not_run_again() -> None:
    async def impatient(call: ToolCall, next: Next) -> Any:
        task = asyncio.ensure_future(next(call))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise TimeoutError("too slow")

    runs = 0

    async def slow(call: ToolCall) -> Any:
        nonlocal runs
        runs += 1
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match="too slow"):
        await run_layers([Layer(impatient, uid="i", critical=False)], CALL, slow)
    assert runs == 1


async def test_M7_cancellation_passes_a_layer_that_is_not_critical() -> None:
    entered = asyncio.Event()

    async def slow(call: ToolCall) -> Any:
        entered.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(run_layers([Layer(log_call, critical=False)], CALL, slow))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_M7_a_critical_layer_may_retry() -> None:
    async def twice(call: ToolCall, next: Next) -> Any:
        try:
            return await next(call)
        except ValueError:
            return await next(call)

    tool = Tool()
    failures: list[Exception] = [ValueError("once")]

    async def flaky(call: ToolCall) -> Any:
        if failures:
            raise failures.pop()
        return await tool(call)

    assert await run_layers([Layer(twice, uid="t")], CALL, flaky) == "paid"
    assert tool.runs == 1


def test_a_text_that_is_no_expression_is_refused_where_it_is_written() -> None:
    made: Callable[[], Layer] = lambda: Layer(log_call, scope="finance and internal")  # noqa: E731
    with pytest.raises(ValueError, match="use &"):
        made()
