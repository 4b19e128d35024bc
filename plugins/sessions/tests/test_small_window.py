"""A conversation in a small window goes on, whatever its model makes of a summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deep_sessions import AgentDeps, DeepAgent, MemoryStore
from deep_sessions.requests.served import ServedModel

from deep_core import Kernel
from plugins.sessions.tests.dialects import DIALECTS, Answer, serving, whole
from tests.drawn import sample

pytestmark = pytest.mark.anyio
LLAMA = DIALECTS["llama.cpp"]
WINDOW = 1_200
LONG = "The boats lie dry on the sand till the tide is back. " * 16
"""About 200 tokens."""
WHO = {"/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": WINDOW}}]}}
CAPS = {"/props": {"chat_template_caps": {"supports_tools": True}}}
SUMMARIES = {
    "none": (200, "", "stop"),
    "without an end": (200, "the tide, the tide, the tide", "length"),
    "larger than what it replaces": (200, LONG * 9, "stop"),
    "refused": (400, "no summaries here", ""),
    "good": (200, "The user told of boats.", "stop"),
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Server:
    """llama.cpp with a small window.

    Args:
        summary: status, text and finish reason of the answer to who asks for a summary.
        fixed: tokens of each request besides its messages: tools cost a model more than we count.
    """

    def __init__(self, summary: tuple[int, str, str], fixed: int | None = None) -> None:
        self._summary, self._fixed = summary, fixed
        self.answered: list[list[Any]] = []
        self.refused = self.summaries = 0

    def __call__(self, body: Any, number: int) -> Answer:
        tools = len(json.dumps(body.get("tools", []))) // 4 if self._fixed is None else self._fixed
        tokens = len(json.dumps(body["messages"])) // 4 + tools
        if tokens > WINDOW:
            self.refused += 1
            words = f"request ({tokens} tokens) exceeds the available context size ({WINDOW} tokens), try increasing it"
            return Answer({"error": {"code": 400, "message": words, "type": "exceed_context_size_error"}}, 400)
        usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
        if "<conversation>" not in str(body["messages"]):
            self.answered.append(body["messages"])
            return Answer(whole(LLAMA, {"content": "fine"}, "stop", usage))
        self.summaries += 1
        status, text, finish = self._summary
        if status != 200:
            return Answer({"error": {"message": text}}, status)
        return Answer(whole(LLAMA, {"content": text}, finish, usage))


async def agent_at(url: str, **more: Any) -> DeepAgent:
    model = {"provider": "llama.cpp", "model": "m", "base_url": url}
    config = {"model": model, "profile": "small", **more}
    return await DeepAgent.create(config=config, deps=AgentDeps(session_store=MemoryStore(), kernel=Kernel()))


@pytest.mark.slow
@pytest.mark.parametrize("is_known", [True, False], ids=["window known", "window unknown"])
@pytest.mark.parametrize("summary", sample(SUMMARIES, "without an end", slow=SUMMARIES))
async def test_a_conversation_in_a_small_window_goes_on_for_30_turns(summary: str, is_known: bool) -> None:
    server = Server(SUMMARIES[summary])
    with serving(server, {**WHO, **CAPS} if is_known else {}) as url:
        agent = await agent_at(url)
        for turn in range(30):
            result = await agent.run(f"Turn {turn}. {LONG}", session_id="s")
            assert (turn, result.status, result.output) == (turn, "completed", "fine")
        await agent.close()
    assert len(server.answered) == 30
    for turn, messages in enumerate(server.answered):
        assert f"Turn {turn}. {LONG}" in str(messages[-1]["content"])
        assert "Turn 0." in str(messages)  # the first request stays, in some form
    assert server.refused <= (1 if is_known else 3)
    assert server.summaries <= 30


@pytest.mark.slow
@pytest.mark.parametrize("summary", SUMMARIES)
async def test_where_tools_fill_half_of_the_window_what_was_said_before_makes_room(
    summary: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = Server(SUMMARIES[summary], fixed=WINDOW - 440)  # a message has 220, and what follows it 50
    with serving(server, {**WHO, **CAPS}) as url:
        agent = await agent_at(url, runtime_policy={"profile": "local"})  # with a live section behind each message
        for turn in range(12):
            result = await agent.run(f"Turn {turn}. {LONG}", session_id="s")
            assert (turn, result.status, result.error) == (turn, "completed", None)
        await agent.close()
    for turn, messages in enumerate(server.answered):
        assert f"Turn {turn}. {LONG}" in str(messages)  # word for word, whatever has to go
    assert server.refused <= 12


@pytest.mark.parametrize("summary", ["good", "without an end"])
async def test_what_was_said_in_runs_that_failed_is_no_dead_end(summary: str) -> None:
    server = Server(SUMMARIES[summary])
    with serving(server, {**WHO, **CAPS}) as url:
        agent = await agent_at(url)
        await agent.run("hello", session_id="s")
        for turn in range(3):
            result = await agent.run(f"Much {turn}. {LONG * 8}", session_id="s")  # larger than the window by itself
            assert (turn, result.status, result.finish_reason) == (turn, "failed", "overflow")
            assert "the last message" in str(result.error)
        result = await agent.run("Then less.", session_id="s")
        assert (result.status, result.output) == ("completed", "fine")
        await agent.close()
    assert "Then less." in str(server.answered[-1])


async def test_an_agent_closes_the_connections_of_the_model_that_it_made() -> None:
    with serving(Server(SUMMARIES["good"]), {**WHO, **CAPS}) as url:
        agent = await agent_at(url)
        await agent.run("hello", session_id="s")
        model = agent.runner.agent.model
        assert isinstance(model, ServedModel)
        assert not model.client.is_closed()
        await agent.close()
        assert model.client.is_closed()
