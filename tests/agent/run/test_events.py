"""Run events: what plugins hear of a run, in which order, and that listening changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolResults, ToolDenied
from pydantic_ai.capabilities import AbstractCapability

import deep_core
from deep_core import (
    ApprovalEvent,
    Deny,
    RequestEvent,
    RunEndEvent,
    RunEvent,
    RunStartEvent,
    ToolEvent,
    create_default_deps,
)
from tests.plugins_by_hand import Tools, agent_of, kernel_of, pending, plugin, run, scripted
from tests.stubs import Call, Turn, Usage


class Ear:
    """Keeps the events that it hears."""

    def __init__(self) -> None:
        self.heard: list[RunEvent] = []

    def listen(self, event: RunEvent) -> None:
        self.heard.append(event)

    @property
    def plugin(self) -> object:
        return plugin("ear", run_event=self.listen)

    @property
    def told(self) -> list[str]:
        """The events, short."""
        return [
            f"{type(event).__name__} {getattr(event, 'outcome', '') or getattr(event, 'decision', '')}".strip()
            for event in self.heard
        ]


def disk() -> Tools:
    return Tools(id="disk").add("look", tags=["read"]).add("wipe", requires_approval=True)


def test_a_run_is_reported_from_its_start_to_its_end() -> None:
    ear, deps = Ear(), create_default_deps()
    model = scripted(Turn(calls=(Call("look", {"path": "a"}, id="c1"),), usage=Usage(12, 5)))
    result = run(agent_of(plugin("disk", toolsets=[disk().toolset]), ear.plugin, model=model), deps=deps)
    assert ear.told == [
        *("RunStartEvent", "RequestEvent", "ToolEvent started", "ToolEvent success", "RequestEvent", "RunEndEvent")
    ]
    assert {(event.run_id, event.session_id, event.depth) for event in ear.heard} == {
        (result.run_id, deps.session_id, 0)
    }
    request, started, ended = ear.heard[1:4]
    assert isinstance(request, RequestEvent)
    assert (request.model, request.input_tokens, request.output_tokens) == ("stub", 12, 5)
    assert isinstance(started, ToolEvent)
    assert isinstance(ended, ToolEvent)
    assert (started.tool, started.plugin, started.call_id) == ("look", "disk", "c1")
    assert dict(ended.args)["path"] == "a"
    assert ended.milliseconds >= 0
    assert ended.error is None


def test_approvals_are_reported_as_asked_approved_and_denied() -> None:
    ear, deps = Ear(), create_default_deps()
    agent = agent_of(
        plugin("disk", toolsets=[disk().toolset]), ear.plugin, model=scripted(Call("wipe", {"path": "a"}, id="c1"))
    )
    asked = run(agent, deps=deps)
    assert "ApprovalEvent asked" in ear.told
    assert not any(told.startswith("ToolEvent") for told in ear.told)
    answers = pending(asked).build_results(approve_all=True)
    run(agent, None, deps, message_history=asked.all_messages(), deferred_tool_results=answers)
    decisions = [(e.decision, e.tool, e.plugin, e.call_id) for e in ear.heard if isinstance(e, ApprovalEvent)]
    assert decisions == [("asked", "wipe", "disk", "c1"), ("approved", "wipe", "disk", "c1")]
    ear.heard.clear()
    no = DeferredToolResults(approvals={"c1": ToolDenied("keep it")})
    run(agent, None, deps, message_history=asked.all_messages(), deferred_tool_results=no)
    decisions = [(e.decision, e.tool, e.plugin, e.reason) for e in ear.heard if isinstance(e, ApprovalEvent)]
    assert decisions == [("denied", "wipe", "disk", "keep it")]
    ear.heard.clear()
    guard = plugin("guard", check_call=lambda call: Deny("not today"))
    run(agent_of(plugin("disk", toolsets=[disk().toolset]), guard, ear.plugin, model=scripted(Call("look", {}))))
    (denied,) = [event for event in ear.heard if isinstance(event, ApprovalEvent)]
    assert (denied.decision, denied.reason) == ("denied", "not today")


def test_a_tool_that_fails_and_one_that_asks_for_another_try_are_distinguished() -> None:
    from pydantic_ai import FunctionToolset, ModelRetry

    toolset = FunctionToolset[Any](id="moody")

    @toolset.tool_plain
    def crash() -> str:
        raise ValueError("broken pipe")

    @toolset.tool_plain
    def again() -> str:
        raise ModelRetry("with less")

    ear = Ear()
    run(agent_of(plugin("moody", toolsets=[toolset]), ear.plugin, model=scripted(Call("crash", {}), Call("again", {}))))
    ends = [event for event in ear.heard if isinstance(event, ToolEvent) and event.outcome != "started"]
    assert [(event.tool, event.outcome) for event in ends] == [("crash", "failed"), ("again", "retried")]
    assert "broken pipe" in (ends[0].error or "")


def test_the_end_of_a_run_that_failed_says_why() -> None:
    ear = Ear()

    def broken(view: Any) -> Any:
        raise RuntimeError("no line")

    with pytest.raises(RuntimeError):
        run(agent_of(ear.plugin, model=scripted(broken)))
    assert isinstance(ear.heard[0], RunStartEvent)
    end = ear.heard[-1]
    assert isinstance(end, RunEndEvent)
    assert "no line" in (end.error or "")


def test_the_end_of_a_run_that_was_cancelled_is_reported() -> None:
    ear = Ear()
    waiting = asyncio.Event()

    async def forever() -> str:
        waiting.set()
        await asyncio.sleep(3600)
        return ""

    async def scene() -> None:
        agent: Agent[Any, Any] = agent_of(ear.plugin, model=scripted(Call("forever", {})), tools=[forever])
        task = asyncio.create_task(agent.run("go", deps=create_default_deps()))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scene())
    assert ear.told[-2:] == ["ToolEvent started", "RunEndEvent"]
    assert ear.heard[-1].error == "CancelledError"  # type: ignore[attr-defined]


def test_listening_does_not_make_requests_stream() -> None:
    model, ear = scripted(Call("look", {})), Ear()
    run(agent_of(plugin("disk", toolsets=[disk().toolset]), ear.plugin, model=model))
    assert [view.stream for view in model.player.views] == [False, False]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_listener_that_raises_is_recorded_and_the_others_hear_all(asynchronous: bool) -> None:
    def broken(event: RunEvent) -> None:
        raise OSError("no disk")

    async def slowly_broken(event: RunEvent) -> None:
        await asyncio.sleep(0)
        raise OSError("no disk")

    ear = Ear()
    kernel = kernel_of(plugin("a_broken", run_event=slowly_broken if asynchronous else broken), ear.plugin)
    assert run(kernel.create_agent(scripted())).output == "done"
    assert ear.told == ["RunStartEvent", "RequestEvent", "RunEndEvent"]
    assert [(i.plugin, i.where) for i in kernel.incidents] == [("a_broken", "hook deep_run_event")] * 3


def test_with_strict_a_listener_that_raises_ends_the_run() -> None:
    def broken(event: RunEvent) -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        run(agent_of(plugin("broken", run_event=broken), strict=True))


def test_an_async_listener_is_awaited_in_order() -> None:
    told: list[str] = []

    async def slowly(event: RunEvent) -> None:
        await asyncio.sleep(0)
        told.append(type(event).__name__)

    run(agent_of(plugin("slow", run_event=slowly)))
    assert told == ["RunStartEvent", "RequestEvent", "RunEndEvent"]


def test_an_event_is_frozen() -> None:
    event = RunStartEvent(run_id="r", session_id="s")
    with pytest.raises(FrozenInstanceError):
        event.run_id = "other"  # type: ignore[misc]


def test_a_listener_cannot_change_the_arguments_of_the_call_it_hears_of() -> None:
    tools = disk()

    def meddle(event: RunEvent) -> None:
        if isinstance(event, ToolEvent):
            event.args["path"] = "/"  # type: ignore[index]

    kernel = kernel_of(plugin("disk", toolsets=[tools.toolset]), plugin("meddler", run_event=meddle))
    run(kernel.create_agent(scripted(Call("look", {"path": "a"}))))
    assert tools.ran == [("look", {"path": "a", "text": ""})]


def test_plugins_hear_of_an_agent_once_and_their_errors_are_recorded() -> None:
    made: list[Any] = []

    def broken(agent: Any) -> None:
        raise RuntimeError("no")

    async def cannot(agent: Any) -> None: ...

    kernel = kernel_of(
        plugin("a_broken", agent_created=broken),
        plugin("b_async", agent_created=cannot),
        plugin("c_told", agent_created=lambda agent, context: made.append((agent, context.plugin))),
    )
    agent = kernel.create_agent(scripted())
    assert made == [(agent, "c_told")]
    assert {incident.plugin for incident in kernel.incidents} == {"a_broken", "b_async"}


@pytest.mark.skipif(not hasattr(AbstractCapability, "prepare_model_request"), reason="needs Pydantic AI 2.64")
@pytest.mark.parametrize("hosted", [True, False])
def test_a_request_of_several_attempts_is_reported_once(hosted: bool) -> None:
    """A capability rejects the first answer; the kernel calls a small one itself, and Pydantic AI any other."""
    from pydantic_ai.exceptions import RetryModelRequest  # since 2.64

    class Rejects(AbstractCapability[Any]):
        attempts = 0

        async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
            Rejects.attempts += 1
            if Rejects.attempts == 1:
                raise RetryModelRequest
            return response

    if not hosted:
        Rejects.get_instructions = lambda self: None  # type: ignore[method-assign]
    ear, model = Ear(), scripted(Turn(text="first", usage=Usage(1, 1)), Turn(text="second", usage=Usage(12, 5)))
    result = run(agent_of(ear.plugin, plugin("picky", capabilities=[Rejects()]), model=model))
    assert (result.output, Rejects.attempts) == ("second", 2)
    assert ear.told == ["RunStartEvent", "RequestEvent", "RunEndEvent"]


def cancelled(event: RunEvent) -> None:
    raise asyncio.CancelledError("a task of its own")


async def awaits_a_cancelled_task(event: RunEvent) -> None:
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel()
    await task


def leaves(event: RunEvent) -> None:
    raise SystemExit(3)


def breaks(event: RunEvent) -> None:
    raise RuntimeError("not today")


@pytest.mark.parametrize("observer", [cancelled, awaits_a_cancelled_task, leaves, breaks])
def test_an_observer_can_never_break_a_run(observer: Any) -> None:
    tools, ear = Tools("look"), Ear()
    kernel = kernel_of(plugin("disk", toolsets=[tools.toolset]), plugin("bad", run_event=observer), ear.plugin)
    result = run(kernel.create_agent(scripted(Call("look", {}), "done")))
    assert (result.output, tools.names) == ("done", ["look"])
    assert {incident.plugin for incident in kernel.incidents} == {"bad"}
    assert len(ear.heard) == len(kernel.incidents)  # all others hear of everything


def test_a_run_that_is_cancelled_while_an_observer_waits_ends() -> None:
    async def cancel() -> None:
        entered = asyncio.Event()

        async def waits(event: RunEvent) -> None:
            if not entered.is_set():
                entered.set()
                await asyncio.Event().wait()

        kernel = kernel_of(plugin("slow", run_event=waits))
        under_way = asyncio.ensure_future(
            kernel.create_agent(scripted("done")).run("go", deps=create_default_deps(kernel=kernel))
        )
        await entered.wait()
        under_way.cancel()
        with pytest.raises(asyncio.CancelledError):
            await under_way
        assert [*kernel.incidents] == []

    asyncio.run(cancel())


def test_every_event_is_public_and_on_the_page_of_events() -> None:
    events = {kind.__name__ for kind in deep_core.RunEvent.__subclasses__() if kind.__module__.startswith("deep_core.")}
    page = Path(deep_core.__file__).parents[1].joinpath("docs", "reference", "events.md").read_text("utf-8")
    assert len(events) > 5
    assert {name for name in events if name not in deep_core.__all__ or f"::: deep_core.{name}\n" not in page} == set()
