"""Running, resuming and deciding, each attempt with a kernel, an agent and a runner of its own, as processes have."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import deep_backends
import deep_sessions
import deep_subagents
import pytest
from deep_sessions import (
    AgentError,
    Commit,
    DecisionsPending,
    Lease,
    LeaseLost,
    MemoryStore,
    NewEntry,
    NothingToResume,
    NotPending,
    Runner,
    SessionBusy,
    SessionNotFound,
    SqliteStore,
    StoreError,
    effect_key,
    session_capabilities,
)
from deep_sessions.deltas import text_of
from deep_sessions.fold import fold
from deep_sessions.journal import base_entry
from pydantic_ai import CancellationToken, DeferredToolResults, FunctionToolset, RunContext, ToolDenied
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.usage import RequestUsage

from deep_core import Kernel, StateSlot, create_deep_agent, create_default_deps, default_kernel
from tests.plugins_by_hand import plugin

pytestmark = pytest.mark.anyio
Tool = Callable[..., Any]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def model(*answers: Sequence[ToolCallPart] | str) -> FunctionModel:
    """A model that answers by the number of responses in the conversation, so any process can continue it."""

    def answer(messages: list[ModelMessage], info: object) -> ModelResponse:
        count = sum(isinstance(message, ModelResponse) for message in messages)
        said = answers[min(count, len(answers) - 1)]
        return ModelResponse([TextPart(said)] if isinstance(said, str) else [*said])

    return FunctionModel(answer)


def call(tool: str, call_id: str = "c1", **args: Any) -> ToolCallPart:
    return ToolCallPart(tool, args, call_id)


def runner(
    store: MemoryStore,
    of: FunctionModel,
    *tools: Tool,
    tags: Sequence[str] = ("write",),
    how: Any = None,
    keep_partial: bool = False,
    **more: Any,
) -> Runner:
    """As a fresh process makes it."""
    toolset: FunctionToolset[Any] = FunctionToolset(id="things")
    for tool in tools:
        toolset.add_function(tool, metadata={"tags": [*tags], **(how or {})}, **more)
    kernel = Kernel(
        plugins=[deep_sessions, deep_backends, deep_subagents, plugin("things", toolsets=[toolset])], discover=False
    )
    agent = kernel.create_agent(of, backend="memory", capabilities=session_capabilities())
    return Runner(agent, store, kernel=kernel, keep_partial=keep_partial)


def said(messages: Sequence[ModelMessage]) -> list[object]:
    """What the user said."""
    return [part.content for message in messages for part in message.parts if isinstance(part, UserPromptPart)]


class Dying(MemoryStore):
    """A store whose process dies when a test says so: no write arrives any more."""

    dead = False

    async def commit(self, lease: Lease, commit: Commit) -> int:
        if self.dead:
            raise asyncio.CancelledError
        return await super().commit(lease, commit)

    def restart(self) -> None:
        self.dead = False
        for session in self._sessions.values():
            session.holder = None


async def dies_in(store: Dying, running: Any) -> None:
    with pytest.raises(asyncio.CancelledError):
        await running
    store.restart()


def results(messages: Sequence[ModelMessage]) -> list[str]:
    return [str(part.content) for m in messages for part in m.parts if isinstance(part, ToolReturnPart)]


# -- messages and turns ------------------------------------------------------------------------------------------------


async def test_a_second_turn_continues_the_conversation_in_another_process() -> None:
    store = MemoryStore()
    first = await runner(store, model("one", "two")).run("s", "hello", run_id="r1")
    second = await runner(store, model("one", "two")).run("s", "again", run_id="r2")
    assert (first.status, second.status) == ("completed", "completed")
    assert [m.text for m in second.messages if isinstance(m, ModelResponse)] == ["one", "two"]


@pytest.mark.slow
async def test_a_session_that_is_not_loaded_any_more_leaves_only_its_workspace(tmp_path: Path) -> None:
    """With every plugin that is installed: what one of them keeps of each session would fill a server."""
    store = SqliteStore(tmp_path / "sessions.db")
    agent = create_deep_agent(model("one"), backend="memory", capabilities=session_capabilities())
    runner, found = Runner(agent, store, kernel=default_kernel(), keep=2), list[int]()
    for session in range(60):
        await runner.run(f"s{session}", "hello", run_id=f"r{session}")
        if session in (19, 39, 59):
            gc.collect()
            found.append(len(gc.get_objects()))
    await store.aclose()
    assert found[2] - found[1] <= 20 * 20, found  # a workspace in memory is about six objects


async def test_an_unknown_session_is_not_resumed_and_not_made() -> None:
    store = MemoryStore()
    with pytest.raises(SessionNotFound, match="'s'"):
        await runner(store, model("one")).resume("s")
    with pytest.raises(SessionNotFound):
        await runner(store, model("one")).run("s", "hello", run_id="r", create=False)
    assert await store.list() == []


async def test_a_session_whose_run_has_ended_has_nothing_to_resume() -> None:
    store = MemoryStore()
    process = runner(store, model("one"))
    await process.run("s", "hello", run_id="r1")
    with pytest.raises(NothingToResume, match="completed"):
        await process.resume("s")


async def test_a_run_that_died_before_its_first_answer_starts_again_with_its_prompt() -> None:
    store = Dying()

    def answer(messages: list[ModelMessage], info: object) -> ModelResponse:
        store.dead = True
        return ModelResponse([TextPart("lost")])

    await dies_in(store, runner(store, FunctionModel(answer)).run("s", "hello", run_id="r1"))
    outcome = await runner(store, model("one")).resume("s")
    assert outcome.status == "completed"
    assert outcome.run_id == "r1"
    assert outcome.messages[0].parts[0].content == "hello"  # type: ignore[union-attr]


async def test_the_usage_of_all_attempts_counts_towards_the_runs_limit() -> None:
    store = Dying()

    async def put() -> str:
        store.dead = not ran
        ran.append(1)
        return "done"

    of, ran = model([call("put")], "end"), list[int]()
    await dies_in(store, runner(store, of, put, tags=["read"]).run("s", "go", run_id="r1"))
    outcome = await runner(store, of, put, tags=["read"]).resume("s")
    assert ran == [1, 1]
    assert outcome.usage.requests == 2


async def test_a_final_text_that_is_stored_ends_the_run_without_another_request() -> None:
    store = Dying()
    process = runner(store, model("one"))
    original = store.commit

    async def commit(lease: Lease, commit: Commit) -> int:
        # The text alone: it was slow, and the process died before the end.
        only = [entry for entry in commit.entries if entry.kind != "run_ended"]
        seq = await original(lease, replace(commit, entries=only, status=None))
        store.dead = any(entry.kind == "messages" for entry in only)
        if store.dead:
            raise asyncio.CancelledError
        return seq

    store.commit = commit  # type: ignore[method-assign]
    await dies_in(store, process.run("s", "hello", run_id="r1"))
    del store.commit  # type: ignore[attr-defined]
    outcome = await runner(store, model("asked again")).resume("s")
    assert outcome.status == "completed"
    assert outcome.messages[-1].text == "one"  # type: ignore[union-attr]


# -- one runner --------------------------------------------------------------------------------------------------------


async def test_a_second_runner_is_refused_at_once() -> None:
    store, inside, leave = MemoryStore(), asyncio.Event(), asyncio.Event()

    async def put() -> str:
        inside.set()
        await leave.wait()
        return "done"

    running = asyncio.create_task(runner(store, model([call("put")], "end"), put).run("s", "go", run_id="r1"))
    await inside.wait()
    with pytest.raises(SessionBusy):
        await runner(store, model("other")).run("s", "go", run_id="r2")
    with pytest.raises(SessionBusy):
        await runner(store, model("other")).resume("s")
    leave.set()
    assert (await running).status == "completed"


async def test_a_runner_that_lost_its_lease_writes_nothing_more() -> None:
    store = MemoryStore()

    async def put() -> str:
        store._sessions["s"].ends = 0.0  # the lease has ended, as after SIGSTOP
        await store.acquire("s", holder="another")
        return "done"

    with pytest.raises(LeaseLost):
        await runner(store, model([call("put")], "end"), put).run("s", "go", run_id="r1")
    kinds = [entry.kind for entry in await store.entries("s")]
    assert kinds == ["run_started", "messages"]


async def test_a_store_that_fails_ends_the_run_and_leaves_the_session_resumable() -> None:
    class Full(MemoryStore):
        full = False

        async def commit(self, lease: Lease, commit: Commit) -> int:
            if self.full:
                raise StoreError("the disk is full")
            return await super().commit(lease, commit)

    store, ran = Full(), list[int]()

    async def put() -> str:
        ran.append(1)
        store.full = True
        return "done"

    with pytest.raises(StoreError, match="full"):
        await runner(store, model([call("put")], "end"), put).run("s", "go", run_id="r1")
    store.full = False
    outcome = await runner(store, model([call("put")], "end"), put).resume("s")
    assert outcome.status == "completed"
    assert ran == [1]
    assert "Nobody knows" in results(outcome.messages)[0]


@pytest.mark.parametrize("error", [StoreError("the disk is full"), RuntimeError("the disk is full")], ids=repr)
async def test_a_store_that_fails_between_two_steps_loses_no_message_without_an_error(error: Exception) -> None:
    """A response is written while its tool runs. What a third party's store raises ends the run too."""
    tried = asyncio.Event()

    class Full(MemoryStore):
        async def commit(self, lease: Lease, commit: Commit) -> int:
            if any(entry.kind == "messages" for entry in commit.entries):
                tried.set()
                raise error
            return await super().commit(lease, commit)

    async def look() -> str:
        await tried.wait()
        return "seen"

    with pytest.raises(StoreError, match="the disk is full"):
        await runner(Full(), model([call("look")], "end"), look, tags=["read"]).run("s", "go", run_id="r1")


