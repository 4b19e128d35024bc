"""`Sessions`: what watchers see, and what people send while a run is under way."""

from __future__ import annotations

import asyncio
import json
import subprocess
import textwrap
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from shutil import copyfile
from typing import Any

import deep_sessions
import deep_subagents
import pytest
from deep_backends import memory_backend
from deep_sessions import (
    AgentDeps,
    Commit,
    DeepAgent,
    Delta,
    Event,
    Lease,
    MemoryStore,
    Message,
    NotPending,
    SessionBusy,
    SessionNotFound,
    Sessions,
    SessionStore,
    SqliteStore,
    StoreError,
    create,
    event_from_json,
    title_of,
)
from deep_sessions import feed as feeds
from deep_sessions.events import RequestRetried, RunInterrupted, UsageAdded, events_of
from deep_sessions.fold import fold
from deep_sessions.journal import Journal
from pydantic_ai import RunContext, Tool
from pydantic_ai.exceptions import ModelHTTPError, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RunUsage

from deep_core import Kernel, SessionState, StateSlot, hookimpl
from tests.another_process import Started, start
from tests.drawn import many

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


Answer = Callable[[list[ModelMessage]], Any]
"""Returns the model's text, or its calls."""


def model(
    answer: Answer, asked: list[list[ModelMessage]] | None = None, ready: asyncio.Event | None = None
) -> FunctionModel:
    """A model that streams one character after another, once a test is ready."""

    def whole(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = answer(messages)
        return ModelResponse([TextPart(said)] if isinstance(said, str) else said)

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if asked is not None:
            asked.append([*messages])
        if ready is not None:
            await ready.wait()
        said = answer(messages)
        if isinstance(said, str):
            for character in said:
                yield character
                await asyncio.sleep(0)
        else:
            for index, part in enumerate(said):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}

    return FunctionModel(whole, stream_function=stream)


def last_prompt(messages: list[ModelMessage]) -> str:
    texts = [part.content for m in messages for part in m.parts if isinstance(part, UserPromptPart)]
    return str(texts[-1])


def responses(messages: list[ModelMessage]) -> int:
    return sum(isinstance(message, ModelResponse) for message in messages)


@asynccontextmanager
async def service(
    answer: Answer, store: SessionStore | None = None, tools: Any = (), **more: Any
) -> AsyncIterator[Sessions]:
    asked, ready, store = more.pop("asked", None), more.pop("ready", None), store or MemoryStore()
    keep_partial, workspaces = more.pop("keep_partial", False), more.pop("workspaces", None)
    with Kernel(plugins=[deep_sessions, *more.pop("plugins", ())], discover=False) as kernel:
        deps = AgentDeps(model=model(answer, asked, ready), session_store=store, kernel=kernel, workspaces=workspaces)
        agent = await DeepAgent.create(deps=deps, tools=tools, **more)
        async with Sessions(agent, keep_partial=keep_partial) as sessions:
            yield sessions
        await agent.close()
    await store.aclose()


async def seen(sessions: Sessions, session_id: str, after: int = 0) -> list[Event]:
    """The events that exist."""
    return [event async for event in sessions.stream(session_id, after=after, follow=False)]


async def until(
    sessions: Sessions, session_id: str, kind: str, after: int = 0, ready: asyncio.Event | None = None
) -> list[Event]:
    """The events up to the first of this kind. Says when it watches: pieces come only to who watches."""
    found: list[Event] = []
    async with aclosing(sessions.stream(session_id, after=after)) as events:  # so that nobody watches afterwards
        async for event in events:
            if ready is not None:
                ready.set()
            found.append(event)
            if event.kind == kind:
                return found
    raise AssertionError(f"the stream ended without {kind}")


def read(events: list[Event]) -> list[str]:
    """The texts of the model, as a client joins them: a message replaces the pieces before it."""
    texts, pieces = [], ""
    for event in events:
        if event.kind == "text_added":
            pieces += event.text  # type: ignore[attr-defined]
        elif event.kind == "message_added":
            texts.append(event.text)  # type: ignore[attr-defined]
            pieces = ""
    return [*texts, pieces] if pieces else texts


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


# -- watching ----------------------------------------------------------------------------------------------------------


async def test_the_pieces_joined_are_the_message_and_numbers_grow() -> None:
    ready = asyncio.Event()
    async with service(lambda messages: "Good morning.", ready=ready) as sessions:
        run_id = await sessions.send("s", "Hello.")
        events = await until(sessions, "s", "run_ended", ready=ready)
    assert "".join(e.text for e in events if e.kind == "text_added") == "Good morning."  # type: ignore[attr-defined]
    assert read(events) == ["Good morning."]
    assert [event.n for event in events] == sorted({event.n for event in events})
    assert {event.run_id for event in events} == {run_id}
    assert kinds(events)[0] == "run_started"
    assert all(event_from_json(json.loads(json.dumps(event.to_json()))) == event for event in events)


