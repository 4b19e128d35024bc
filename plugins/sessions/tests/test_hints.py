"""`prompt.append_time_hint` and `prompt.append_runtime_hint`: what the model reads about the date and the workspace."""

from __future__ import annotations

import platform
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest, UserPromptPart

from plugins.sessions.tests.scripted import Scripted, call, create, put

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def live(said: Scripted, request: int) -> list[str]:
    messages = said.requests[request][0]
    parts = [part for m in messages if isinstance(m, ModelRequest) for part in m.parts]
    return [str(part.content) for part in parts if isinstance(part, UserPromptPart) and part.content != "go"]


async def test_prompt_append_time_hint_is_the_date_and_no_clock() -> None:
    said = Scripted("end")
    today = datetime.now(UTC).date()
    agent = await create(said, config={"prompt": {"append_time_hint": True}})
    await agent.run("go")
    (text,) = live(said, 0)
    assert re.findall(r"\d{4}-\d\d-\d\d", text)[0] in (str(today), str(datetime.now(UTC).date()))
    assert not re.search(r"\d:\d", text)
    said = Scripted("end")
    await (await create(said)).run("go")
    assert live(said, 0) == []


async def test_prompt_append_runtime_hint_is_the_same_for_a_session(tmp_path: Any) -> None:
    said = Scripted([call("put")], "end")
    agent = await create(said, put, runtime="local")
    await agent.run("go", session_id="s")
    await agent.run("go", session_id="s")
    assert len(said.requests) > 2
    for request in range(len(said.requests)):
        (text,) = live(said, request)
        assert f"Operating system: {platform.system()}. Working directory: /" in text


@pytest.mark.parametrize("deps", [{}, {"runtime": "local", "config": {"prompt": {"append_runtime_hint": False}}}])
async def test_prompt_append_runtime_hint_says_nothing_without_a_workspace_or_if_off(deps: Any) -> None:
    said = Scripted("end")
    await (await create(said, **deps)).run("go")
    assert live(said, 0) == []


async def test_G10_each_request_of_a_run_has_the_base_and_the_hints() -> None:
    said = Scripted([call("put")], "end")
    agent = await create(said, put, config={"prompt": {"system": "Base.", "append_time_hint": True}})
    await agent.run("go")
    assert [said.instructions(0), said.instructions(1)] == ["Base.", "Base."]
    assert ["Today is" in live(said, request)[0] for request in (0, 1)] == [True, True]