# -- effects -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tags", "how", "times"),
    [
        pytest.param(["write"], {}, 1, id="fail is the default"),
        pytest.param(["write"], {"on_unknown": "retry"}, 2, id="the author says retry"),
        pytest.param(["write", "idempotent"], {}, 2, id="idempotent implies retry"),
        pytest.param(["read"], {}, 2, id="a read runs again"),
    ],
)
async def test_a_call_that_may_have_run_does_what_its_author_said(tags: Any, how: Any, times: int) -> None:
    store, keys = Dying(), list[str]()

    async def put(ctx: RunContext[Any]) -> str:
        keys.append(effect_key(ctx))
        while all(entry.kind != "messages" for entry in await store.entries("s")):
            await asyncio.sleep(0)  # a read does not wait until its response is stored
        store.dead = len(keys) == 1
        return "done"

    of = model([call("put")], "end")
    await dies_in(store, runner(store, of, put, tags=tags, how=how).run("s", "go", run_id="r1"))
    outcome = await runner(store, of, put, tags=tags, how=how).resume("s")
    assert outcome.status == "completed"
    assert len(keys) == times
    assert len(set(keys)) == 1, "the key is the same in every attempt"
    assert ("Nobody knows" in results(outcome.messages)[0]) == (times == 1)


async def test_a_call_that_may_have_run_asks_a_person_if_its_author_said_so() -> None:
    store, ran = Dying(), list[int]()

    async def put() -> str:
        ran.append(1)
        store.dead = len(ran) == 1
        return "done"

    of, how = model([call("put")], "end"), {"on_unknown": "ask"}
    await dies_in(store, runner(store, of, put, how=how).run("s", "go", run_id="r1"))
    process = runner(store, of, put, how=how)
    outcome = await process.resume("s")
    assert outcome.status == "awaiting"
    assert outcome.requests is not None
    assert "Nobody knows" in outcome.requests.metadata["c1"]["reason"]
    assert ran == [1]
    await process.decide("s", outcome.requests.build_results(approve_all=True))
    assert (await runner(store, of, put, how=how).resume("s")).status == "completed"
    assert ran == [1, 1]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        pytest.param({"n": None, "data": [1, 2]}, "{'n': None, 'data': [1, 2]}", id="JSON"),
        pytest.param(ToolReturn("short", content="more"), "short", id="a tool return"),
        pytest.param(ToolFailed("no such file"), "no such file", id="a failure"),
        pytest.param(ModelRetry("try b"), "try b", id="a retry"),
        pytest.param(ValueError("broken"), "ValueError: broken", id="an exception"),
    ],
)
async def test_a_call_that_ended_before_the_crash_is_answered_from_the_ledger(result: Any, told: str) -> None:
    """The process dies in the other call of the batch."""
    store, ran = Dying(), list[str]()
    first_is_written = asyncio.Event()
    original = store.commit

    async def commit(lease: Lease, commit: Commit) -> int:
        seq = await original(lease, commit)
        if any(b'"put"' in row and b'"started"' not in row for row in commit.put.values()):
            first_is_written.set()
        return seq

    store.commit = commit  # type: ignore[method-assign]

    async def put() -> Any:
        ran.append("put")
        if isinstance(result, Exception):
            raise result
        return result

    async def other() -> str:
        ran.append("other")
        if ran.count("other") == 1:
            await first_is_written.wait()
            store.dead = True
        return "done"

    of = model([call("put", "a"), call("other", "b")], "end")
    await dies_in(store, runner(store, of, put, other, how={"on_unknown": "retry"}).run("s", "go", run_id="r1"))
    outcome = await runner(store, of, put, other, how={"on_unknown": "retry"}).resume("s")
    assert outcome.status == "completed", outcome.error
    assert sorted(ran) == ["other", "other", "put"]
    parts = [part for m in outcome.messages for part in m.parts if part.part_kind in ("tool-return", "retry-prompt")]
    assert told in " ".join(str(part.content) for part in parts if part.tool_call_id == "a")  # type: ignore[union-attr]


