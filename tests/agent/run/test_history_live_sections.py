"""Live sections: when one is sent, what it says, and what happens when it fails."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from pydantic_ai import RunContext
from pydantic_ai.messages import UserPromptPart

from deep_core import PromptSection, create_default_deps
from tests.agent.run.test_capability import live_parts
from tests.plugins_by_hand import Tools, agent_of, kernel_of, plugin, run, scripted
from tests.stubs import Call


@pytest.mark.parametrize("wrong", [ZeroDivisionError(), 7])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_live_section_that_fails_keeps_what_was_last_sent(wrong: Any, asynchronous: bool) -> None:
    plan = iter(["one", wrong, "one", wrong, "two"])

    def now(ctx: RunContext[Any]) -> Any:
        answer = next(plan)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def slowly(ctx: RunContext[Any]) -> Any:
        return now(ctx)

    fn: Any = slowly if asynchronous else now
    files = plugin("files", toolsets=[Tools("read").toolset], sections=[PromptSection.live("now", fn)])
    kernel = kernel_of(files)
    result = run(kernel.create_agent(scripted(*[Call("read", {})] * 4, "done")))
    assert [text.split("\n")[1] for text in live_parts(result)] == ["one", "two"]
    assert [(incident.plugin, incident.where) for incident in kernel.incidents] == [("files", "section now")] * 2


def test_strict_lets_a_live_sections_error_through() -> None:
    agent = agent_of(plugin("files", sections=[PromptSection.live("now", lambda ctx: str(1 / 0))]), strict=True)
    with pytest.raises(ZeroDivisionError):
        run(agent)


def test_a_live_section_sees_the_session() -> None:
    section = PromptSection.live("who", lambda ctx: f"{ctx.deps.app} at depth {ctx.deps.depth}")
    result = run(agent_of(plugin("me", sections=[section])), deps=create_default_deps(app="ada"))
    (part,) = live_parts(result)
    assert re.fullmatch('<context id="me.who">\nada at depth 0\n</context>', part)


@pytest.mark.parametrize(
    "edge", ["</context>", "</Context >", "< / CONTEXT>", '<context id="a.b">', "<\tContext>", "<context>"]
)
def test_a_live_text_cannot_write_an_edge_of_its_frame(edge: str) -> None:
    section = PromptSection.live("who", lambda ctx: f"a {edge} <contextual> b")
    (part,) = live_parts(run(agent_of(plugin("me", sections=[section]))))
    assert len(re.findall(r"(?i)<[\s/]*context\b", part)) == 2  # the frame's own
    assert "<contextual> b" in part


def test_two_runs_of_one_agent_at_once_each_have_every_section() -> None:
    async def scene() -> list[Any]:
        both = asyncio.Barrier(2)

        async def slow(ctx: RunContext[Any]) -> str:
            await both.wait()  # both runs are in the middle of their sections
            return "It is noon."

        sections = [PromptSection.live("clock", slow), PromptSection.live("calm", lambda ctx: "No wind.")]
        kernel = kernel_of(plugin("weather", sections=sections))
        agent, sessions = kernel.create_agent("test"), [create_default_deps(kernel=kernel) for _ in range(2)]
        return await asyncio.gather(*(agent.run("go", deps=deps, model=scripted()) for deps in sessions))

    results = asyncio.run(scene())
    assert [len(live_parts(result)) for result in results] == [2, 2]


def test_a_live_section_with_nothing_to_say_adds_no_message() -> None:
    section = PromptSection.live("who", lambda ctx: None)
    result = run(agent_of(plugin("me", sections=[section])))
    assert len(result.all_messages()) == 2


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_an_empty_text_is_nothing_to_say(text: str) -> None:
    assert live_parts(run(agent_of(plugin("me", sections=[PromptSection.live("who", lambda ctx: text)])))) == []


def test_a_users_text_that_looks_like_a_live_text_is_not_taken_for_one() -> None:
    """A frame without the kernel's mark is somebody's text: the section is said all the same, and nothing hides it."""
    section = PromptSection.live("clock", lambda ctx: "It is noon.")
    agent = agent_of(plugin("me", sections=[section]))
    real = run(agent_of(plugin("me", sections=[section])))
    (frame,) = live_parts(real)
    result = run(agent, prompt=frame)
    assert live_parts(result) == [frame]
    assert next(part.content for part in result.all_messages()[0].parts if isinstance(part, UserPromptPart)) == frame
