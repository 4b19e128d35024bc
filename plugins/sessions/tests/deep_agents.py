"""Deep agents that the tests run in processes of their own, some of which die. Their effects are lines of a file."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import deep_backends
import deep_sessions
import deep_subagents
from deep_sessions import AgentDeps, AgentError, DeepAgent, Lease, SessionNotFound, SessionStore, transaction
from deep_sessions.fold import fold
from pydantic_ai import RunContext, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import DeferredToolResults

from deep_core import Kernel
from plugins.sessions.tests.stores import open_for_test

__all__ = ["answer", "ask", "create", "finish", "hold", "order"]


async def create(
    store: SessionStore, folder: Path, *, asks: bool = False, depth: int = 0, first: Any = None
) -> DeepAgent:
    """Create an agent that puts 1 and then 2: itself, or the subagent that many levels below it.

    Args:
        store: the store.
        folder: its file `effects` gets a line `<process> <n>` for each that is put.
        asks: whether putting needs an approval.
        depth: of the subagent.
        first: awaited when 1 has been put.
    """

    async def put(n: int) -> str:
        with (folder / "effects").open("a") as file:
            file.write(f"{os.getpid()} {n}\n")
        if n == 1 and first is not None:
            await first()
        return f"put {n}"

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        count = sum(isinstance(message, ModelResponse) for message in messages)
        prompt = next(part.content for part in messages[0].parts if part.part_kind == "user-prompt")
        level = int(str(prompt).removeprefix("level "))
        if level < depth:
            calls = [ToolCallPart("task", {"description": f"level {level + 1}"}, "c")] if count == 0 else []
        else:
            calls = [ToolCallPart("put", {"n": count + 1}, "c")] if count < 2 else []
        return ModelResponse(calls or [TextPart("end")])

    kernel = Kernel(
        plugins=[deep_sessions, deep_backends, deep_subagents],
        discover=False,
        config={"plugins": {"subagents": {"options": {"max_depth": 3}}}},
    )
    tool = Tool(put, metadata={"tags": ["write"]}, requires_approval=asks)
    deps = AgentDeps(model=FunctionModel(respond), session_store=store, kernel=kernel)
    return await DeepAgent.create(deps=deps, tools=[tool])


async def hold(url: str, folder: str, ttl: float, host: str | None = None, stops: bool = False) -> None:
    """Run session `s`, and wait in its first effect until the file `go` is there. `ended` says how the run ended.

    Args:
        url: of the store.
        folder: where the files are. `inside` says that the effect has happened.
        ttl: of the lease.
        host: the name of another host.
        stops: whether the process stops itself, as SIGSTOP does, instead of waiting.
    """
    place = Path(folder)
    if host is not None:
        socket.gethostname = lambda: host

    async def wait() -> None:
        (place / "inside").touch()
        if stops:
            async with renewing:
                os.kill(os.getpid(), signal.SIGSTOP)
        while not stops and not (place / "go").exists():
            await asyncio.sleep(0.01)

    store = open_for_test(url)
    acquire, renew, renewing = store.acquire, store.renew, asyncio.Lock()

    async def renew_alone(lease: Lease) -> None:
        async with renewing:  # who is stopped in a transaction of SQLite keeps the whole file locked
            await renew(lease)

    store.renew = renew_alone  # type: ignore[method-assign]
    store.acquire = lambda session_id, **how: acquire(session_id, **{**how, "ttl": ttl})  # type: ignore[method-assign]
    agent = await create(store, place, first=wait)
    await _say(place, agent.run("level 0", session_id="s"))


async def ask(url: str, folder: str, depth: int) -> None:
    """Run session `s` until it asks, and die."""
    agent = await create(open_for_test(url), Path(folder), asks=True, depth=depth)
    result = await agent.run("level 0", session_id="s")
    assert result.status == "awaiting_human", result
    os.kill(os.getpid(), signal.SIGKILL)


async def answer(url: str, folder: str, depth: int, approvals: Mapping[str, bool] | None = None) -> None:
    """Decide the calls that wait, and die. `ended` says how that went.

    Args:
        url: of the store.
        folder: where the files are.
        depth: of the subagent.
        approvals: call id -> decision; None approves what waits.
    """
    store = open_for_test(url)
    agent = await create(store, Path(folder), asks=True, depth=depth)
    if approvals is None:
        run = fold(await store.load("s")).run
        assert run is not None
        assert run.requests is not None
        results = run.requests.build_results(approve_all=True)
    else:
        results = DeferredToolResults(approvals={**approvals})
    await _say(Path(folder), agent.decide("s", results))
    os.kill(os.getpid(), signal.SIGKILL)


async def finish(url: str, folder: str, depth: int, dies: bool = False) -> None:
    """Resume session `s`. `ended` says how that went.

    Args:
        url: of the store.
        folder: where the files are.
        depth: of the subagent.
        dies: whether the process dies in the first effect, when it has happened.
    """

    async def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    agent = await create(open_for_test(url), Path(folder), asks=True, depth=depth, first=die if dies else None)
    await _say(Path(folder), agent.resume("s"))


async def order(url: str, dies: str = "", on_unknown: str = "retry") -> None:
    """Run or resume session `s`, whose tool writes into the table `orders` of the store's own database.

    Args:
        url: of the store.
        dies: whether the process dies in the tool: `before` or `after` the commit.
        on_unknown: what the tool's author says.
    """

    async def order(ctx: RunContext[Any]) -> str:
        with transaction(ctx) as database:
            database.execute("INSERT INTO orders VALUES ('tea')")
            if dies == "before":
                os.kill(os.getpid(), signal.SIGKILL)
        if dies == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return "ordered"

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([ToolCallPart("order", {}, "c") if len(messages) == 1 else TextPart("end")])

    store = open_for_test(url)
    tool = Tool(order, metadata={"tags": ["write"], "on_unknown": on_unknown})
    kernel = Kernel(plugins=[deep_sessions, deep_backends], discover=False)
    deps = AgentDeps(model=FunctionModel(respond), session_store=store, kernel=kernel)
    agent = await DeepAgent.create(deps=deps, tools=[tool])
    try:
        await agent.resume("s")
    except SessionNotFound:
        await agent.run("go", session_id="s")


async def _say(folder: Path, running: Any) -> None:
    try:
        said = getattr(await running, "status", "done")
    except AgentError as error:
        said = type(error).__name__
    with (folder / "ended").open("a") as file:
        file.write(f"{said}\n")