NO_JSON = "ran, but its result cannot be written as JSON"
CIRCLE: dict[str, Any] = {"name": "root"}
CIRCLE["parent"] = [CIRCLE]


class Opaque:
    def __str__(self) -> str:
        return "opaque"


@pytest.mark.parametrize("tags", [("write",), ("read",)])
@pytest.mark.parametrize(
    ("made", "stored"),
    [
        ("half \ud83d of a pair", "half \ufffd of a pair"),
        (Opaque(), NO_JSON),
        ({1: {"\udc80"}}, "{'1': ['\ufffd']}"),
        ({"deep": ["\udc80"]}, "{'deep': ['\ufffd']}"),
        (CIRCLE, NO_JSON),
    ],
    ids=["half of a pair", "an object", "a set", "a list", "a circle"],
)
async def test_what_json_cannot_hold_is_stored_as_it_can_be_read(made: Any, stored: Any, tags: Any) -> None:
    """From a tool, its result's metadata, the model and a person; or the model reads that it has no JSON."""
    store, ran = MemoryStore(), list[object]()
    half = made if isinstance(made, str) else "half \ud83d of a pair"

    async def odd() -> Any:
        ran.append(made)
        return ToolReturn(made, metadata={"made": made})

    async def plain() -> Any:
        ran.append(made)
        return made

    def answer(messages: list[ModelMessage], info: object) -> ModelResponse:
        began = any(isinstance(message, ModelResponse) for message in messages)
        parts = [TextPart(f"it said: {half}")] if began else [call("odd", "a"), call("plain", "b")]
        return ModelResponse(parts, usage=RequestUsage(input_tokens=1))  # or it would be estimated, from JSON

    same = runner(store, FunctionModel(answer), odd, plain, tags=tags)
    outcome = await same.run("s", half, run_id="r")
    assert outcome.status == "completed", outcome.error
    assert len(ran) == 2
    assert (await same.run("s", "And?", run_id="r2")).status == "completed"
    messages = fold(await store.load("s")).messages()
    returned = [part.content for m in messages for part in m.parts if isinstance(part, ToolReturnPart)]
    assert len(returned) == 2
    assert all(stored in str(text) for text in returned), returned
    assert messages[0].parts[0].content == "half \ufffd of a pair"  # type: ignore[union-attr]
    assert messages[-1].parts[0].content == "it said: half \ufffd of a pair"  # type: ignore[union-attr]


