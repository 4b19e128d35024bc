"""Dispatch: recognized, filtered, executed; one result for each call, in order, whatever goes wrong."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import pytest
from deep_universe import ErrorCode, FunctionTool, Injected, Layer, ToolCall, ToolResult
from deep_universe.dispatch import dispatch
from deep_universe.middleware import Next
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pydantic_ai.exceptions import ApprovalRequired, ModelRetry, ToolFailed

from deep_core import Tag, ToolExpression, ToolFacts, ToolName
from plugins.universe.tests.dispatching import PlainDriver, Source, codes, plain

pytestmark = pytest.mark.anyio


def get_balance(account: str = "main") -> str:
    """The balance of an account."""
    return f"{account}: 5"


class Counter:
    """Tools that count their runs."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    def tool(self, name: str, tags: list[str] | None = None) -> FunctionTool:
        async def run() -> str:
            self.runs.append(name)
            return name

        return FunctionTool(run, name=name, tags=tags or [])


# -- which driver ------------------------------------------------------------------------------------------------------


class Scoring(PlainDriver):
    """Answers any response with one call of `get_balance` of an account that has the driver's name."""

    def __init__(self, name: str, score: Any, priority: int = 0) -> None:
        self.name, self.score, self.priority = name, score, priority  # type: ignore[misc]

    def can_handle_response(self, response: object) -> int:
        if isinstance(self.score, Exception):
            raise self.score
        return self.score

    def parse(self, response: object) -> list[Any]:
        return [ToolCall("", "get_balance", {"account": self.name})]


@pytest.mark.parametrize(
    ("drivers", "winner"),
    [
        ([Scoring("a", 30), Scoring("b", 80)], "b"),
        ([Scoring("a", 80), Scoring("b", 80)], "a"),
        ([Scoring("a", 80), Scoring("b", 80, priority=1)], "b"),
        ([Scoring("a", 81), Scoring("b", 80, priority=1)], "a"),
        ([Scoring("a", ValueError("broken")), Scoring("b", 1)], "b"),
        ([Scoring("a", 101), Scoring("b", 1)], "b"),
        ([Scoring("a", True), Scoring("b", 1)], "b"),
        ([Scoring("a", None), Scoring("b", 1)], "b"),
    ],
)
async def test_X1_the_driver_with_the_highest_score_parses(drivers: list[Scoring], winner: str) -> None:
    (result,) = await dispatch(Source(get_balance, drivers=drivers), object())
    assert result.result == f"{winner}: 5"


@pytest.mark.parametrize("response", ["just text", "", {}, {"a": 1}, [], None, 42, object(), b"\xff"])
async def test_X2_a_response_that_no_driver_knows_is_one_error_result(response: Any) -> None:
    (result,) = await dispatch(Source(get_balance), response)
    assert result.meta["error_code"] == ErrorCode.PROTOCOL_DETECTION_FAILED
    assert result.error is not None
    assert "plain" in result.error, "the message lists the drivers"


