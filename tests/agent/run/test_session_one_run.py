"""One run at a time on one session: a second one is refused, and a run that ended in any way makes room."""

from __future__ import annotations

import asyncio
import gc
import threading
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import Agent, FunctionToolset, RunContext, UserError
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.test import TestModel

from deep_core import DeepAgentDeps, Kernel, create_default_deps, hookimpl
from tests.plugins_by_hand import kernel_of, plugin, scripted
from tests.stubs import Call


class Doors:
    """The tool `wait`: it tells that a run is inside, and keeps it there until the test opens."""

    def __init__(self) -> None:
        self.inside, self.open = asyncio.Event(), asyncio.Event()
        self.events: list[str] = []

    async def wait(self) -> str:
        self.inside.set()
        await self.open.wait()
        return "through"

    def hear(self, event: object) -> None:
        self.events.append(type(event).__name__)

    def agent(self, **how: Any) -> Agent[Any, Any]:
        toolsets = [FunctionToolset([self.wait], id="doors")]
        kernel = kernel_of(plugin("doors", toolsets=toolsets, run_event=self.hear))
        return kernel.create_agent(scripted(Call("wait")), **how)


def quick() -> Agent[Any, Any]:
    """An agent whose run ends at once."""
    return kernel_of().create_agent(TestModel(custom_output_text="one two three"), name="quick", interrupt_on=False)


async def assert_free(deps: DeepAgentDeps[Any]) -> None:
    assert (await quick().run("again", deps=deps)).output == "one two three"


def test_a_second_run_on_a_session_is_refused_and_the_first_continues() -> None:
    async def main() -> None:
        doors, deps = Doors(), create_default_deps()
        first = asyncio.create_task(doors.agent(name="clerk").run("go", deps=deps))
        await doors.inside.wait()
        with pytest.raises(UserError) as caught:
            await quick().run("go", deps=deps)
        message = str(caught.value)
        assert message.startswith("run ")
        assert f" of agent clerk in session {deps.session_id} has not ended" in message
        assert "deps=create_default_deps()" in message
        with pytest.raises(UserError, match="one run at a time"):
            await quick().run("go", deps=replace(deps, app="another object, the same state"))
        assert (await quick().run("go", deps=create_default_deps())).output == "one two three"
        doors.open.set()
        assert (await first).output == "done"
        await assert_free(deps)

    asyncio.run(main())


def test_a_second_run_in_another_thread_is_refused() -> None:
    deps = create_default_deps()
    refused: list[BaseException] = []

    def second() -> None:
        try:
            asyncio.run(quick().run("go", deps=deps))
        except UserError as error:
            refused.append(error)

    async def main() -> None:
        doors = Doors()
        first = asyncio.create_task(doors.agent().run("go", deps=deps))
        await doors.inside.wait()
        thread = threading.Thread(target=second)
        thread.start()
        await asyncio.to_thread(thread.join)
        doors.open.set()
        await first

    asyncio.run(main())
    assert "one run at a time" in str(refused[0])


def test_a_run_that_was_cancelled_makes_room() -> None:
    async def main() -> None:
        doors, deps = Doors(), create_default_deps()
        first = asyncio.create_task(doors.agent().run("go", deps=deps))
        await doors.inside.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await assert_free(deps)

    asyncio.run(main())


def test_a_run_that_raised_makes_room() -> None:
    def fail(ctx: RunContext[Any]) -> str:
        raise ZeroDivisionError

    async def main() -> None:
        deps = create_default_deps()
        agent = kernel_of().create_agent(scripted(Call("fail")), tools=[fail])
        with pytest.raises(ZeroDivisionError):
            await agent.run("go", deps=deps)
        await assert_free(deps)

    asyncio.run(main())


@pytest.mark.parametrize("leave", ["break", "raise"])
@pytest.mark.parametrize("how", ["run_stream", "iter", "run_stream_events"])
def test_a_stream_that_was_left_makes_room(how: str, leave: str) -> None:
    async def main() -> None:
        deps = create_default_deps()
        with pytest.raises(ZeroDivisionError) if leave == "raise" else pytest.MonkeyPatch.context():
            async with getattr(quick(), how)("go", deps=deps) as stream:
                async for _ in stream.stream_text() if how == "run_stream" else stream:
                    with pytest.raises(UserError, match="leave its `with` block"):
                        await quick().run("go", deps=deps)
                    if leave == "raise":
                        raise ZeroDivisionError
                    break
        await assert_free(deps)

    asyncio.run(main())


def test_a_run_in_an_event_loop_that_stopped_makes_room() -> None:
    deps = create_default_deps()
    loop = asyncio.new_event_loop()
    doors = Doors()
    task = loop.create_task(doors.agent().run("go", deps=deps))
    loop.run_until_complete(doors.inside.wait())
    asyncio.run(assert_free(deps))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    asyncio.run(assert_free(deps))


def test_a_sync_stream_makes_room_when_its_block_ends() -> None:
    deps, loop = create_default_deps(), asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    with quick().run_stream_sync("go", deps=deps) as stream:
        assert stream.get_output() == "one two three"
    assert quick().run_sync("again", deps=deps).output == "one two three"
    asyncio.set_event_loop(None)
    loop.close()


def test_a_tool_may_run_an_agent_with_a_child_session() -> None:
    async def ask(ctx: RunContext[DeepAgentDeps[Any]], child: bool) -> str:
        deps = ctx.deps.clone_for_subagent() if child else ctx.deps
        try:
            return (await quick().run("go", deps=deps)).output
        except UserError as error:
            return str(error)

    async def main() -> None:
        agent = kernel_of().create_agent(
            scripted(Call("ask", {"child": True}), Call("ask", {"child": False})), tools=[ask], interrupt_on=False
        )
        result = await agent.run("go", deps=create_default_deps())
        parts = [part for message in result.new_messages() for part in message.parts]
        answers = [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
        assert answers[0] == "one two three"
        assert "deps=ctx.deps.clone_for_subagent()" in answers[1]

    asyncio.run(main())


def test_a_session_that_was_refused_keeps_nothing_of_the_second_run() -> None:
    class Listener:
        def __init__(self) -> None:
            self.heard: list[str] = []

        @hookimpl
        def deep_run_event(self, event: Any) -> None:
            self.heard.append(type(event).__name__)

    async def main() -> None:
        doors, deps, listener = Doors(), create_default_deps(), Listener()
        first = asyncio.create_task(doors.agent().run("go", deps=deps))
        await doors.inside.wait()
        agent = Kernel(plugins=[listener], discover=False).create_agent(TestModel())
        with pytest.raises(UserError):
            await agent.run("go", deps=deps)
        assert listener.heard == []
        doors.open.set()
        await first
        del first
        gc.collect()

    asyncio.run(main())