async def test_calls_that_a_stopped_run_left_open_are_answered_before_the_next_message() -> None:
    store, token, ran = MemoryStore(), CancellationToken(), list[str]()

    async def put() -> str:
        ran.append("put")
        return "put is done"

    async def hang() -> str:
        ran.append("hang")
        token.cancel()
        await asyncio.Event().wait()
        return "never"

    of = model([call("put", "a"), call("hang", "b")], "end")
    stopped = await runner(store, of, put, hang, sequential=True).run("s", "go", run_id="r1", token=token)
    assert stopped.status == "aborted"
    assert (await store.info("s")).status == "aborted"
    outcome = await runner(store, of, put, hang).run("s", "next", run_id="r2")
    assert outcome.status == "completed", outcome.error
    assert ran == ["put", "hang"]
    first, second = results(outcome.messages)
    assert first == "put is done"
    assert "Nobody knows" in second
    assert (await store.load("s")).ledger == {}


async def test_what_a_stopped_run_did_can_stay_in_the_conversation_with_an_unfinished_text() -> None:
    store, token = MemoryStore(), CancellationToken()

    async def write(messages: list[ModelMessage], info: object) -> AsyncIterator[str | DeltaToolCalls]:
        if len(messages) == 1:
            yield {0: DeltaToolCall("look", "{}", tool_call_id="a")}
        elif any(isinstance(message, ModelResponse) and message.text for message in messages):
            yield "Good."
        else:
            yield "The first half. "
            token.cancel()
            await asyncio.Event().wait()

    async def look() -> str:
        return "seen"

    async def show(ctx: RunContext[Any], events: AsyncIterable[object]) -> None:
        async for _ in events:
            pass

    def fresh() -> Runner:
        return runner(store, FunctionModel(stream_function=write), look, tags=["read"], keep_partial=True)

    stopped = await fresh().run("s", "go", run_id="r1", token=token, on_events=show, labels={"model": "m"})
    assert stopped.status == "aborted"
    state = fold(await store.load("s"))
    assert (state.run and state.run.labels) == {"model": "m"}
    assert stopped.messages == state.messages()
    outcome = await fresh().run("s", "next", run_id="r2", on_events=show)
    assert [m.text for m in outcome.messages if isinstance(m, ModelResponse)] == [None, "The first half. ", "Good."]
    assert results(outcome.messages) == ["seen"]