async def test_a_watcher_of_another_process_gets_the_same_events_but_the_pieces(tmp_path: Path) -> None:
    def answer(messages: list[ModelMessage]) -> Any:
        return [ToolCallPart("look", {}, "c1")] if responses(messages) == 0 else "done"

    def look() -> str:
        return "seen"

    async with service(answer, SqliteStore(tmp_path / "s.db"), [look]) as one:
        await one.send("s", "Hello.")
        live = await until(one, "s", "run_ended")
    async with service(answer, SqliteStore(tmp_path / "s.db"), [look]) as other:
        stored = await seen(other, "s")
    passing = ("text_added", "thinking_added", "files_changed", "tool_ended")
    assert [e for e in live if e.kind not in passing] == [e for e in stored if e.kind not in passing]
    for events in (live, stored):
        (ended,) = (event for event in events if event.kind == "tool_ended")
        assert (ended.call_id, ended.tool, ended.plugin, ended.result) == ("c1", "look", "app", "seen")  # type: ignore[attr-defined]
    assert read(live) == read(stored) == ["done"]


async def test_what_another_process_did_exists_also_where_somebody_watches(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    async with service(lambda messages: "one", store) as one:
        await one.send("s", "Hello.")
        await one.wait("s")
        async with aclosing(one.stream("s")) as watcher:
            await anext(watcher)
            async with service(lambda messages: "two", SqliteStore(tmp_path / "s.db")) as other:
                await other.send("s", "Hello again.")
                await other.wait("s")
            assert read(await seen(one, "s")) == ["one", "two"]


async def test_a_watcher_that_comes_back_after_any_event_reads_the_same_text() -> None:
    def answer(messages: list[ModelMessage]) -> str:
        return f"answer {responses(messages)} to {last_prompt(messages)}"

    async with service(answer) as sessions:
        for text in ("one", "two"):
            await sessions.send("s", text)
            await sessions.wait("s")
        whole = await seen(sessions, "s")
        texts = [message.text for message in await sessions.history("s") if isinstance(message, ModelResponse)]
        assert read(whole) == texts
        for place, event in enumerate(whole):
            assert read(whole[: place + 1] + await seen(sessions, "s", event.n)) == texts


async def test_a_late_watcher_gets_the_message_and_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "EVENTS", 8)
    text = "x" * 200
    async with service(lambda messages: text) as sessions:
        await sessions.send("s", "Hello.")
        watcher = sessions.stream("s")
        first = await anext(watcher)
        await sessions.wait("s")  # the run ends while the watcher reads nothing
        rest: list[Event] = []
        async for event in watcher:
            rest.append(event)
            if event.kind == "run_ended":
                break
        await watcher.aclose()
    assert read([first, *rest]) == [text]
    assert len(rest) < 20


async def test_steps_of_a_tool_are_reported_with_its_plugin_and_files() -> None:
    async def save(path: str) -> str:
        return f"wrote {path}"

    def answer(messages: list[ModelMessage]) -> Any:
        return [ToolCallPart("save", {"path": "a.txt"}, "c1")] if responses(messages) == 0 else "done"

    ready = asyncio.Event()
    async with service(answer, tools=[save], ready=ready) as sessions:
        await sessions.send("s", "Save it.")
        events = await until(sessions, "s", "run_ended", ready=ready)
    assert kinds([e for e in events if e.kind in ("tool_started", "tool_ended", "files_changed")]) == [
        "tool_started",
        "tool_ended",
        "files_changed",
    ]
    (started,) = (event for event in events if event.kind == "tool_started")
    assert (started.plugin, started.args) == ("app", '{"path":"a.txt"}')  # type: ignore[attr-defined]
    assert [e.file for e in events if e.kind == "files_changed"] == ["a.txt"]  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_usage_of_each_request_is_reported_also_of_subagents() -> None:
    def answer(messages: list[ModelMessage]) -> Any:
        if last_prompt(messages) == "Count it.":
            return "three" if responses(messages) else [ToolCallPart("look", {}, "c2")]
        task = {"description": "Count it.", "subagent_type": "general-purpose"}
        return "done" if responses(messages) else [ToolCallPart("task", task, "c1")]

    def look() -> str:
        return "one, two, three"

    async with service(answer, tools=[look], plugins=[deep_subagents]) as sessions:
        await sessions.send("s", "Go.")
        result = await sessions.wait("s")
        used = [event for event in await seen(sessions, "s") if isinstance(event, UsageAdded)]
    assert result is not None
    assert [event.depth for event in used] == [0, 1, 1, 0]
    assert sum(event.input_tokens for event in used) == result.usage.input_tokens > 0
    assert sum(event.output_tokens for event in used) == result.usage.output_tokens > 0
    assert {event_from_json(event.to_json()) for event in used} == {*used}


