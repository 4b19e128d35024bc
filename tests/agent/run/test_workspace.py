"""Which backend a session works in, and what is no backend."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_ai import ConversationTypeAdapter, FunctionToolset, RunContext

from deep_core import PluginError, create_default_deps
from tests import another_process
from tests.agent.test_assemble import Memory
from tests.environments import REPOSITORY
from tests.plugins_by_hand import agent_of, plugin, run, scripted
from tests.stubs import Call


@pytest.mark.parametrize("wrong", ["memory", REPOSITORY, agent_of, 3])
def test_a_sessions_backend_is_an_instance(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"a session's backend is an instance, such as .*memory_backend\(\), not "):
        run(agent_of(), deps=create_default_deps(wrong))


@pytest.mark.parametrize("wrong", [REPOSITORY, 3, True])
def test_an_agents_backend_is_a_name_an_instance_or_a_factory(wrong: Any) -> None:
    with pytest.raises(TypeError, match="backend= is a name, an instance or a factory, not "):
        agent_of(backend=wrong)


def asking_where() -> object:
    toolset = FunctionToolset[Any](id="where")

    @toolset.tool
    async def where(ctx: RunContext[Any]) -> str:
        return str(await ctx.workspace.working_dir())

    return plugin("where", toolsets=[toolset])


def answer_of(agent: Any, deps: Any, **how: Any) -> tuple[str, Any]:
    result = run(agent, deps=deps, **how)
    (part,) = [p for m in result.new_messages() for p in m.parts if p.part_kind == "tool-return"]
    return str(part.content), result


def where_model() -> Any:
    return scripted(then=lambda view: "done" if view.results else Call("where", {}))


def test_the_sessions_backend_wins_over_the_agents_and_that_over_memory() -> None:
    made: list[str] = []

    def factory(context: Any) -> Memory:
        made.append(context.plugin)
        return Memory(f"made{len(made)}")

    disk = plugin("disk", backends={"memory": factory, "big": lambda context: Memory("big")})

    def agent(**how: Any) -> Any:
        return agent_of(asking_where(), disk, model=where_model(), **how)

    assert answer_of(agent(backend="big"), create_default_deps(backend=Memory("own")))[0] == "/own"  # type: ignore[arg-type]
    assert answer_of(agent(backend="big"), create_default_deps())[0] == "/big"
    assert answer_of(agent(backend=Memory("given")), create_default_deps())[0] == "/given"
    assert answer_of(agent(backend=lambda context: Memory("lazy")), create_default_deps())[0] == "/lazy"
    deps = create_default_deps()
    one = agent()
    assert (answer_of(one, deps)[0], answer_of(one, deps)[0]) == ("/made1", "/made1")
    assert answer_of(one, create_default_deps())[0] == "/made2"
    assert made == ["disk", "disk"]


def test_a_backend_that_no_plugin_provides_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(PluginError, match=r"'memry'.*Did you mean 'memory'"):
        agent_of(plugin("disk", backends={"memory": lambda context: Memory()}), backend="memry")
    with pytest.raises(PluginError, match="pip install deep-backends"):
        agent_of(backend="memory")
    told, result = answer_of(agent_of(asking_where(), model=where_model()), create_default_deps())
    assert "pip install deep-backends" in told
    assert result.output == "done"


def test_a_factory_that_makes_no_backend_is_named() -> None:
    agent = agent_of(
        asking_where(), plugin("disk", backends={"odd": lambda context: 3}), model=where_model(), backend="odd"
    )
    with pytest.raises(PluginError, match=r"backend 'odd'.*int"):
        run(agent)


def test_a_continued_history_works_in_the_backend_that_the_session_names() -> None:
    agent = agent_of(asking_where(), model=where_model())
    place, first = answer_of(agent, create_default_deps(backend=Memory("one")))  # type: ignore[arg-type]
    assert place == "/one"
    place, _ = answer_of(agent, create_default_deps(backend=Memory("two")), message_history=first.all_messages())  # type: ignore[arg-type]
    assert place == "/two"


MEMORY = """
import asyncio, json, sys
from pydantic_ai import ConversationTypeAdapter
from deep_core import create_default_deps
from deep_backends import memory_backend
from tests.plugins_by_hand import agent_of, scripted

deps = create_default_deps(backend=memory_backend())
agent = agent_of(model=scripted("{answer}"))
given = json.loads(sys.stdin.read() or "null")
how = dict(conversation=ConversationTypeAdapter.validate_json(given)) if given else dict()
result = asyncio.run(agent.run("go", deps=deps, **how))
stored = ConversationTypeAdapter.dump_json(result.conversation).decode()
print(json.dumps([result.output, len(result.all_messages()), stored]))
"""


def test_a_conversation_stored_with_the_memory_backend_continues_in_another_process() -> None:
    stored = ""
    for number, answer in enumerate(("one", "two", "three"), 1):
        program = MEMORY.replace("{answer}", answer)
        done = another_process.run(program, stdin=json.dumps(stored) if stored else "", cwd=REPOSITORY)
        assert done.returncode == 0, done.stderr
        output, messages, stored = json.loads(done.stdout)
        assert (output, messages) == (answer, 2 * number)
        assert ConversationTypeAdapter.validate_json(stored).messages