@pytest.mark.slow
async def test_an_answer_that_was_seen_stays_in_whatever_moment_its_run_is_stopped() -> None:
    token, seen = CancellationToken(), list[object]()

    def stop(moments: int) -> None:
        token.cancel() if moments == 0 else asyncio.get_running_loop().call_soon(stop, moments - 1)

    async def write(messages: list[ModelMessage], info: object) -> AsyncIterator[str]:
        yield "All "
        stop(moment)
        yield "of it."

    async def show(ctx: RunContext[Any], events: AsyncIterable[object]) -> None:
        async for event in events:
            seen.append(event)

    ends: list[str] = []
    for moment in range(60):  # each is one more step of the event loop
        store, token = MemoryStore(), CancellationToken()
        seen.clear()
        one = runner(store, FunctionModel(stream_function=write), keep_partial=True)
        done = await one.run("s", "go", run_id="r", token=token, on_events=show)
        ends.append(done.status)
        text = "".join(map(text_of, seen))
        stored = fold(await store.load("s")).messages()
        assert done.messages == stored
        assert [m.text for m in stored if isinstance(m, ModelResponse)] == [text] * bool(text), moment
    assert {*ends} == {"aborted", "completed"}


async def test_a_run_that_is_stopped_before_any_answer_leaves_its_message_in_the_conversation() -> None:
    store, token = MemoryStore(), CancellationToken()
    token.cancel()
    stopped = await runner(store, model("one"), keep_partial=True).run("s", "go", run_id="r1", token=token)
    assert stopped.status == "aborted"
    assert said(stopped.messages) == ["go"]
    assert stopped.messages == fold(await store.load("s")).messages()


@pytest.mark.slow
async def test_a_run_can_be_stopped_in_any_moment_and_the_next_one_has_the_session() -> None:
    one = runner(MemoryStore(), model("one"), keep_partial=True)
    ends: list[str] = []
    for moment in range(120):
        token = CancellationToken()
        running = asyncio.ensure_future(one.run(f"s{moment}", "go", run_id="stopped", token=token))
        for _ in range(moment):  # each is one more step of the event loop
            await asyncio.sleep(0)
        token.cancel()
        ends.append((await running).status)
        assert (await one.run(f"s{moment}", "go on", run_id="next")).status == "completed", moment
    assert {*ends} == {"aborted", "completed"}


async def test_the_price_of_a_run_adds_up_over_its_attempts() -> None:
    store = MemoryStore()
    fresh = await waiting(store, [])
    lease = await store.acquire("s")
    state = fold(await store.load("s"))
    assert state.run is not None
    state.run.usage |= {"cost": Decimal("0.5")}
    await store.commit(lease, Commit([base_entry(state.messages(), state.root.slots, state.run, "r1")]))
    await store.release(lease)
    await fresh().decide("s", DeferredToolResults(approvals={"a": True, "b": True}))
    outcome = await fresh().resume("s")
    assert (outcome.status, outcome.usage.cost) == ("completed", Decimal("0.5"))


