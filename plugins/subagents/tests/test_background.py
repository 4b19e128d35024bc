"""Background tasks: beside the run, with approvals, and ended by its end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import deep_sessions
import deep_subagents
from deep_backends import local_backend
from deep_sessions import AgentDeps, DeepAgent, open_store
from deep_sessions.fold import fold
from deep_subagents import SubagentsOptions, decide
from deep_subagents.background_task import BackgroundTask
from deep_subagents.slots import BACKGROUND
from pydantic_ai import DeferredToolRequests, ToolDenied

from deep_core import DeepAgentDeps, Kernel
from plugins.subagents.tests.actors import Cast, call, outcomes, say_results, task

ON = SubagentsOptions(background=True)


def kernel_of() -> Kernel:
    plugins = [deep_subagents, deep_backends, deep_filesystem, deep_sessions]
    return Kernel(plugins=plugins, discover=False, strict=True)


def status(id: str, **more: Any) -> Any:
    return call("task_status", id, **more)


def session(root: Path, kernel: Kernel) -> DeepAgentDeps[Any]:
    deps = DeepAgentDeps[Any](backend=local_backend(root))
    deps.state.bind(kernel)
    return deps


def test_the_tools_are_there_only_if_they_are_on_and_cost_little() -> None:
    with kernel_of() as kernel:
        off = {tool.name: tool.tokens for tool in kernel.explain(kernel.create_agent("test")).tools}
        on = {tool.name: tool.tokens for tool in kernel.explain(kernel.create_agent("test", plugins=[ON])).tools}
    assert on.keys() - off.keys() == {"task_status", "task_cancel"}
    assert sum(on.values()) - sum(off.values()) <= 150


def test_tasks_run_beside_their_caller_and_are_reported_canceled_and_stopped_at_its_end(tmp_path: Path) -> None:
    both, ended = asyncio.Event(), list[str]()

    async def late(request: Any) -> str:
        both.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.prompt)
        raise AssertionError

    async def quick(request: Any) -> str:
        await both.wait()  # of both: they run side by side
        return "the quick report"

    cast = Cast(
        {
            "go": [
                [task(name, name[0], background=True) for name in ("quick", "hangs", "never ends")],
                status("s1", task="b1", wait=True),
                [status("s2"), call("task_cancel", "c1", task="b2"), call("task_cancel", "c2", task="b9")],
                status("s3", task="b1"),
                "bye",
            ],
            "quick": [quick],
            "hangs": [late],
            "never ends": [late],
            "again": [status("s4"), say_results],
        }
    )
    with kernel_of() as kernel:
        agent, deps = kernel.create_agent(cast.model, plugins=[ON]), session(tmp_path, kernel)
        result = asyncio.run(agent.run("go", deps=deps))
        found = outcomes(result.all_messages())
        assert result.output == "bye"
        assert found["q"][1].startswith("Started b1. ")
        assert found["s1"] == ("success", "b1 (general-purpose: quick) done:\nthe quick report")
        assert found["s2"][1].count("is running") == 2
        assert "b1" not in found["s2"][1]  # its report was given
        assert found["c1"] == ("success", "Stopped b2. Its changes remain.")
        assert found["c2"][0] == "failed"
        assert "the quick report" in found["s3"][1]
        assert sorted(ended) == ["hangs", "never ends"]
        deps = kernel.load_deps(deps.dump(), backend=deps.backend)
        deps.state[BACKGROUND]["b4"] = BackgroundTask("general-purpose", "of a process that was killed")
        deps = kernel.load_deps(deps.dump(), backend=deps.backend)
        said = str(asyncio.run(agent.run("again", deps=deps)).output)
        assert "b3 (general-purpose: never ends) stopped" in said
        assert "b4 (general-purpose: of a process that was killed) is lost:" in said


def test_what_a_task_asks_surfaces_in_task_status_and_a_decision_continues_it_there_once(tmp_path: Path) -> None:
    run = call("execute", "e", command="echo x >> ran.txt")
    cast = Cast(
        {
            "go": [
                [task("one", "t1", background=True), task("two", "t2", background=True)],
                [status("s1", wait=True)],
                [status("s2")],
                [status("s3")],
                say_results,
            ],
            "one": [run, say_results],
            "two": [run, say_results],
        }
    )

    async def main() -> None:
        with kernel_of() as kernel:
            agent, deps = kernel.create_agent(cast.model, plugins=[ON]), session(tmp_path, kernel)
            result = await agent.run("go", deps=deps)
            for answer in (True, ToolDenied("not again")):
                assert isinstance(result.output, DeferredToolRequests)
                (part,) = result.output.approvals
                about = result.output.metadata[part.tool_call_id]
                assert [(about["subagent"], c["tool"], c["path"]) for c in about["calls"]] == [
                    ("general-purpose", "execute", f"{part.tool_call_id}/e")
                ]
                deps = kernel.load_deps(deps.dump(), backend=deps.backend)  # another process
                results = decide(result.output, {"e": answer})
                history = result.all_messages()
                result = await agent.run(deps=deps, message_history=history, deferred_tool_results=results)
            found = outcomes(result.all_messages())
            assert "b1 (general-purpose: one) done:" in found["s1"][1]
            assert "not again" in found["s1"][1]

    asyncio.run(main())
    assert (tmp_path / "ran.txt").read_text() == "x\n"


def test_a_task_that_its_person_refuses_as_a_whole_is_dropped(tmp_path: Path) -> None:
    run = call("execute", "e", command="echo x >> ran.txt")
    steps = [task("one", "t1", background=True), status("s1", wait=True), status("s2"), say_results]
    cast = Cast({"go": steps, "one": [run]})

    async def main() -> None:
        with kernel_of() as kernel:
            agent, deps = kernel.create_agent(cast.model, plugins=[ON]), session(tmp_path, kernel)
            result = await agent.run("go", deps=deps)
            assert isinstance(result.output, DeferredToolRequests)
            results = decide(result.output, {"s1": False})
            history = result.all_messages()
            result = await agent.run(deps=deps, message_history=history, deferred_tool_results=results)
            assert "stopped:\nA person refused" in str(result.output)

    asyncio.run(main())
    assert not (tmp_path / "ran.txt").exists()


def test_in_a_stored_session_a_tasks_steps_are_not_journaled_and_its_end_is(tmp_path: Path) -> None:
    cast = Cast(
        {
            "go": [task("work", "t1", background=True), status("s1", wait=True), say_results],
            "work": [call("write_todos", "w", todos=[]), "worked"],
            "leave": [task("work", "t1", background=True), "bye"],
        }
    )

    async def main() -> None:
        with kernel_of() as kernel:
            store = open_store(f"sqlite:///{tmp_path / 's.db'}", kernel=kernel)
            deps = AgentDeps(model=cast.model, session_store=store, kernel=kernel)
            agent = await DeepAgent.create(deps=deps, plugins=[ON])
            result = await agent.run("go", session_id="s")
            assert "worked" in str(result.message)
            result = await agent.run("leave", session_id="left")
            state = fold(await store.load("left"))
            assert (result.message, [*state.histories], state.effects) == ("bye", [""], {})
            assert state.root.slots["subagents_background"]["data"]["b1"]["status"] == "stopped"
            await agent.close()
            await store.aclose()

    asyncio.run(main())
