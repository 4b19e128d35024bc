"""Kernels as objects: several at once do not see each other, and a closed one leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import warnings
import weakref
from collections import Counter
from typing import Any

import pytest
from pydantic_ai import Agent, FunctionToolset, RunContext

from deep_core import (
    AgentConfig,
    DeepAgentDeps,
    Kernel,
    PluginError,
    PromptSection,
    StateSlot,
    create_deep_agent,
    create_default_deps,
)
from deep_core.plugins.config import load_config
from tests.agent.test_assemble import other
from tests.drawn import many
from tests.plugins_by_hand import Site, Tools, agent_of, kernel_of, plugin, run, scripted, site
from tests.stubs import Call

__all__ = ["site"]


RAIN = """
from deep_core import StateSlot, hookimpl

@hookimpl
def deep_state():
    return [StateSlot("drops", int, int)]
"""


def of_kind(word: str) -> tuple[Kernel, StateSlot[list[str]]]:
    """A kernel whose one plugin has names that every other kernel's has too, and contents of its own."""
    slot = StateSlot("notes", list[str], list)
    toolset = FunctionToolset[DeepAgentDeps[Any]](id="say")

    @toolset.tool
    async def say(ctx: RunContext[DeepAgentDeps[Any]], times: int) -> str:
        await asyncio.sleep(0)
        ctx.deps.state[slot].append(word)
        return f"{word} {len(ctx.deps.state['notes'])}"

    sections = [PromptSection.static("rules", f"Say {word}."), PromptSection.live("now", lambda ctx: f"{word} now")]
    return kernel_of(plugin("say", state=[slot], toolsets=[toolset], sections=sections)), slot


async def conversation(kernel: Kernel, word: str, turns: int = 5) -> None:
    """Checks that everything in it is this kernel's own."""

    def turn(view: Any) -> Any:
        told = view.system + "".join(message.text for message in view.messages)
        assert f"Say {word}." in view.system
        assert f"{word} now" in told
        others = {other for other in ("red", "green", "blue", "white") if other != word}
        assert not any(other in told for other in others)
        return Call("say", {"times": view.index}) if view.index < turns else "done"

    deps = create_default_deps(kernel=kernel)
    agent = kernel.create_agent(scripted(then=turn))
    result = await agent.run("go", deps=deps)
    assert (result.output, deps.notes) == ("done", [word] * turns)


def test_two_kernels_at_once_in_one_event_loop_do_not_see_each_other() -> None:
    async def scene() -> None:
        kernels = [(of_kind(word)[0], word) for word in ("red", "green")]
        await asyncio.gather(*(conversation(kernel, word) for kernel, word in kernels * 5))

    asyncio.run(scene())