# -- decisions ---------------------------------------------------------------------------------------------------------


async def waiting(store: MemoryStore, ran: list[str]) -> Callable[[], Runner]:
    async def put(n: int) -> str:
        ran.append(f"put {n}")
        return f"did {n}"

    def fresh() -> Runner:
        return runner(store, model([call("put", "a", n=1), call("put", "b", n=2)], "end"), put, requires_approval=True)

    outcome = await fresh().run("s", "go", run_id="r1")
    assert outcome.status == "awaiting"
    assert ran == []
    return fresh


async def test_calls_that_wait_are_decided_in_another_process_and_run_in_a_third() -> None:
    store, ran = MemoryStore(), list[str]()
    fresh = await waiting(store, ran)
    assert (await store.info("s")).status == "awaiting"
    await fresh().decide("s", DeferredToolResults(approvals={"a": True, "b": ToolDenied("not now")}))
    outcome = await fresh().resume("s")
    assert outcome.status == "completed"
    assert ran == ["put 1"]
    assert sorted(results(outcome.messages)) == ["did 1", "not now"]


async def test_a_session_waits_until_every_call_is_decided() -> None:
    store, ran = MemoryStore(), list[str]()
    fresh = await waiting(store, ran)
    await fresh().decide("s", DeferredToolResults(approvals={"a": True}))
    outcome = await fresh().resume("s")
    assert outcome.status == "awaiting"
    assert ran == []
    await fresh().decide("s", DeferredToolResults(approvals={"b": True}))
    assert (await fresh().resume("s")).status == "completed"
    assert sorted(ran) == ["put 1", "put 2"]


async def test_a_call_is_decided_once() -> None:
    store, ran = MemoryStore(), list[str]()
    fresh = await waiting(store, ran)
    await fresh().decide("s", DeferredToolResults(approvals={"a": False}))
    with pytest.raises(NotPending, match="'a' was decided already"):
        await fresh().decide("s", DeferredToolResults(approvals={"a": True}))
    with pytest.raises(NotPending, match=r"'ghost'.*These do: b"):
        await fresh().decide("s", DeferredToolResults(approvals={"ghost": True, "b": True}))
    with pytest.raises(NotPending, match="'b' does not wait for a result"):
        await fresh().decide("s", DeferredToolResults(calls={"b": "what nobody ran"}))
    await fresh().decide("s", DeferredToolResults(approvals={"b": True}))
    await fresh().resume("s")
    assert ran == ["put 2"]
    with pytest.raises(NotPending, match="None does"):
        await fresh().decide("s", DeferredToolResults(approvals={"b": True}))


async def test_two_answers_that_arrive_at_once_run_the_call_once_with_the_first() -> None:
    store, ran = MemoryStore(), list[str]()
    fresh = await waiting(store, ran)
    for answer in (b'{"a": {"approve": false}, "b": {"approve": true}}', b'{"a": {"approve": true}}'):
        await store.post("s", "decision", answer)
    await fresh().resume("s")
    assert ran == ["put 2"]


async def test_a_message_does_not_pass_by_calls_that_wait() -> None:
    store, ran = MemoryStore(), list[str]()
    fresh = await waiting(store, ran)
    with pytest.raises(DecisionsPending, match="put, put"):
        await fresh().run("s", "never mind", run_id="r2")
    assert (await fresh().resume("s")).status == "awaiting"


async def test_a_forged_approval_asks_again() -> None:
    """The answer is about arguments that the session's record has no question about."""
    store, ran = MemoryStore(), list[str]()
    fresh = await waiting(store, ran)
    session = store._sessions["s"]
    forged = next(entry for entry in session.entries if entry.kind == "messages")
    session.entries[forged.seq - 1] = replace(forged, data=forged.data.replace(b'"n":1', b'"n":9'))
    await store.post("s", "decision", b'{"a": {"approve": true}, "b": {"approve": true}}')
    outcome = await fresh().resume("s")
    assert outcome.status == "awaiting"
    assert "put 9" not in ran