async def test_a_session_that_does_not_exist_is_an_error() -> None:
    async with service(lambda messages: "x") as sessions:
        for call in (
            lambda: seen(sessions, "ghost"),
            lambda: sessions.queue("ghost", "x"),
            lambda: sessions.steer("ghost", "x"),
            lambda: sessions.cancel("ghost"),
            lambda: sessions.resume("ghost"),
            lambda: sessions.history("ghost"),
        ):
            with pytest.raises(SessionNotFound):
                await call()  # type: ignore[no-untyped-call]


# -- while a run is under way ------------------------------------------------------------------------------------------


class Gate:
    """A tool that waits, so that a test acts in the middle of a run."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    async def pause(self) -> str:
        self.reached.set()
        await self.open.wait()
        return "went on"

    def answer(self, messages: list[ModelMessage]) -> Any:
        return [ToolCallPart("pause", {}, "c1")] if responses(messages) == 0 else f"heard {last_prompt(messages)}"


async def test_a_second_message_is_refused_while_the_first_runs_and_runs_after_it_if_queued() -> None:
    gate = Gate()
    async with service(gate.answer, tools=[gate.pause]) as sessions:
        await sessions.send("s", "one")
        await gate.reached.wait()
        with pytest.raises(SessionBusy):
            await sessions.send("s", "two")
        await sessions.queue("s", "three")
        await sessions.queue("s", "four")
        gate.open.set()
        await sessions.wait("s")
        assert read(await seen(sessions, "s")) == ["heard one", "heard three", "heard four"]
        assert [e.text for e in await seen(sessions, "s") if e.kind == "run_started"] == ["one", "three", "four"]  # type: ignore[attr-defined]
        await sessions.queue("s", "five")  # to an idle session
        await sessions.wait("s")
        assert read(await seen(sessions, "s"))[-1] == "heard five"


async def test_a_steering_message_is_in_the_next_request_of_the_run_under_way() -> None:
    gate, asked = Gate(), list[list[ModelMessage]]()
    async with service(gate.answer, tools=[gate.pause], asked=asked) as sessions:
        await sessions.send("s", "one")
        await gate.reached.wait()
        await sessions.steer("s", "rather two")
        gate.open.set()
        await sessions.wait("s")
        events = await seen(sessions, "s")
        assert kinds(events).count("run_started") == 1
        assert [e.text for e in events if e.kind == "message_added"] == ["rather two", "heard rather two"]  # type: ignore[attr-defined]
        assert await sessions._store.mail("s") == []
    assert [last_prompt(messages) for messages in asked] == ["one", "rather two"]


async def test_a_run_goes_on_with_what_came_during_its_last_request_and_ends_once() -> None:
    asked, ready = list[list[ModelMessage]](), asyncio.Event()
    async with service(lambda messages: f"heard {last_prompt(messages)}", asked=asked, ready=ready) as sessions:
        await sessions.send("s", "one")
        while not asked:
            await asyncio.sleep(0)
        await sessions.steer("s", "rather two")
        while not sessions._runner._leases._holds["s"].journal._steered:  # type: ignore[union-attr]
            await asyncio.sleep(0)
        ready.set()
        await sessions.wait("s")
        events = await seen(sessions, "s")
        told = [
            e.kind if e.kind in ("run_started", "run_ended") else e.text
            for e in events
            if hasattr(e, "text") or e.kind == "run_ended"
        ]
        assert told == ["run_started", "heard one", "rather two", "heard rather two", "run_ended"]
        assert await sessions._store.mail("s") == []


async def test_a_steering_message_to_an_idle_session_begins_a_run() -> None:
    async with service(lambda messages: f"heard {last_prompt(messages)}") as sessions:
        await sessions.send("s", "one")
        await sessions.wait("s")
        await sessions.steer("s", "two")
        await sessions.wait("s")
        assert read(await seen(sessions, "s")) == ["heard one", "heard two"]


async def test_cancel_ends_the_run_and_keeps_what_was_queued() -> None:
    gate = Gate()
    async with service(gate.answer, tools=[gate.pause]) as sessions:
        await sessions.send("s", "one")
        await gate.reached.wait()
        await sessions.queue("s", "two")
        await sessions.cancel("s")
        await sessions.cancel("s")  # has no run: does nothing
        assert (await seen(sessions, "s"))[-1].status == "aborted"  # type: ignore[attr-defined]
        await sessions.resume("s")
        await sessions.wait("s")
        assert read(await seen(sessions, "s")) == ["heard two"]


async def test_close_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    gate = Gate()
    store = SqliteStore(tmp_path / "s.db")
    async with service(gate.answer, store, [gate.pause]) as sessions:
        await sessions.send("s", "one")
        await gate.reached.wait()
    gate.open.set()
    async with service(gate.answer, SqliteStore(tmp_path / "s.db"), [gate.pause]) as sessions:
        assert kinds(await seen(sessions, "s"))[-1] != "run_ended"
        await sessions.resume("s")
        await sessions.wait("s")
        assert read(await seen(sessions, "s")) == ["heard one"]


async def test_decisions_continue_the_run_and_a_second_one_is_refused() -> None:
    ran: list[str] = []

    def burn(what: str) -> str:
        ran.append(what)
        return "burnt"

    def answer(messages: list[ModelMessage]) -> Any:
        calls = [ToolCallPart("burn", {"what": what}, what) for what in "ab"]
        return calls if responses(messages) == 0 else "done"

    async with service(answer, tools=[burn], interrupt_on={"burn": True}) as sessions:
        await sessions.send("s", "Burn.")
        await sessions.wait("s")
        requests = await sessions.waiting("s")
        assert requests is not None
        await sessions.decide("s", requests.build_results(approve_all=True))
        with pytest.raises(NotPending):
            await sessions.decide("s", requests.build_results(approve_all=True))
        await sessions.wait("s")
        events = await seen(sessions, "s")
        assert await sessions.waiting("s") is None
    assert sorted(ran) == ["a", "b"]
    assert [e for e in kinds(events) if e.startswith(("approvals", "run"))] == [
        "run_started",
        "approvals_asked",
        "run_started",
        "approvals_decided",
        "run_ended",
    ]


# -- other processes ---------------------------------------------------------------------------------------------------

WORKER = """
    import asyncio, sys
    from deep_core import Kernel
    from deep_sessions import AgentDeps, DeepAgent, Sessions
    from plugins.sessions.tests.test_service import last_prompt, model, responses
    from pydantic_ai.messages import ToolCallPart
    import deep_sessions

    async def pause() -> str:
        print("reached", flush=True)
        while not runner._leases._holds["s"].journal._steered:
            await asyncio.sleep(0.01)
        return "went on"

    def answer(messages):
        return [ToolCallPart("pause", {}, "c1")] if responses(messages) == 0 else f"heard {last_prompt(messages)}"

    async def main():
        global runner
        with Kernel(plugins=[deep_sessions], discover=False) as kernel:
            deps = AgentDeps(model=model(answer), session_store=sys.argv[1], kernel=kernel)
            agent = await DeepAgent.create(deps=deps, tools=[pause])
            runner = agent.runner
            async with Sessions(agent) as sessions:
                await sessions.send("s", "one")
                await sessions.wait("s")

    asyncio.run(main())