class Exploding(Mapping[str, Any]):
    """A value that raises wherever it is touched."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("do not look")

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("do not read")

    __iter__ = __len__ = __getitem__  # type: ignore[assignment]


async def test_X2_a_response_that_cannot_even_be_looked_at_is_an_error_result() -> None:
    assert codes(await dispatch(Source(get_balance), Exploding())) == ["PROTOCOL_DETECTION_FAILED"]


async def test_X3_a_recognized_reply_without_calls_is_an_empty_list() -> None:
    assert await dispatch(Source(get_balance), plain()) == []


async def test_X4_an_unknown_driver_is_an_error_result_that_suggests() -> None:
    (result,) = await dispatch(Source(get_balance), plain("get_balance"), driver="plian")
    assert result.meta["error_code"] == ErrorCode.DRIVER_NOT_FOUND
    assert result.error == "there is no driver 'plian'. Did you mean 'plain'? The drivers are: plain"


async def test_X4_an_explicit_driver_that_does_not_fit_is_an_error_result() -> None:
    (result,) = await dispatch(Source(get_balance), {"choices": []}, driver="plain")
    assert result.meta["error_code"] == ErrorCode.PARSE_ERROR
    assert result.error == "the driver 'plain' cannot read this response: not a plain response"


class Returning(PlainDriver):
    name = "returning"

    def __init__(self, parsed: Any) -> None:
        self.parsed = parsed

    def parse(self, response: object) -> list[Any]:
        if isinstance(self.parsed, BaseException):
            raise self.parsed
        return self.parsed


@pytest.mark.parametrize("parsed", [None, {}, [{"name": "get_balance"}], KeyError("choices"), RecursionError("deep")])
async def test_X4_a_driver_that_breaks_its_contract_is_an_error_result(parsed: Any) -> None:
    (result,) = await dispatch(Source(get_balance), "x", driver=Returning(parsed))
    assert result.meta["error_code"] == ErrorCode.PARSE_ERROR
    assert "Traceback" not in str(result.error)


async def test_X4_a_driver_may_be_given_itself() -> None:
    (result,) = await dispatch(Source(get_balance), "x", driver=Scoring("mine", 0))
    assert result.result == "mine: 5"


# -- which calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [{"a"}, ["a"], "a", lambda tool: True, ToolName])
async def test_E1_a_filter_that_is_not_an_expression_raises_before_anything_runs(wrong: Any) -> None:
    counter = Counter()
    with pytest.raises(TypeError, match="tool_filter is a tool expression"):
        await dispatch(Source(counter.tool("a")), plain("a"), tool_filter=wrong)
    assert counter.runs == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"context": ["k"]}, TypeError),
        ({"driver": 42}, TypeError),
        ({"max_parallel": 0}, ValueError),
        ({"timeout": 0}, ValueError),
        ({"timeout": float("nan")}, ValueError),
    ],
)
async def test_E1_an_option_that_makes_no_sense_raises_before_anything_runs(options: Any, error: Any) -> None:
    counter = Counter()
    with pytest.raises(error, match=next(iter(options))):
        await dispatch(Source(counter.tool("a")), plain("a"), **options)
    assert counter.runs == []


async def test_X5_a_denied_call_is_not_executed_and_the_others_are() -> None:
    counter = Counter()
    source = Source(counter.tool("get_balance", ["finance"]), counter.tool("rotate", ["finance", "internal"]))
    results = await dispatch(source, plain("rotate", "get_balance"), tool_filter=Tag("finance") & ~Tag("internal"))
    assert codes(results) == ["FILTER_DENIED", "ok"]
    assert counter.runs == ["get_balance"]
    assert results[0].meta["tool"] == "rotate"


async def test_X6_when_all_are_denied_nothing_runs() -> None:
    counter = Counter()
    names = [f"t{n}" for n in range(5)]
    results = await dispatch(Source(*map(counter.tool, names)), plain(*names), tool_filter=ToolName("other"))
    assert codes(results) == ["FILTER_DENIED"] * 5
    assert counter.runs == []


@pytest.mark.parametrize("tool_filter", [None, Tag("write"), ~ToolName("get_balance")])
async def test_X7_an_unknown_tool_has_one_code_with_and_without_a_filter(tool_filter: Any) -> None:
    (result,) = await dispatch(Source(get_balance), plain("get_balanse"), tool_filter=tool_filter)
    assert result.meta == {"tool": "get_balanse", "error_code": "TOOL_NOT_FOUND"}


async def test_X7_a_suggestion_never_names_a_tool_that_the_filter_hides() -> None:
    source = Source(get_balance)
    (shown,) = await dispatch(source, plain("get_balanse"))
    assert shown.error == "there is no tool 'get_balanse'. Did you mean 'get_balance'?"
    (hidden,) = await dispatch(source, plain("get_balanse"), tool_filter=~ToolName("get_balance"))
    assert hidden.error == "there is no tool 'get_balanse'."


async def test_X7_a_name_of_any_length_costs_a_short_message() -> None:
    (result,) = await dispatch(Source(get_balance), plain("x" * 1_000_000))
    assert result.error is not None
    assert len(result.error) < 200
    (near,) = await dispatch(Source(Counter().tool("x" * 64)), plain("x" * 65))
    assert near.error == f"there is no tool '{'x' * 65}'."


# -- at once, in order -------------------------------------------------------------------------------------------------


async def test_X8_calls_run_at_once_and_results_keep_their_order() -> None:
    """Each waits for all: one after another, none would end. They end in the reverse order."""
    together, last = asyncio.Barrier(4), [asyncio.Event() for _ in range(5)]
    last[4].set()
    ended: list[int] = []

    async def work(n: int) -> int:
        await together.wait()
        await last[n + 1].wait()
        ended.append(n)
        last[n].set()
        return n

    calls = [ToolCall(f"c{n}", "work", {"n": n}) for n in range(4)]
    results = await asyncio.wait_for(dispatch(Source(work), plain(*calls)), 60)
    assert [result.result for result in results] == [0, 1, 2, 3]
    assert [result.id for result in results] == ["c0", "c1", "c2", "c3"]
    assert ended == [3, 2, 1, 0]


async def test_X9_four_calls_take_less_than_70_percent_of_the_turns_that_they_take_one_by_one() -> None:
    """Turns of the event loop, not seconds."""

    async def wait() -> None:
        for _ in range(100):
            await asyncio.sleep(0)

    async def turns(max_parallel: int | None) -> int:
        count = 0

        async def tick() -> None:
            nonlocal count
            while True:
                count += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        results = await dispatch(Source(wait), plain(*["wait"] * 4), max_parallel=max_parallel)
        ticking.cancel()
        assert codes(results) == ["ok"] * 4
        return count

    assert await turns(None) <= 0.7 * await turns(1)


async def test_X12_order_is_by_position_and_missing_ids_are_generated() -> None:
    results = await dispatch(Source(get_balance), plain("get_balance", "unknown", "get_balance"))
    assert codes(results) == ["ok", "TOOL_NOT_FOUND", "ok"]
    assert all(result.id for result in results)
    assert len({result.id for result in results}) == 3


async def test_X12_calls_with_one_id_keep_their_places() -> None:
    calls = [ToolCall("same", "get_balance", {"account": name}) for name in "abc"]
    results = await dispatch(Source(get_balance), plain(*calls))
    assert [(result.id, result.result) for result in results] == [("same", f"{name}: 5") for name in "abc"]


OUTCOMES = {
    "fine": "ok",
    "boom": "TOOL_EXECUTION_ERROR",
    "denied": "FILTER_DENIED",
    "unknown": "TOOL_NOT_FOUND",
    "typed": "INVALID_ARGUMENTS",
    "broken": "INVALID_ARGUMENTS",
    "needs": "MISSING_CONTEXT_KEY",
}


async def fine() -> str:
    return "fine"


async def boom() -> None:
    raise RuntimeError("boom")


async def typed(n: int) -> int:
    return n


async def needs(user: Annotated[str, Injected("user")]) -> str:
    return user


@given(
    st.lists(st.tuples(st.sampled_from(sorted(OUTCOMES)), st.sampled_from(["", "a", "b"])), max_size=12),
    st.none() | st.integers(1, 4),
)
def test_X13_there_is_exactly_one_result_for_each_call_with_its_id(batch: list[tuple[str, str]], most: Any) -> None:
    source = Source(fine, boom, typed, needs, FunctionTool(fine, name="denied"))
    calls = [{"id": id, "name": name, **({"broken": "cut off"} if name == "broken" else {})} for name, id in batch]
    results = asyncio.run(
        dispatch(source, {"plain": calls}, tool_filter=~ToolName("denied"), max_parallel=most),
    )
    assert codes(results) == [OUTCOMES[name] for name, _ in batch]
    assert all(result.id == id if id else result.id for result, (_, id) in zip(results, batch, strict=True))
    assert [result.meta["tool"] for result in results] == [name for name, _ in batch]


async def test_D6_an_invalid_call_does_not_lose_the_others() -> None:
    calls = plain("get_balance", "get_balance", "get_balance")
    calls["plain"][1]["broken"] = "the arguments are not JSON"
    results = await dispatch(Source(get_balance), calls)
    assert codes(results) == ["ok", "INVALID_ARGUMENTS", "ok"]
    assert results[1].error == "the arguments are not JSON"


async def test_D6_a_call_without_a_readable_name_is_a_parse_error() -> None:
    results = await dispatch(Source(get_balance), {"plain": [{"name": "", "broken": "no name"}]})
    assert codes(results) == ["PARSE_ERROR"]


# -- the context -------------------------------------------------------------------------------------------------------


async def test_X10_every_call_gets_its_own_copy_of_the_context() -> None:
    async def note(call: ToolCall, next: Next) -> Any:
        call.context["k"].append(call.id)
        return await next(call)

    async def read(k: Annotated[list[str], Injected("k")]) -> list[str]:
        return k

    context: dict[str, Any] = {"k": []}
    calls = plain(ToolCall("1", "read", {}), ToolCall("2", "read", {}))
    results = await dispatch(Source(read, layers=[Layer(note, uid="note")]), calls, context=context)
    assert [result.result for result in results] == [["1"], ["2"]]
    assert context == {"k": []}


async def test_X11_a_handle_in_the_context_is_the_same_object() -> None:
    lock = threading.Lock()

    async def use(db: Annotated[Any, Injected("db")]) -> bool:
        return db["lock"] is lock

    (result,) = await dispatch(Source(use), plain("use"), context={"db": {"lock": lock}})
    assert result.result is True


async def test_X10_context_variables_of_one_call_are_not_seen_by_the_next() -> None:
    variable = contextvars.ContextVar("variable", default="unset")

    async def turn() -> str:
        seen = variable.get()
        variable.set("set")
        return seen

    results = await dispatch(Source(turn), plain(*["turn"] * 6), max_parallel=2)
    assert [result.result for result in results] == ["unset"] * 6
    assert variable.get() == "unset"


class Watched(ToolExpression):
    """Selects every tool, and notes when it was asked."""

    def __init__(self, events: list[str]) -> None:
        vars(self)["events"] = events

    def matches(self, tool: ToolFacts) -> bool:
        vars(self)["events"].append("filtered")
        return True


async def test_X14_a_call_is_parsed_filtered_injected_wrapped_and_executed_in_this_order() -> None:
    events: list[str] = []

    class Parsing(PlainDriver):
        def parse(self, response: object) -> list[Any]:
            events.append("parsed")
            return super().parse(response)

    class Tracing(FunctionTool):
        async def prepare(self, arguments: Mapping[str, Any], context: Mapping[str, Any]) -> Any:
            prepared = await super().prepare(arguments, context)
            events.append("context injected")
            return prepared

    async def tool(user: Annotated[str, Injected("user")]) -> str:
        events.append("executed")
        return user

    async def middleware(call: ToolCall, next: Next) -> Any:
        events.append("middleware")
        return await next(call)

    source = Source(Tracing(tool), layers=[Layer(middleware, uid="m")])
    source.drivers = [Parsing()]
    (result,) = await dispatch(source, plain("tool"), tool_filter=Watched(events), context={"user": "ada"})
    assert result.result == "ada"
    assert events == ["parsed", "filtered", "context injected", "middleware", "executed"]


async def test_X15_a_model_that_names_an_injected_parameter_is_refused() -> None:
    runs: list[str] = []

    async def pay(amount: int, user: Annotated[str, Injected("uid")]) -> None:
        runs.append(user)

    tool = FunctionTool(pay)
    assert "user" not in str(tool.definition.parameters_json_schema)
    call = ToolCall("", "pay", {"amount": 5, "user": "mallory"})
    assert codes(await dispatch(Source(tool), plain(call), context={"uid": "ada"})) == ["INVALID_ARGUMENTS"]
    assert runs == []


async def test_X15_arguments_are_validated_before_the_context_is_asked() -> None:
    async def pay(amount: int, user: Annotated[str, Injected("uid")]) -> None: ...

    wrong = ToolCall("", "pay", {"amount": "five"})
    assert codes(await dispatch(Source(pay), plain(wrong))) == ["INVALID_ARGUMENTS"]


async def test_X16_a_missing_key_is_an_error_result_that_names_it() -> None:
    (result,) = await dispatch(Source(needs), plain("needs"), context={"other": 1})
    assert result.meta["error_code"] == ErrorCode.MISSING_CONTEXT_KEY
    assert "'user'" in str(result.error)


async def test_X17_a_function_that_is_not_async_leaves_the_loop_free() -> None:
    """The first call waits in its thread for the second, which runs in the loop."""
    released = threading.Event()

    def blocked() -> str:
        assert released.wait(60)
        return "released"

    async def release() -> None:
        released.set()

    results = await dispatch(Source(blocked, release), plain("blocked", "release"))
    assert codes(results) == ["ok", "ok"]


# -- failures ----------------------------------------------------------------------------------------------------------


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (KeyError("x"), "KeyError: 'x'"),
        (TimeoutError("the server"), "TimeoutError: the server"),
        (ModelRetry("try Paris"), "try Paris"),
        (ToolFailed("closed on Sundays"), "closed on Sundays"),
        (ApprovalRequired(), "the tool 'fail' waits for an approval or an answer, which nobody can give here"),
        (SystemExit(3), "SystemExit: 3"),
        (Silent(), "Silent: (its message cannot be read: RuntimeError)"),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "ExceptionGroup: two (2 sub-exceptions)"),
    ],
)
async def test_X20_a_tool_that_raises_is_an_error_result_without_a_traceback(error: BaseException, said: str) -> None:
    async def fail() -> None:
        raise error

    results = await dispatch(Source(fail, get_balance), plain("fail", "get_balance"))
    assert results[0] == ToolResult(results[0].id, None, said, {"tool": "fail", "error_code": "TOOL_EXECUTION_ERROR"})
    assert results[1].result == "main: 5"


async def test_X20_an_error_of_any_length_is_truncated() -> None:
    async def fail() -> None:
        raise ValueError("x" * 1_000_000)

    (result,) = await dispatch(Source(fail), plain("fail"))
    assert len(str(result.error)) == 2_000


async def test_X20_a_validation_error_in_a_tool_shows_no_values() -> None:
    """They may come from the context, which no model sees."""

    async def connect(password: Annotated[str, Injected("password")]) -> None:
        TypeAdapter(int).validate_python(password)

    (result,) = await dispatch(Source(connect), plain("connect"), context={"password": "hunter2"})
    assert str(result.error).startswith("ValidationError: int: value: Input should be a valid integer")
    assert "hunter2" not in str(result.error)


async def test_X20_a_middleware_that_fails_is_an_error_result() -> None:
    async def guard(call: ToolCall, next: Next) -> Any:
        raise PermissionError("not on Sundays")

    counter = Counter()
    source = Source(counter.tool("a"), layers=[Layer(guard, uid="guard")])
    (result,) = await dispatch(source, plain("a"))
    assert result.error == "PermissionError: not on Sundays"
    assert counter.runs == []


def test_X20_the_set_of_codes_is_closed() -> None:
    assert [str(code) for code in ErrorCode] == [
        "PROTOCOL_DETECTION_FAILED",
        "DRIVER_NOT_FOUND",
        "PARSE_ERROR",
        "INVALID_ARGUMENTS",
        "TOOL_NOT_FOUND",
        "FILTER_DENIED",
        "MISSING_CONTEXT_KEY",
        "TOOL_EXECUTION_ERROR",
        "TIMEOUT",
    ]


# -- middleware in dispatch --------------------------------------------------------------------------------------------


async def test_M7_a_tool_that_raises_under_a_layer_that_is_not_critical_runs_once() -> None:
    runs = 0

    async def pay() -> None:
        nonlocal runs
        runs += 1
        raise ValueError("card declined")

    async def log(call: ToolCall, next: Next) -> Any:
        return await next(call)

    (result,) = await dispatch(Source(pay, layers=[Layer(log, uid="log", critical=False)]), plain("pay"))
    assert result.error == "ValueError: card declined"
    assert runs == 1


async def test_M8_a_scope_decides_which_calls_a_layer_surrounds() -> None:
    async def mark(call: ToolCall, next: Next) -> Any:
        return f"<{await next(call)}>"

    counter = Counter()
    source = Source(counter.tool("a", ["finance"]), counter.tool("b"), layers=[Layer(mark, uid="m", scope="finance")])
    assert [result.result for result in await dispatch(source, plain("a", "b"))] == ["<a>", "b"]


async def test_M9_changed_arguments_are_validated_again() -> None:
    seen: list[int] = []

    async def pay(amount: int, user: Annotated[str, Injected("uid")]) -> str:
        seen.append(amount)
        return user

    async def cap(call: ToolCall, next: Next) -> Any:
        return await next(replace(call, arguments={"amount": "5"}, context={"uid": "bob"}))

    async def break_it(call: ToolCall, next: Next) -> Any:
        return await next(replace(call, arguments={"amount": "five"}))

    call = plain(ToolCall("", "pay", {"amount": 99}))
    (result,) = await dispatch(Source(pay, layers=[Layer(cap, uid="cap")]), call, context={"uid": "ada"})
    assert (result.result, seen) == ("bob", [5])
    broken = await dispatch(Source(pay, layers=[Layer(break_it, uid="b")]), call, context={"uid": "ada"})
    assert codes(broken) == ["INVALID_ARGUMENTS"]
    assert seen == [5]


async def test_M9_a_retry_does_not_see_what_the_first_run_did_to_its_arguments() -> None:
    seen: list[list[str]] = []

    async def flaky(names: list[str]) -> list[str]:
        seen.append(list(names))
        names.append("changed")
        if len(seen) == 1:
            raise ConnectionError
        return names

    async def retry(call: ToolCall, next: Next) -> Any:
        try:
            return await next(call)
        except ConnectionError:
            return await next(call)

    source = Source(flaky, layers=[Layer(retry, uid="retry")])
    assert codes(await dispatch(source, plain(ToolCall("", "flaky", {"names": ["a"]})))) == ["ok"]
    assert seen == [["a"], ["a"]]


# -- cancellation and time ---------------------------------------------------------------------------------------------


class Waiting:
    """A tool that waits for ever, and notes how it ends."""

    def __init__(self, count: int) -> None:
        self.count, self.canceled, self.all_wait = count, 0, asyncio.Event()

    def tool(self) -> FunctionTool:
        async def wait() -> None:
            self.count -= 1
            if self.count == 0:
                self.all_wait.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.canceled += 1
                raise

        return FunctionTool(wait, name="wait")


@pytest.mark.parametrize("options", [{}, {"timeout": 3600}, {"max_parallel": 2}, {"max_parallel": 2, "timeout": 3600}])
async def test_X18_cancellation_reaches_every_call_and_is_never_a_result(options: dict[str, Any]) -> None:
    waiting = Waiting(2)
    task = asyncio.create_task(dispatch(Source(waiting.tool()), plain("wait", "wait"), **options))
    await waiting.all_wait.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waiting.canceled == 2
    assert task.cancelled()


async def test_X18_calls_that_wait_for_their_turn_never_start() -> None:
    waiting, counter = Waiting(2), Counter()
    calls = plain("wait", "wait", *["later"] * 20)
    source = Source(waiting.tool(), counter.tool("later"))
    task = asyncio.create_task(dispatch(source, calls, max_parallel=2))
    await waiting.all_wait.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert counter.runs == []


@pytest.mark.parametrize("options", [{}, {"max_parallel": 2}, {"timeout": 3600}])
async def test_X18_a_tool_that_is_canceled_cancels_its_siblings(options: dict[str, Any]) -> None:
    waiting = Waiting(1)

    async def stop() -> None:
        await waiting.all_wait.wait()
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await dispatch(Source(stop, waiting.tool()), plain("stop", "wait"), **options)
    assert waiting.canceled == 1


async def test_X18_a_task_group_in_a_tool_that_is_canceled_is_a_cancellation() -> None:
    async def group() -> None:
        raise BaseExceptionGroup("in it", [asyncio.CancelledError()])

    with pytest.raises(BaseExceptionGroup, match="in it"):
        await dispatch(Source(group), plain("group"))


async def test_X20_a_call_that_takes_too_long_is_a_timeout() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    results = await dispatch(Source(wait), plain("wait"), timeout=0.01)
    assert results[0].meta["error_code"] == ErrorCode.TIMEOUT
    assert results[0].error == "timed out after 0.01 seconds"


async def test_X20_a_tool_that_raises_as_its_time_ends_is_a_timeout() -> None:
    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("interrupted") from None

    assert codes(await dispatch(Source(wait), plain("wait"), timeout=0.01)) == ["TIMEOUT"]


async def test_X20_the_time_of_a_thread_ends_while_it_continues() -> None:
    release, ended = threading.Event(), threading.Event()

    def wait() -> None:
        release.wait(60)
        ended.set()

    assert codes(await dispatch(Source(wait), plain("wait"), timeout=0.01)) == ["TIMEOUT"]
    assert not ended.is_set()
    release.set()
    assert ended.wait(60)


# -- how many ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "peak"), [(1, 1), (2, 2), (6, 6), (7, 6), (None, 6)])
async def test_X19_max_parallel_bounds_one_batch_and_keeps_its_order(most: int | None, peak: int) -> None:
    running = Running()
    calls = [ToolCall("", "work", {"n": n}) for n in range(6)]
    results = await dispatch(Source(running.tool()), plain(*calls), max_parallel=most)
    assert [result.result for result in results] == list(range(6))
    assert running.peak == peak


class Running:
    """A tool that counts how many of it run, how many tasks and copies of the context exist."""

    def __init__(self) -> None:
        self.now = self.peak = self.tasks = self.copies = 0
        self.alive: weakref.WeakSet[Any] = weakref.WeakSet()

    def tool(self) -> FunctionTool:
        async def work(n: int, box: Annotated[Any, Injected("box")] = None) -> int:
            self.now += 1
            if box is not None:
                self.alive.add(box)
            self.peak = max(self.peak, self.now)
            self.tasks = max(self.tasks, len(asyncio.all_tasks()))
            self.copies = max(self.copies, len(self.alive))
            for _ in range(3):
                await asyncio.sleep(0)
            self.now -= 1
            return n

        return FunctionTool(work, name="work")


class Box(dict[str, Any]):
    """A container that can be referred to weakly."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.mark.slow
async def test_X19_792_calls_with_cap_8_run_8_at_once_in_order_with_flat_memory() -> None:
    """pydantic-ai#6884: one turn started 792 calls at once."""
    seen: dict[int, Running] = {}
    before = len(asyncio.all_tasks())
    for count in (80, 792):
        running = seen[count] = Running()
        calls = [ToolCall(f"c{n}", "work", {"n": n}) for n in range(count)]
        results = await dispatch(Source(running.tool()), plain(*calls), context={"box": Box()}, max_parallel=8)
        assert [result.result for result in results] == list(range(count))
        assert running.peak == 8
    assert seen[792].tasks == seen[80].tasks <= before + 2 * 8
    assert seen[792].copies == seen[80].copies <= 2 * 8
    assert len(asyncio.all_tasks()) == before


async def test_X19_two_batches_do_not_share_a_cap() -> None:
    running = Running()
    source: Callable[[], Source] = lambda: Source(running.tool())  # noqa: E731
    calls = plain(*[ToolCall("", "work", {"n": n}) for n in range(6)])
    await asyncio.gather(*[dispatch(source(), calls, max_parallel=2) for _ in range(2)])
    assert running.peak == 4