def test_four_kernels_in_four_threads_do_not_see_each_other() -> None:
    errors: list[BaseException] = []
    barrier = threading.Barrier(4)

    def body(word: str) -> None:
        try:
            barrier.wait()
            for _ in range(5):
                with of_kind(word)[0] as kernel:
                    asyncio.run(conversation(kernel, word))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(word,)) for word in ("red", "green", "blue", "white")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_one_kernel_serves_agents_in_four_threads() -> None:
    kernel, _ = of_kind("red")
    errors: list[BaseException] = []

    def body() -> None:
        try:
            asyncio.run(conversation(kernel, "red"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_the_same_plugin_object_in_two_kernels_is_configured_by_each() -> None:
    tools = Tools("look")
    shared = plugin("files", toolsets=lambda: [tools.toolset])
    shown = []
    for prefix in ("a", "b"):
        model = scripted()
        run(agent_of(shared, model=model, config={"plugins": {"files": {"prefix": prefix}}}))
        shown.append(list(model.player.views[0].tools))
    assert shown == [["a_look"], ["b_look"]]


def test_one_agent_serves_twenty_sessions_interleaved() -> None:
    slot: StateSlot[list[str]] = StateSlot("heard", list[str], list)
    waiting: list[asyncio.Event] = []
    toolset = FunctionToolset[DeepAgentDeps[str]](id="hear")

    @toolset.tool
    async def hear(ctx: RunContext[DeepAgentDeps[str]], word: str) -> str:
        # Every session waits until all have come this far: their runs are interleaved for certain.
        ctx.deps.state[slot].append(word)
        here = asyncio.Event()
        waiting.append(here)
        if len(waiting) == 20:
            for event in waiting:
                event.set()
            waiting.clear()
        await here.wait()
        return f"{ctx.deps.app} heard {word}"

    def turn(view: Any) -> Any:
        mine = view.messages[0].text
        told = "".join(message.text for message in view.messages)
        assert set(told.split()) & {f"s{i}" for i in range(20)} == {mine}
        rounds = sum(message.role == "tool" for message in view.messages)
        return Call("hear", {"word": f"{mine}-{rounds}"}) if rounds < 4 else f"bye {mine}"

    who = PromptSection.live("who", lambda ctx: f"session {ctx.deps.app} {len(ctx.deps.state[slot])}")
    kernel = kernel_of(plugin("hear", state=[slot], toolsets=[toolset], sections=[who]))
    agent: Agent[Any, Any] = kernel.create_agent(scripted(then=turn))

    async def session(name: str) -> None:
        deps = create_default_deps(app=name)
        result = await agent.run(name, deps=deps)
        assert result.output == f"bye {name}"
        assert deps.heard == [f"{name}-{i}" for i in range(4)]

    async def scene() -> None:
        await asyncio.gather(*(session(f"s{i}") for i in range(20)))

    asyncio.run(scene())


# -- the end ---------------------------------------------------------------------------------------------------------


def test_close_runs_what_was_registered_in_reverse_once() -> None:
    closed: list[str] = []

    def toolsets(context: Any) -> list[Any]:
        for number in (1, 2):
            context.on_close(lambda number=number: closed.append(f"{context.plugin}{number}"))
        return []

    with kernel_of(plugin("a", toolsets=toolsets), plugin("b", toolsets=toolsets)) as kernel:
        kernel.create_agent(scripted())
        assert closed == []
    assert closed == ["b2", "b1", "a2", "a1"]
    kernel.close()
    assert len(closed) == 4
    with pytest.raises(PluginError, match="closed"):
        kernel.create_agent(scripted())


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_one_that_fails_while_closing_does_not_keep_the_others_from_it(error: type[BaseException]) -> None:
    closed: list[str] = []

    def fail() -> None:
        raise error

    def toolsets(context: Any) -> list[Any]:
        context.on_close(lambda: closed.append("first"))
        context.on_close(fail)
        context.on_close(lambda: closed.append("last"))
        return []

    kernel = kernel_of(plugin("a", toolsets=toolsets))
    kernel.create_agent(scripted())
    kernel.close()
    assert closed == ["last", "first"]
    assert [(incident.plugin, incident.where) for incident in kernel.incidents] == [("a", "on_close")]


@pytest.mark.parametrize("how", ["in a with statement", "by hand", "without close"])
def test_a_kernel_its_agents_and_sessions_are_let_go(how: str) -> None:
    kernel, _ = of_kind("red")
    deps = create_default_deps(kernel=kernel)
    agent = kernel.create_agent(scripted(Call("say", {"times": 1})))
    run(agent, deps=deps)
    kernel.explain(kernel.create_agent(scripted()))
    if how != "without close":
        kernel.close()
    watched = [weakref.ref(kernel), weakref.ref(agent), weakref.ref(deps.state)]
    del kernel, agent, deps
    for _ in range(3):  # what has a finalizer goes in the round after
        gc.collect()
    assert [reference() for reference in watched] == [None] * 3


def grown(before: Counter[str]) -> dict[str, int]:
    gc.collect()
    after = Counter(type(item).__qualname__ for item in gc.get_objects())
    return {kind: count - before[kind] for kind, count in after.items() if count - before[kind] > 100}


@pytest.mark.slow
@pytest.mark.parametrize("ran", [False, True])
def test_many_kernels_made_and_closed_leave_nothing_behind(ran: bool) -> None:
    def one() -> None:
        kernel, _ = of_kind("red")
        if ran:
            kernel.create_agent(scripted())
        kernel.close()

    for _ in range(3):  # what is made once and for all is made
        one()
    gc.collect()
    before = Counter(type(item).__qualname__ for item in gc.get_objects())
    modules, threads = set(sys.modules), threading.active_count()
    filters = len(warnings.filters)
    for _ in range(many(150, 1000)):
        one()
    assert grown(before) == {}
    assert set(sys.modules) == modules
    assert threading.active_count() == threads
    assert len(warnings.filters) == filters


@pytest.mark.slow
def test_many_runs_leave_nothing_behind() -> None:
    kernel, _ = of_kind("red")
    agent = kernel.create_agent(
        scripted(then=lambda view: "done" if view.messages[-1].role == "tool" else Call("say", {"times": 1}))
    )

    async def runs(count: int) -> None:
        for _ in range(count):
            await agent.run("go", deps=create_default_deps(kernel=kernel))
            agent.model.player.views.clear()  # type: ignore[union-attr]

    asyncio.run(runs(5))
    gc.collect()
    before = Counter(type(item).__qualname__ for item in gc.get_objects())
    asyncio.run(runs(many(120, 300)))
    assert grown(before) == {}


def test_a_session_that_names_slots_binds_to_the_kernel_of_its_agent() -> None:
    kernel, slot = of_kind("red")
    deps = create_default_deps()
    run(kernel.create_agent(scripted()), deps=deps)
    assert deps.notes == deps.state[slot] == []


def test_the_default_kernel_is_made_once_on_first_use_and_again_after_it_was_closed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deep_core.plugins import kernel as module
    from deep_core.plugins.kernel import default_kernel

    site.install("rain", RAIN)
    monkeypatch.setattr(module, "_default", None)
    first = default_kernel()
    assert first is default_kernel()
    assert create_default_deps().drops == 0
    assert kernel_of() is not first
    first.close()
    assert default_kernel() is not first
    assert load_config().layers == ()


def test_create_deep_agent_takes_a_kernel_or_makes_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of(other())
    model = scripted()
    run(create_deep_agent(model, kernel=kernel, todo=True))
    assert list(model.player.views[0].tools) == ["write_todos"]
    monkeypatch.setattr("deep_core.plugins.kernel._default", kernel)
    model = scripted()
    run(create_deep_agent(model, config=AgentConfig.model_validate({"identity": {"name": "ada"}})))
    assert list(model.player.views[0].tools) == ["write_todos"]
