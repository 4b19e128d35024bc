"""What people read of a session without Pydantic AI is what its state and its events say."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import deep_backends
import deep_sessions
import pytest
from deep_sessions import (
    AgentError,
    MemoryStore,
    Runner,
    SessionStore,
    fork,
    load_session,
    open_store,
    rewind,
    session_capabilities,
)
from deep_sessions.decisions import pending_calls
from deep_sessions.events import MessageAdded, RunStarted, ToolStarted, events_of
from deep_sessions.fold import fold_entries
from deep_sessions.histories import open_calls
from deep_sessions.journal import base_entry
from deep_sessions.plain import Said, args_of, args_text, read_said, texts_of
from deep_sessions.reading import entries_of
from pydantic_ai import FunctionToolset, ToolApproved, ToolDenied
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.tools import DeferredToolResults

from deep_core import Kernel
from tests.drawn import many
from tests.plugins_by_hand import plugin

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
VERBS = ("say", "say", "picture", "remove", "look", "fail", "steer", "decide", "decide", "cancel", "rewind", "fork")


def answer(messages: list[ModelMessage], info: object) -> ModelResponse:
    """Call the tool that the user names, or fail, or say something."""
    last = messages[-1].parts[-1]
    word = last.content if isinstance(last, UserPromptPart) and isinstance(last.content, str) else "said"
    match word.partition(" ")[0]:
        case "remove" | "look" as tool:
            calls = [ToolCallPart(tool, {"path": "äö 😀", "n": 1}, uuid4().hex), ToolCallPart("look", "", uuid4().hex)]
            return ModelResponse([TextPart("I do."), *calls])
        case "fail":
            raise ValueError("the model is away")
        case _:
            return ModelResponse([TextPart(f"{word} is"), TextPart(" done")])


def runner(store: SessionStore) -> Runner:
    toolset: FunctionToolset[Any] = FunctionToolset(id="things")

    @toolset.tool_plain(metadata={"tags": ["write"]}, requires_approval=True)
    def remove(path: str, n: int) -> str:
        return "removed"

    @toolset.tool_plain(metadata={"tags": ["read"]})
    def look(path: str = "", n: int = 0) -> str:
        return "seen"

    kernel = Kernel(plugins=[deep_sessions, deep_backends, plugin("things", toolsets=[toolset])], discover=False)
    agent = kernel.create_agent(FunctionModel(answer), backend="memory", capabilities=session_capabilities())
    return Runner(agent, store, kernel=kernel)


async def do(verb: str, made: Runner, session_id: str, draw: random.Random) -> str:
    """Do something in a session; return the id to go on with."""
    store, new = made.store, uuid4().hex
    match verb:
        case "steer":
            await made.post(session_id, "steer", "also this")
            await made.run_next(session_id, run_id=new)
        case "decide":
            waiting = pending_calls(await load_session(store, session_id))
            said = {call.tool_call_id: draw.choice([ToolApproved(), ToolDenied("no")]) for call in waiting}
            await made.decide(session_id, DeferredToolResults(approvals=said))
            await made.resume(session_id)
        case "cancel":
            await made.cancel(session_id)
        case "rewind":
            await rewind(store, session_id, to=draw.randint(1, (await store.info(session_id)).seq))
        case "fork":
            return await fork(store, session_id, new_id=new)
        case "picture":
            await made.run(session_id, ["see", ImageUrl("https://example.org/p.png")], run_id=new)
        case _:
            await made.run(session_id, verb, run_id=new)
    return session_id


def lines_of(messages: list[ModelMessage]) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                lines.append(("user", part.content))
            elif isinstance(part, TextPart):
                lines.append(("agent", part.content))
            elif isinstance(part, ToolCallPart):
                lines.append(("tool", f"{part.tool_name} {part.args_as_json_str()}"))
    return lines


def read_json(said: Said) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_json(json.dumps(said.messages))


async def check_copies(store: SessionStore, session_id: str, draw: random.Random) -> None:
    """Compare a fork and a rewind, which copy JSON, with the states that they are of."""
    info = await store.info(session_id)
    at = draw.choice([None, draw.randint(1, info.seq)])
    entries = [entry async for entry in entries_of(store, session_id) if at is None or entry.seq <= at]
    wanted = await load_session(store, session_id) if at is None else fold_entries(info, entries)
    messages = wanted.messages()
    if open_calls(messages):
        messages = messages[: max(n for n, each in enumerate(messages) if isinstance(each, ModelResponse))]
    slots = wanted.root.slots
    copy = await fork(store, session_id, at=at)
    forked = await load_session(store, copy)
    assert (forked.messages(), forked.root.slots, forked.run) == (messages, slots, None)
    await rewind(store, copy, to=1)
    again = await load_session(store, copy)
    assert (again.messages(), again.root.slots, again.seq) == (messages, slots, 2)
    heavy = json.loads(base_entry(messages, slots, None, None).data)
    for entry in await store.entries(copy):
        light = json.loads(entry.data)
        assert [light[key] for key in ("path", "at", "same", "slots")] == [
            heavy[key] for key in ("path", "at", "same", "slots")
        ]


async def check(store: SessionStore, session_id: str) -> None:
    """Compare what both readers make of a session."""
    state, said = await load_session(store, session_id), read_said(await store.load(session_id))
    assert read_json(said) == state.messages()
    assert (said.slots, said.seq) == (state.root.slots, state.seq)
    state.keep_prompt()
    said.keep_prompt()
    assert [*said.lines] == lines_of(state.messages())
    assert [(call["tool_call_id"], args_of(call), args_text(call)) for _, call in said.waiting] == [
        (call.tool_call_id, call.args_as_dict(), call.args_as_json_str()) for call in pending_calls(state)
    ]
    if state.run is not None:
        assert said.run is not None
        assert (said.run["id"], said.run["status"]) == (state.run.id, state.run.status)
        assert (said.run.get("error") or {}).get("message") == (state.run.error or {}).get("message")
    async for entry in entries_of(store, session_id):
        texts: list[tuple[str, str]] = []
        for event in events_of(entry):
            match event:
                case RunStarted(text=text, attempt=1):
                    texts.append(("user", text))
                case MessageAdded(role=role, text=text):
                    texts.append((role, text))
                case ToolStarted(tool=tool, args=args):
                    texts.append(("tool", f"{tool} {args}"))
                case _:
                    pass
        assert texts_of(entry) == texts


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.needs("PostgreSQL"))])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionStore]:
    if request.param == "memory":
        yield MemoryStore()
        return
    is_file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/s.db" if is_file else request.getfixturevalue("postgresql").create_database()
    opened = open_store(url)
    yield opened
    await opened.aclose()


@pytest.mark.parametrize("seed", range(many(4, 100)))
async def test_both_readers_say_the_same(store: SessionStore, seed: int) -> None:
    draw = random.Random(seed)
    made, session_id = runner(store), "one"
    await made.run(session_id, "begin", run_id="begin")
    for _ in range(8):
        with suppress(AgentError):
            session_id = await do(draw.choice(VERBS), made, session_id, draw)
        await check(store, session_id)
        await check_copies(store, session_id, draw)