@pytest.mark.slow
async def test_an_approval_three_subagents_deep_survives_a_process_for_each_step() -> None:
    store, ran = MemoryStore(), list[str]()

    async def put() -> str:
        ran.append("put")
        return "did it"

    def answer(messages: list[ModelMessage], info: Any) -> ModelResponse:
        text = str(messages[0].parts[0].content)  # type: ignore[union-attr]
        count = sum(isinstance(message, ModelResponse) for message in messages)
        if count:
            return ModelResponse([TextPart(f"{text} ended")])
        level = int(text[-1])
        tool = call("put") if level == 3 else call("task", description=f"level {level + 1}")
        return ModelResponse([tool])

    def fresh() -> Runner:
        toolset: FunctionToolset[Any] = FunctionToolset(id="things")
        toolset.add_function(put, metadata={"tags": ["write"]}, requires_approval=True)
        kernel = Kernel(
            plugins=[deep_sessions, deep_backends, deep_subagents, plugin("things", toolsets=[toolset])],
            discover=False,
            config={"plugins": {"subagents": {"options": {"max_depth": 3}}}},
        )
        agent = kernel.create_agent(FunctionModel(answer), backend="memory", capabilities=session_capabilities())
        return Runner(agent, store, kernel=kernel)

    outcome = await fresh().run("s", "level 0", run_id="r1")
    assert outcome.status == "awaiting", outcome.error
    assert ran == []
    assert outcome.requests is not None
    await fresh().decide("s", outcome.requests.build_results(approve_all=True))
    outcome = await fresh().resume("s")
    assert outcome.status == "completed", outcome.error
    assert ran == ["put"]


async def test_a_call_outside_a_session_has_no_key() -> None:
    async def put(ctx: RunContext[Any]) -> str:
        with pytest.raises(AgentError, match="in a session that is stored"):
            effect_key(ctx)
        return "done"

    agent = runner(MemoryStore(), model([call("put")], "end"), put).agent
    assert (await agent.run("go", deps=create_default_deps())).output == "end"


async def test_a_fold_skips_kinds_that_it_does_not_know() -> None:
    store = MemoryStore()
    await runner(store, model("one")).run("s", "hello", run_id="r1")
    lease = await store.acquire("s")
    await store.commit(lease, Commit([NewEntry("of_the_future", b'{"x": 1}', version=9)]))
    await store.release(lease)
    state = fold(await store.load("s"))
    assert state.seq == 4
    assert (await runner(store, model("one", "two")).run("s", "again", run_id="r2")).status == "completed"


# -- what changed meanwhile --------------------------------------------------------------------------------------------


async def test_a_run_whose_tool_is_gone_continues_without_it_and_runs_nothing() -> None:
    store, ran = Dying(), list[int]()

    async def put() -> str:
        ran.append(1)
        store.dead = True
        return "done"

    of = model([call("put")], "end")
    await dies_in(store, runner(store, of, put).run("s", "go", run_id="r1"))
    outcome = await runner(store, of).resume("s")
    assert outcome.status == "completed"
    assert outcome.text == "end"
    assert ran == [1]


async def test_the_state_of_a_plugin_that_is_gone_comes_back_with_it() -> None:
    slot: StateSlot[list[str]] = StateSlot("notes", list[str], list)
    notes = plugin("notes", state=[slot])

    def process(*plugins: object) -> Runner:
        kernel = Kernel(plugins=[deep_sessions, deep_backends, *plugins], discover=False)

        async def note(ctx: RunContext[Any]) -> str:
            if plugins:
                ctx.deps.state[slot] = [*ctx.deps.state[slot], "noted"]
            return "done"

        agent = kernel.create_agent(
            model([call("note")], "one", "two", "three"), capabilities=session_capabilities(), tools=[note]
        )
        return Runner(agent, store, kernel=kernel)

    store = MemoryStore()
    await process(notes).run("s", "go", run_id="r1")
    assert (await process().run("s", "on", run_id="r2")).status == "completed"
    assert (await process(notes).run("s", "on", run_id="r3")).status == "completed"
    assert fold(await store.load("s")).root.slots["notes"]["data"] == ["noted"]


async def test_a_resumed_run_has_the_configuration_of_its_new_process() -> None:
    store = Dying()

    async def put() -> str:
        store.dead = True
        return "done"

    await dies_in(store, runner(store, model([call("put")], "the old model"), put).run("s", "go", run_id="r1"))
    outcome = await runner(store, model([call("put")], "the new model"), put).resume("s")
    assert outcome.text == "the new model"
