"""Closing a kernel: what it waits for, and what it runs."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from deep_core import Kernel, PluginError, PluginWarning, create_default_deps
from tests.agent.run.test_session_one_run import Doors
from tests.plugins_by_hand import kernel_of, plugin, scripted
from tests.stubs import Call


def closing_kernel(*functions: Callable[[], object], **how: Any) -> Kernel:
    """A kernel whose plugin `a` registers these with `on_close`."""
    kernel = kernel_of(plugin("a", toolsets=[]), **how)
    for function in functions:
        kernel.context("a").on_close(function)
    return kernel


def test_aclose_awaits_async_functions_and_runs_the_last_one_first() -> None:
    closed: list[str] = []

    async def connection() -> None:
        await asyncio.sleep(0)
        closed.append("connection")

    async def main() -> None:
        kernel = closing_kernel(lambda: closed.append("first"), connection, lambda: closed.append("last"))
        await kernel.aclose()
        await kernel.aclose()
        with pytest.raises(PluginError, match="this kernel is closed"):
            kernel.create_agent("test")
        async with closing_kernel(connection):
            pass

    asyncio.run(main())
    assert closed == ["last", "connection", "first", "connection"]


def test_close_runs_async_functions_where_no_event_loop_runs() -> None:
    closed: list[str] = []

    async def connection() -> None:
        await asyncio.sleep(0)
        closed.append("connection")

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    with closing_kernel(connection, lambda: connection()):
        pass
    assert closed == ["connection", "connection"]
    assert asyncio.get_event_loop() is loop  # that of agent.run_sync
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.parametrize("strict", [False, True])
def test_close_inside_an_event_loop_says_that_it_cannot_await(strict: bool) -> None:
    closed: list[str] = []

    async def connection() -> None:
        closed.append("connection")

    async def main() -> Kernel:
        kernel = closing_kernel(lambda: closed.append("first"), connection, strict=strict)
        with pytest.raises(PluginError, match=r"await kernel\.aclose") if strict else warnings.catch_warnings():
            kernel.close()
        return kernel

    kernel = asyncio.run(main())
    assert closed == ["first"]
    (incident,) = kernel.incidents
    assert (incident.plugin, incident.where) == ("a", "on_close")
    assert "connection: use await kernel.aclose()" in incident.error


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_an_async_function_that_fails_does_not_keep_the_others_from_it(error: type[BaseException]) -> None:
    closed: list[str] = []

    async def fail() -> None:
        raise error

    kernel = closing_kernel(lambda: closed.append("first"), fail, lambda: closed.append("last"))
    asyncio.run(kernel.aclose())
    assert closed == ["last", "first"]
    assert [(incident.plugin, incident.where) for incident in kernel.incidents] == [("a", "on_close")]


def test_aclose_waits_for_runs_under_way_and_they_finish_as_before() -> None:
    async def main() -> None:
        doors = Doors()
        agent = doors.agent()
        kernel = agent_kernel(agent)
        kernel.context("doors").on_close(lambda: doors.events.append("closed"))
        task = asyncio.create_task(agent.run("go", deps=create_default_deps()))
        await doors.inside.wait()
        closing = asyncio.create_task(kernel.aclose())
        await asyncio.sleep(0)
        assert not closing.done()
        kernel.check_open()
        doors.open.set()
        assert (await task).output == "done"
        await closing
        assert doors.events[-2:] == ["RunEndEvent", "closed"]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())


def test_aclose_closes_after_its_time_and_says_which_runs_are_under_way() -> None:
    async def main() -> None:
        doors, deps = Doors(), create_default_deps()
        agent = doors.agent(name="clerk")
        task = asyncio.create_task(agent.run("go", deps=deps))
        await doors.inside.wait()
        with pytest.warns(PluginWarning, match=rf"while 1 run.* of agent clerk in session {deps.session_id}"):
            await agent_kernel(agent).aclose(wait=0)
        doors.open.set()
        await task

    asyncio.run(main())


def test_close_waits_for_runs_in_other_threads() -> None:
    inside, opened = threading.Event(), threading.Event()

    def wait() -> str:
        inside.set()
        opened.wait()
        return "through"

    heard: list[str] = []

    def hear(event: object) -> None:
        heard.append(type(event).__name__)

    kernel = kernel_of(plugin("a", toolsets=[], run_event=hear))
    agent = kernel.create_agent(scripted(Call("wait")), tools=[wait], interrupt_on=False)
    thread = threading.Thread(target=lambda: asyncio.run(agent.run("go", deps=create_default_deps())))
    thread.start()
    inside.wait()
    kernel.context("a").on_close(lambda: heard.append("closed"))
    closing = threading.Thread(target=kernel.close)
    closing.start()
    kernel.check_open()
    opened.set()
    closing.join()
    thread.join()
    assert heard[-2:] == ["RunEndEvent", "closed"]


def test_close_closes_after_its_time_too() -> None:
    async def main() -> None:
        doors = Doors()
        agent = doors.agent(name="clerk")
        task = asyncio.create_task(agent.run("go", deps=create_default_deps()))
        await doors.inside.wait()
        with pytest.warns(PluginWarning, match=r"while 1 run.* of agent clerk"):
            await asyncio.to_thread(agent_kernel(agent).close, 0)
        doors.open.set()
        await task

    asyncio.run(main())


def test_close_waits_for_no_run_of_an_event_loop_that_stopped() -> None:
    loop = asyncio.new_event_loop()
    doors = Doors()
    agent = doors.agent()
    task = loop.create_task(agent.run("go", deps=create_default_deps()))
    loop.run_until_complete(doors.inside.wait())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent_kernel(agent).close(wait=1e9)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def agent_kernel(agent: Any) -> Kernel:
    """The kernel that made the agent."""
    from deep_core.agent.run.capability import agent_context

    return agent_context(agent, "doors").kernel  # type: ignore[return-value]
