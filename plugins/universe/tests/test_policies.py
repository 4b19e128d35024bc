"""The policies inside agents, of the kernel and plain ones: errors as results, middleware, isolated contexts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from deep_universe import IsolatedContexts, Layer, Middlewares, ToolCall, ToolErrorsAsResults
from deep_universe.middleware import Next
from pydantic import TypeAdapter
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, Tool
from pydantic_ai.exceptions import (
    ModelHTTPError,
    ModelRetry,
    ToolFailed,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
    UserError,
)
from pydantic_ai.messages import ModelMessage, ToolReturnPart

from deep_core import DeepAgentDeps, Kernel, create_default_deps
from tests.stubs import Call, Script, Turn, function_model

pytestmark = pytest.mark.anyio

Run = Callable[..., Any]


def made(kind: str, script: Script, tools: list[Any], capabilities: list[Any], **settings: Any) -> Agent[Any, Any]:
    model = function_model(script)
    if kind == "plain":
        return Agent(model, tools=tools, capabilities=capabilities)
    return Kernel(discover=False).create_agent(model, tools=tools, capabilities=capabilities, **settings)


@pytest.fixture(params=["plain", "kernel"])
def run(request: pytest.FixtureRequest) -> Run:
    """Let a model make calls in one turn; return its tool results, `outcome: text`."""

    async def go(calls: list[Call], tools: list[Any], *capabilities: Any, app: Any = None) -> list[str]:
        script = Script(Turn(calls=tuple(calls)), "done")
        agent = made(request.param, script, tools, list(capabilities))
        deps = app if request.param == "plain" else create_default_deps(app=app)
        result = await agent.run("go", deps=deps)
        assert result.output == "done"
        return returns(result.all_messages())

    return go


def returns(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return [f"{part.outcome}: {part.content}" for part in parts]


def app_of(ctx: RunContext[Any]) -> Any:
    """The application's object, in an agent of the kernel and a plain one."""
    return ctx.deps.app if isinstance(ctx.deps, DeepAgentDeps) else ctx.deps


async def balance() -> str:
    return "5"


def failing(error: BaseException) -> Tool[Any]:
    async def fail() -> None:
        raise error

    return Tool(fail)


# -- errors as results -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (KeyError("x"), "KeyError: 'x'"),
        (ModelHTTPError(503, "inner"), "ModelHTTPError: status_code: 503, model_name: inner, body: None"),
        (ExceptionGroup("two", [ValueError("a")]), "ExceptionGroup: two (1 sub-exception)"),
    ],
)
async def test_X5_a_tool_that_raises_is_a_failed_result_and_its_sibling_is_not(
    run: Run, error: Exception, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "deep.universe"):
        results = await run([Call("fail"), Call("balance")], [failing(error), balance], ToolErrorsAsResults())
    assert results == [f"failed: {said}", "success: 5"]
    assert f"tool fail failed: {said}" in caplog.text
    assert "Traceback" not in caplog.text


async def test_X5_a_validation_error_in_a_tool_shows_no_values(run: Run) -> None:
    """They may come from `deps`, which no model sees."""

    async def fail() -> None:
        TypeAdapter(dict[str, int]).validate_python({"port": "hunter2"})

    (result,) = await run([Call("fail")], [fail], ToolErrorsAsResults())
    assert result.startswith("failed: ValidationError: dict[str,int]: port: Input should be a valid integer")
    assert "hunter2" not in result


async def test_X5_without_the_capability_a_plain_error_ends_the_run(run: Run) -> None:
    """So that the tests above can fail."""
    with pytest.raises(ValueError, match="no such city"):
        await run([Call("fail")], [failing(ValueError("no such city"))])


@pytest.mark.parametrize(
    "error",
    [
        UsageLimitExceeded("too many requests"),
        UserError("used wrongly"),
        UnexpectedModelBehavior("an inner run failed"),
        ExceptionGroup("tasks", [ValueError("a"), UsageLimitExceeded("too many requests")]),
        asyncio.CancelledError(),
    ],
)
async def test_X5_what_concerns_the_run_passes(run: Run, error: BaseException) -> None:
    with pytest.raises(type(error)):
        await run([Call("fail")], [failing(error)], ToolErrorsAsResults())