"""


@asynccontextmanager
async def worker(store: Path) -> AsyncIterator[Started]:
    """Another process that runs session `s`, once it is in the middle of its tool."""
    words = ["-c", textwrap.dedent(WORKER), f"sqlite:///{store}"]
    process = start(*words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert await asyncio.to_thread(process.stdout.readline) == "reached\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
async def test_a_run_of_another_process_is_watched_steered_and_its_queue_waits(tmp_path: Path) -> None:
    async with worker(tmp_path / "s.db"), service(lambda m: "?", SqliteStore(tmp_path / "s.db")) as here:
        with pytest.raises(SessionBusy):
            await here.send("s", "mine")
        await here.queue("s", "three")
        await here.steer("s", "rather two")
        events: list[Event] = []
        async for event in here.stream("s"):
            events.append(event)
            if kinds(events).count("run_ended") == 2:
                break
        assert await here._store.mail("s") == []
    assert [e.text for e in events if e.kind == "run_started"] == ["one", "three"]  # type: ignore[attr-defined]
    assert read(events) == ["rather two", "heard rather two", "heard three"]


@pytest.mark.slow
async def test_a_run_of_another_process_is_cancelled(tmp_path: Path) -> None:
    async with worker(tmp_path / "s.db"), service(lambda m: "?", SqliteStore(tmp_path / "s.db")) as here:
        await here.cancel("s")
        assert (await until(here, "s", "run_ended"))[-1].status == "aborted"  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_a_watcher_sees_a_run_that_another_process_takes_over_from_a_killed_one(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    async with service(lambda messages: "after all", SqliteStore(store), [Gate().pause]) as here:
        async with worker(store) as other:
            watcher = here.stream("s")
            events = [await anext(watcher), await anext(watcher)]
            other.kill()
            other.wait()
        await here.resume("s")
        async for event in watcher:
            events.append(event)
            if event.kind == "run_ended":
                break
        await watcher.aclose()
    assert read(events) == ["after all"]
    assert [e.attempt for e in events if e.kind == "run_started"] == [1, 2]  # type: ignore[attr-defined]


# -- many --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_many_sessions_of_one_process_stay_apart_and_all_watchers_read_the_same(tmp_path: Path) -> None:
    """Watchers lose their connection after every seventh event, and come back with its number."""
    count, watched = many(60, 1000), many(6, 50)

    def answer(messages: list[ModelMessage]) -> str:
        return f"<{last_prompt(messages)}>" * 5

    async def watch(sessions: Sessions, session_id: str, drop: int) -> list[str]:
        events: list[Event] = []
        while True:
            connection = sessions.stream(session_id, after=events[-1].n if events else 0)
            async for event in connection:
                events.append(event)
                if event.kind == "run_ended":
                    await connection.aclose()
                    return read(events)
                if len(events) % drop == 0:
                    break
            await connection.aclose()

    async with service(answer, SqliteStore(tmp_path / "s.db")) as sessions:
        names = [f"s{number}" for number in range(count)]
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for name in names:
            await sessions.send(name, f"canary-{name}")
        watchers = [
            asyncio.ensure_future(watch(sessions, name, 7 + place)) for name in names[:watched] for place in range(10)
        ]
        for name in names:
            await sessions.wait(name)
        texts = await asyncio.gather(*watchers)
        idle = (tracemalloc.get_traced_memory()[0] - before) / count
        tracemalloc.stop()
        for place, name in enumerate(names):
            (message,) = [m.text for m in await sessions.history(name) if isinstance(m, ModelResponse)]
            assert message == f"<canary-{name}>" * 5
            if place < watched:
                assert texts[place * 10 : place * 10 + 10] == [[message]] * 10
    assert idle < 300_000


async def test_watchers_hear_of_a_run_whose_store_fails_and_it_can_be_resumed() -> None:
    class Full(MemoryStore):
        full = False

        async def commit(self, lease: Lease, commit: Commit) -> int:
            if self.full:
                raise StoreError("the disk is full")
            return await super().commit(lease, commit)

    store, ready = Full(), asyncio.Event()

    def look() -> str:
        store.full = True
        return "seen"

    def answer(messages: list[ModelMessage]) -> Any:
        return "done" if responses(messages) else [ToolCallPart("look", {}, "c1")]

    async with service(answer, store, [look], ready=ready) as sessions:
        await sessions.send("s", "Look.")
        events = await until(sessions, "s", "run_interrupted", ready=ready)
        assert isinstance(events[-1], RunInterrupted)
        assert (events[-1].code, events[-1].message) == ("store_error", "the disk is full")
        store.full = False
        await sessions.resume("s")
        assert kinds(await until(sessions, "s", "run_ended", events[-1].n))[0] == "run_started"
        assert read(await seen(sessions, "s")) == ["done"]


# -- the state, and the workspaces ------------------------------------------------------------------------------------


def burn() -> str:
    return "burnt"


NOTES: StateSlot[dict[str, str]] = StateSlot("notes", dict[str, str], dict)


class Notes:
    """A plugin with state."""

    @hookimpl
    def deep_state(self) -> list[StateSlot[Any]]:
        return [NOTES]


async def notes_of(sessions: Sessions, session_id: str) -> dict[str, str]:
    return (await sessions.slots(session_id))["notes"]["data"]


async def test_state_that_is_changed_beside_a_run_is_stored_and_reported(tmp_path: Path) -> None:
    async with service(lambda messages: "done", SqliteStore(tmp_path / "s.db"), plugins=[Notes()]) as sessions:
        await sessions.send("s", "one")
        await sessions.wait("s")
        last = (await seen(sessions, "s"))[-1].n
        async with sessions.edit("s") as deps:
            deps.state[NOTES]["a"] = "1"
        (changed,) = await seen(sessions, "s", last)
        assert (changed.kind, changed.names) == ("slots_changed", ("notes",))  # type: ignore[attr-defined]
        async with sessions.edit("s"):
            pass  # nothing changed: nothing is stored
        assert (await seen(sessions, "s"))[-1] == changed
        await sessions.send("s", "two")
        await sessions.wait("s")
    async with service(lambda messages: "done", SqliteStore(tmp_path / "s.db"), plugins=[Notes()]) as sessions:
        assert await notes_of(sessions, "s") == {"a": "1"}
        async with sessions.edit("s") as deps:
            assert deps.state[NOTES] == {"a": "1"}
        with pytest.raises(SessionNotFound):
            async with sessions.edit("ghost"):
                pass


async def test_state_that_is_changed_in_a_run_reaches_its_tools_and_the_store(tmp_path: Path) -> None:
    gate, read = Gate(), list[str]()

    async def look(ctx: RunContext[Any]) -> str:
        await gate.pause()
        read.extend(ctx.deps.state[NOTES])
        return "seen"

    def answer(messages: list[ModelMessage]) -> Any:
        return [ToolCallPart("look", {}, "c1")] if responses(messages) == 0 else "done"

    store = SqliteStore(tmp_path / "s.db")
    async with service(answer, store, [look], plugins=[Notes()]) as sessions:
        await sessions.send("s", "one")
        await gate.reached.wait()
        async with sessions.edit("s") as deps:
            deps.state[NOTES]["a"] = "1"
        assert await notes_of(sessions, "s") == {"a": "1"}  # stored before the next step of the run
        async with sessions.edit("s") as deps, sessions.edit("s") as same:
            assert deps is same
            deps.state[NOTES]["b"] = "2"
            gate.open.set()
            await sessions.wait("s")  # the run ends in the block
            same.state[NOTES]["c"] = "3"
        assert read == ["a", "b"]
    async with service(answer, SqliteStore(tmp_path / "s.db"), plugins=[Notes()]) as sessions:
        assert await notes_of(sessions, "s") == {"a": "1", "b": "2", "c": "3"}
        assert (await sessions.agent.store.info("s")).status == "idle"


@pytest.mark.slow
async def test_state_is_not_changed_where_another_process_runs_the_session(tmp_path: Path) -> None:
    async with (
        worker(tmp_path / "s.db"),
        service(lambda m: "?", SqliteStore(tmp_path / "s.db"), plugins=[Notes()]) as here,
    ):

        async def change() -> None:
            async with here.edit("s") as deps:
                deps.state[NOTES]["a"] = "1"

        with pytest.raises(SessionBusy):
            await change()


async def test_a_message_that_is_queued_while_the_state_changes_runs_after_it() -> None:
    async with service(lambda messages: f"heard {last_prompt(messages)}", plugins=[Notes()]) as sessions:
        await sessions.send("s", "one")
        await sessions.wait("s")
        async with sessions.edit("s") as deps:
            deps.state[NOTES]["a"] = "1"
            await sessions.queue("s", "two")
        await until(sessions, "s", "run_ended", after=(await seen(sessions, "s"))[-1].n - 1)
        await sessions.wait("s")
        assert read(await seen(sessions, "s")) == ["heard one", "heard two"]


async def test_a_run_has_its_workspace_as_long_as_it_lasts_and_fails_to_begin_without() -> None:
    open_now, full, made = list[str](), False, dict[str, Any]()

    @asynccontextmanager
    async def use(session_id: str) -> AsyncIterator[Any]:
        if full:
            raise OSError("no workspace is free")
        open_now.append(session_id)
        yield made.setdefault(session_id, memory_backend())
        open_now.remove(session_id)

    seen_there: list[Any] = []

    async def look(ctx: RunContext[Any]) -> str:
        seen_there.append((ctx.deps.backend, [*open_now]))
        return "seen"

    def answer(messages: list[ModelMessage]) -> Any:
        return [ToolCallPart("look", {}, "c1")] if responses(messages) % 2 == 0 else "done"

    async with service(answer, tools=[look], workspaces=use) as sessions:
        await sessions.send("s", "one")
        await sessions.wait("s")
        assert seen_there == [(made["s"], ["s"])]
        assert open_now == []
        async with sessions.edit("s") as deps:
            assert (deps.backend, open_now) == (made["s"], ["s"])
        before, full = await seen(sessions, "s"), True
        with pytest.raises(OSError, match="no workspace is free"):
            await sessions.send("s", "two")
        assert await seen(sessions, "s") == before
        full = False
        await sessions.send("s", "two")
        await sessions.wait("s")
        assert len(seen_there) == 2


# -- right after an event ----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_who_sees_the_end_of_a_run_can_send_the_next_message_at_once() -> None:
    async with service(lambda messages: f"heard {last_prompt(messages)}") as sessions:
        last = 0
        for number in range(many(20, 50)):
            await sessions.send("s", str(number))
            last = (await until(sessions, "s", "run_ended", after=last))[-1].n
        await sessions.wait("s")
        assert sessions.active == []


@pytest.mark.slow
async def test_who_sees_a_question_can_answer_it_at_once() -> None:
    def answer(messages: list[ModelMessage]) -> Any:
        return [ToolCallPart("burn", {}, "c1")] if responses(messages) % 2 == 0 else "done"

    async with service(answer, tools=[burn], interrupt_on={"burn": True}) as sessions:
        last = 0
        for _ in range(many(20, 50)):
            await sessions.send("s", "Burn.")
            last = (await until(sessions, "s", "approvals_asked", after=last))[-1].n
            requests = await sessions.waiting("s")
            assert requests is not None
            await sessions.decide("s", requests.build_results(approve_all=True))
            last = (await until(sessions, "s", "run_ended", after=last))[-1].n


async def test_calls_that_are_decided_and_run_wait_no_more() -> None:
    gate = Gate()
    async with service(gate.answer, tools=[gate.pause], interrupt_on={"pause": True}) as sessions:
        await sessions.send("s", "one")
        await sessions.wait("s")
        requests = await sessions.waiting("s")
        assert requests is not None
        await sessions.decide("s", requests.build_results(approve_all=True))
        await gate.reached.wait()
        assert await sessions.waiting("s") is None
        gate.open.set()
        await sessions.wait("s")


@pytest.mark.parametrize("keep", [True, False])
async def test_a_conversation_can_keep_the_text_that_a_stopped_run_had_written(keep: bool) -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "so far"
        await asyncio.Event().wait()

    with Kernel(plugins=[deep_sessions], discover=False) as kernel:
        agent = await DeepAgent.create(deps=AgentDeps(model=FunctionModel(stream_function=stream), kernel=kernel))
        async with Sessions(agent, keep_partial=keep) as sessions:
            await sessions.send("s", "one")
            await until(sessions, "s", "text_added")
            await sessions.cancel("s")
            events = await seen(sessions, "s")
        await agent.close()
    assert [event.kind for event in events if event.kind in ("message_added", "run_ended")] == [
        *(["message_added"] if keep else []),
        "run_ended",
    ]


# -- what became of calls ----------------------------------------------------------------------------------------------


def fail() -> str:
    raise ToolFailed("not today")


async def test_a_call_ends_after_it_began_with_the_text_that_the_model_reads() -> None:
    def answer(messages: list[ModelMessage]) -> Any:
        calls = [ToolCallPart("fail", {}, "c1"), ToolCallPart("burn", {}, "c2")]
        return calls if responses(messages) == 0 else "done"

    ready = asyncio.Event()
    async with service(answer, tools=[fail, Tool(burn, metadata={"tags": ["read"]})], ready=ready) as sessions:
        await sessions.send("s", "Burn.")
        live = await until(sessions, "s", "run_ended", ready=ready)
        await sessions.wait("s")
        stored = await seen(sessions, "s")
    for events in (live, stored):
        calls = [(e.kind, e.call_id) for e in events if e.kind.startswith("tool")]  # type: ignore[attr-defined]
        assert sorted(calls, key=lambda call: call[1]) == [
            ("tool_started", "c1"),
            ("tool_ended", "c1"),
            ("tool_started", "c2"),
            ("tool_ended", "c2"),
        ]
        ended = {e.call_id: (e.outcome, e.result) for e in events if e.kind == "tool_ended"}  # type: ignore[attr-defined]
        assert ended == {"c1": ("failed", "not today"), "c2": ("success", "burnt")}


async def test_calls_that_ended_before_their_run_failed_are_reported_to_later_watchers(tmp_path: Path) -> None:
    def answer(messages: list[ModelMessage]) -> Any:
        if responses(messages) == 0:
            return [ToolCallPart("burn", {}, "c1")]
        raise RuntimeError("the model is broken")

    async with service(answer, SqliteStore(tmp_path / "s.db"), [burn]) as sessions:
        await sessions.send("s", "Burn.")
        assert (await sessions.wait("s")).status == "failed"  # type: ignore[union-attr]
    async with service(lambda messages: "done", SqliteStore(tmp_path / "s.db"), [burn]) as sessions:
        (ended,) = [event for event in await seen(sessions, "s") if event.kind == "tool_ended"]
        assert (ended.call_id, ended.outcome, ended.result) == ("c1", "success", "burnt")  # type: ignore[attr-defined]
        await sessions.send("s", "Again.")
        await sessions.wait("s")
        assert kinds(await seen(sessions, "s")).count("tool_ended") == 1


async def test_messages_that_a_later_entry_rewrites_are_reported_once() -> None:
    def merge(messages: list[ModelMessage]) -> list[ModelMessage]:
        """As Pydantic AI does when a run continues: two requests that follow each other become one."""
        out: list[ModelMessage] = []
        for message in messages:
            if out and isinstance(message, ModelRequest) and isinstance(out[-1], ModelRequest):
                out[-1] = ModelRequest([*out[-1].parts, *message.parts])
            else:
                out.append(message)
        return out

    def answer(messages: list[ModelMessage]) -> Any:
        return [ToolCallPart("burn", {}, "c1")] if responses(messages) == 0 else "done"

    history: list[ModelMessage] = [
        ModelRequest([UserPromptPart("one")]),
        ModelRequest([UserPromptPart("two")]),
        ModelResponse([ToolCallPart("burn", {}, "c0")], metadata={"deep": "k0"}),
    ]
    result = ModelRequest([ToolReturnPart("burn", "burnt", "c0")])
    last = ModelResponse([TextPart("done")], metadata={"deep": "k1"})
    store = MemoryStore()
    lease = await store.acquire("s")
    journal = Journal(store, lease, fold(await store.load("s")), "r")
    merged = merge(history)
    for messages in (history, merged, [*merged, result, last]):
        await journal.settle("", messages, SessionState(), RunUsage())
        await journal.flush()
    events = [event for entry in await store.entries("s") for event in events_of(entry)]
    assert [kind for kind in kinds(events) if kind not in ("slots_changed", "usage_added")] == [
        "tool_started",
        "history_replaced",
        "tool_ended",
        "message_added",
    ]


@pytest.mark.slow
async def test_a_call_whose_process_died_in_it_has_an_unknown_outcome(tmp_path: Path) -> None:
    async with worker(tmp_path / "s.db") as process:
        process.kill()
        await asyncio.to_thread(process.wait)
    for again in (False, True):
        with suppress(FileNotFoundError):
            copyfile(tmp_path / "s.db", tmp_path / f"{again}.db")
            copyfile(tmp_path / "s.db-wal", tmp_path / f"{again}.db-wal")
        async with service(lambda messages: "done", SqliteStore(tmp_path / f"{again}.db"), [pause]) as sessions:
            if again:
                await sessions.resume("s")
            else:
                await sessions.send("s", "Another.")
            await sessions.wait("s")
            ended = [event for event in await seen(sessions, "s") if event.kind == "tool_ended"]
            assert {(event.call_id, event.outcome) for event in ended} == {("c1", "unknown")}  # type: ignore[attr-defined]


def pause() -> str:
    return "ran"


async def test_a_session_has_the_beginning_of_its_first_message_as_a_title() -> None:
    async with service(lambda messages: "done", plugins=[Notes()]) as sessions:
        store = sessions.agent.store
        await create(store, "s", [])
        assert await title_of(store, "s") == ""
        async with sessions.edit("s") as deps:
            deps.state[NOTES]["a"] = "1"
        await sessions.send("s", "Good\n  morning " + "x" * 100)
        await sessions.wait("s")
        await sessions.send("s", "Bye.")
        await sessions.wait("s")
        assert await title_of(store, "s") == "Good morning " + "x" * 46 + "…"
        with pytest.raises(SessionNotFound):
            await title_of(store, "ghost")


async def test_a_request_that_is_sent_again_is_told_and_its_run_goes_on() -> None:
    asked: list[int] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        asked.append(1)
        if len(asked) == 1:
            raise ModelHTTPError(503, "m")
        yield "Half" if len(asked) == 2 else "Whole"
        if len(asked) == 2:
            raise ConnectionResetError("reset")

    config = {"model": {"retry": {"backoff_ms": 1}}}
    kernel = Kernel(plugins=[deep_sessions], discover=False)
    deps = AgentDeps(model=FunctionModel(stream_function=stream), kernel=kernel)
    async with Sessions(await DeepAgent.create(config=config, deps=deps)) as sessions:
        told: list[RequestRetried] = []
        await sessions.send("s", "go")
        async with aclosing(sessions.stream("s")) as events:
            async for event in events:
                if isinstance(event, RequestRetried):
                    told.append(event)
                elif event.kind == "run_ended":
                    break
        result = await sessions.wait("s")
        assert result is not None
        assert (result.status, result.message) == ("completed", "Whole")
    assert [(event.code, event.replaces) for event in told] == [("unavailable", False), ("cut", True)]
    assert [event.words for event in told] == [
        "the provider is not available; again at once",
        "the connection ended before the answer did; again at once; the answer begins again",
    ]


async def test_a_stream_says_where_the_message_begins_again() -> None:
    asked: list[int] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        asked.append(1)
        yield "Half" if len(asked) == 1 else "Who"
        if len(asked) == 1:
            raise ConnectionResetError("reset")
        yield "le"

    config = {"model": {"retry": {"backoff_ms": 1}}}
    kernel = Kernel(plugins=[deep_sessions], discover=False)
    deps = AgentDeps(model=FunctionModel(stream_function=stream), kernel=kernel)
    agent = await DeepAgent.create(config=config, deps=deps)
    items = [item async for item in agent.run_stream("go")]
    assert items[:-1] == [Delta("Half"), Delta("Who", again=True), Delta("le"), Message("Whole")]