async def test_X5_retries_and_failures_of_the_tools_author_stay_what_they_are(run: Run) -> None:
    results = await run(
        [Call("fail"), Call("again")],
        [failing(ToolFailed("closed on Sundays")), Tool(_again, name="again")],
        ToolErrorsAsResults(),
    )
    assert results[0] == "failed: closed on Sundays"
    assert "try Paris" in results[1]
    assert not results[1].startswith("failed")


async def _again() -> None:
    raise ModelRetry("try Paris")


async def test_X5_retries_that_are_used_up_end_the_run(run: Run) -> None:
    with pytest.raises(UnexpectedModelBehavior, match="max retries"):
        await run([Call("again")], [Tool(_again, name="again", max_retries=0)], ToolErrorsAsResults())


async def test_X5_an_error_of_any_length_is_truncated(run: Run) -> None:
    (result,) = await run([Call("fail")], [failing(ValueError("x" * 100_000))], ToolErrorsAsResults())
    assert len(result) == len("failed: ") + 2_000


async def test_X5_a_scope_leaves_other_tools_alone(run: Run) -> None:
    tools = [Tool(failing(ValueError("a")).function, metadata={"tags": ["read"]})]
    assert await run([Call("fail")], tools, ToolErrorsAsResults("read")) == ["failed: ValueError: a"]
    with pytest.raises(ValueError, match="a"):
        await run([Call("fail")], tools, ToolErrorsAsResults("network"))


async def test_X5_a_middleware_inside_that_fails_is_a_failed_result(run: Run) -> None:
    async def guard(call: ToolCall, next: Next) -> Any:
        raise PermissionError("not on Sundays")

    capabilities = [ToolErrorsAsResults(), Middlewares([Layer(guard, uid="guard")])]
    assert await run([Call("balance")], [balance], *capabilities) == ["failed: PermissionError: not on Sundays"]


async def test_an_approval_passes_and_the_approved_call_that_raises_is_a_failed_result() -> None:
    script = Script(Turn(calls=(Call("fail", id="c1"),)), "done")
    agent = made("kernel", script, [failing(ValueError("a"))], [ToolErrorsAsResults()], interrupt_on={"fail": True})
    deps = create_default_deps()
    asked = await agent.run("go", deps=deps)
    assert isinstance(asked.output, DeferredToolRequests)
    answer = DeferredToolResults(approvals={"c1": True})
    result = await agent.run(message_history=asked.all_messages(), deferred_tool_results=answer, deps=deps)
    assert returns(result.new_messages()) == ["failed: ValueError: a"]


# -- middleware --------------------------------------------------------------------------------------------------------


def tracing(name: str, trace: list[str], **options: Any) -> Layer:
    async def layer(call: ToolCall, next: Next) -> Any:
        trace.append(f"{name}-in")
        result = await next(call)
        trace.append(f"{name}-out")
        return result

    return Layer(layer, uid=name, **options)


async def test_M6_layers_and_capabilities_form_one_onion(run: Run) -> None:
    trace: list[str] = []

    async def tool() -> str:
        trace.append("tool")
        return "done"

    inner = Middlewares([tracing("s", trace, scope="write"), tracing("g", trace)])
    await run([Call("tool")], [tool], Middlewares([tracing("outer", trace)]), inner)
    assert trace == ["outer-in", "g-in", "s-in", "tool", "s-out", "g-out", "outer-out"]


@pytest.mark.parametrize("scope", ["read", "name:look & ~network", "^lo"])
async def test_M8_the_scope_of_a_capability_is_an_expression(run: Run, scope: str) -> None:
    trace: list[str] = []

    async def look() -> str:
        return "seen"

    async def send() -> str:
        return "sent"

    tools = [Tool(look, metadata={"tags": ["read"]}), Tool(send, metadata={"tags": ["network"]})]
    assert await run([Call("look"), Call("send")], tools, Middlewares([tracing("m", trace)], scope)) == [
        "success: seen",
        "success: sent",
    ]
    assert trace == ["m-in", "m-out"]


async def test_M9_a_middleware_answers_without_the_tool(run: Run) -> None:
    runs: list[str] = []

    async def pay(amount: int) -> str:
        runs.append("pay")
        return "paid"

    async def dry_run(call: ToolCall, next: Next) -> Any:
        return f"would {call.name} {call.arguments['amount']}"

    calls = [Call("pay", {"amount": 5})]
    assert await run(calls, [pay], Middlewares([Layer(dry_run, uid="dry")])) == ["success: would pay 5"]
    assert runs == []


async def test_M9_a_middleware_changes_arguments_and_result(run: Run) -> None:
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    async def cap(call: ToolCall, next: Next) -> Any:
        return (await next(replace(call, arguments={"amount": min(call.arguments["amount"], 10)}))).upper()

    calls = [Call("pay", {"amount": 99})]
    assert await run(calls, [pay], Middlewares([Layer(cap, uid="cap")])) == ["success: PAID 10"]


async def test_M7_a_tool_that_raises_under_a_layer_that_is_not_critical_runs_once(run: Run) -> None:
    runs: list[str] = []

    async def pay() -> str:
        runs.append("pay")
        raise ValueError("card declined")

    async def log(call: ToolCall, next: Next) -> Any:
        return await next(call)

    capabilities = [ToolErrorsAsResults(), Middlewares([Layer(log, uid="log", critical=False)])]
    assert await run([Call("pay")], [pay], *capabilities) == ["failed: ValueError: card declined"]
    assert runs == ["pay"]


async def test_M7_a_retry_that_a_tool_asks_for_passes_a_layer_that_is_not_critical(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def log(call: ToolCall, next: Next) -> Any:
        return await next(call)

    layer = Layer(log, uid="log", critical=False)
    (result,) = await run([Call("again")], [Tool(_again, name="again")], Middlewares([layer]))
    assert "try Paris" in result
    assert caplog.records == []


async def test_X10_each_call_has_its_own_context_in_middleware(run: Run) -> None:
    seen: list[Any] = []

    async def note(call: ToolCall, next: Next) -> Any:
        call.context["k"].append(call.id)
        seen.append(call.context["k"])
        return await next(call)

    app: dict[str, Any] = {"k": []}
    await run(
        [Call("balance", id="1"), Call("balance", id="2")], [balance], Middlewares([Layer(note, uid="n")]), app=app
    )
    assert sorted(seen) == [["1"], ["2"]]
    assert app == {"k": []}


async def test_X10_the_context_of_middleware_may_be_made_of_the_run(run: Run) -> None:
    seen: list[Any] = []

    async def note(call: ToolCall, next: Next) -> Any:
        seen.append(dict(call.context))
        return await next(call)

    layers = [Layer(note, uid="note")]
    await run(
        [Call("balance")], [balance], Middlewares(layers, context=lambda ctx: {"step": ctx.run_step}), app={"a": 1}
    )
    await run([Call("balance")], [balance], Middlewares(layers), app=["not", "a", "mapping"])
    assert seen == [{"step": 1}, {}]


async def test_a_call_that_the_policy_denies_reaches_no_middleware() -> None:
    trace: list[str] = []
    script = Script(Turn(calls=(Call("balance"),)), "done")
    agent = made("kernel", script, [balance], [Middlewares([tracing("m", trace)])], interrupt_on={"balance": True})
    asked = await agent.run("go", deps=create_default_deps())
    assert isinstance(asked.output, DeferredToolRequests)
    assert trace == []


async def test_arguments_that_a_middleware_changes_are_decided_again() -> None:
    """A middleware cannot make of an approved call another one."""
    paid: list[int] = []

    async def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    async def more(call: ToolCall, next: Next) -> Any:
        return await next(replace(call, arguments={"amount": 1_000}))

    script = Script(Turn(calls=(Call("pay", {"amount": 1}, id="c1"),)), "done")
    agent = made("kernel", script, [pay], [Middlewares([Layer(more, uid="more")])], interrupt_on={"pay": True})
    deps = create_default_deps()
    asked = await agent.run("go", deps=deps)
    answer = DeferredToolResults(approvals={"c1": True})
    result = await agent.run(message_history=asked.all_messages(), deferred_tool_results=answer, deps=deps)
    assert isinstance(result.output, DeferredToolRequests)
    assert paid == []


# -- isolated contexts -------------------------------------------------------------------------------------------------


class Handle:
    """Something that is shared, a connection say."""


async def test_X10_each_call_of_a_tool_has_its_own_copy_of_the_applications_object(run: Run) -> None:
    together = asyncio.Barrier(2)

    async def work(ctx: RunContext[Any], n: int) -> str:
        app = app_of(ctx)
        app["notes"].append(n)
        await together.wait()
        assert app["handle"] is handle
        return str(app["notes"])

    handle = Handle()
    app: dict[str, Any] = {"notes": [], "handle": handle}
    calls = [Call("work", {"n": n}) for n in range(2)]
    assert await run(calls, [work], IsolatedContexts(), app=app) == ["success: [0]", "success: [1]"]
    assert app == {"notes": [], "handle": handle}


async def test_X10_without_the_capability_calls_share_the_applications_object(run: Run) -> None:
    """So that the test above can fail."""

    async def work(ctx: RunContext[Any], n: int) -> str:
        app_of(ctx)["notes"].append(n)
        return "ok"

    app: dict[str, Any] = {"notes": []}
    await run([Call("work", {"n": n}) for n in range(2)], [work], app=app)
    assert sorted(app["notes"]) == [0, 1]


@pytest.mark.parametrize("app", [None, "text", Handle()])
async def test_X11_an_object_that_is_no_container_is_shared(run: Run, app: Any) -> None:
    seen: list[Any] = []

    async def work(ctx: RunContext[Any]) -> str:
        seen.append(app_of(ctx))
        return "ok"

    assert await run([Call("work")], [work], IsolatedContexts(), app=app) == ["success: ok"]
    assert seen[0] is app


async def test_X10_the_sessions_state_stays_shared() -> None:
    import deep_todo

    script = Script(Call("write_todos", {"todos": [{"content": "A", "status": "pending"}]}), "done")
    with Kernel(plugins=[deep_todo], discover=False, strict=True) as kernel:
        agent = kernel.create_agent(function_model(script), capabilities=[IsolatedContexts()])
        deps = create_default_deps(kernel=kernel, app={"k": []})
        await agent.run("go", deps=deps)
        assert [todo.content for todo in deps.state[deep_todo.TODOS]] == ["A"]


async def test_the_policies_of_an_agent_hold_for_its_subagents() -> None:
    import deep_subagents

    trace: list[str] = []

    async def fail(ctx: RunContext[Any]) -> None:
        ctx.deps.app["notes"].append("changed")
        raise ValueError("no such city")

    task = {"description": "Find it.", "subagent_type": "general-purpose"}
    script = Script(Call("task", task), Call("fail"), "there is none", "done")
    layers = Middlewares([tracing("m", trace, scope="name:fail")])
    with Kernel(plugins=[deep_subagents], discover=False, strict=True) as kernel:
        capabilities = [ToolErrorsAsResults(), layers, IsolatedContexts()]
        agent = kernel.create_agent(function_model(script), tools=[fail], capabilities=capabilities, interrupt_on=False)
        app: dict[str, Any] = {"notes": []}
        result = await agent.run("go", deps=create_default_deps(kernel=kernel, app=app))
    assert returns(result.all_messages()) == ["success: there is none"]
    assert trace == ["m-in"]
    assert app == {"notes": []}
