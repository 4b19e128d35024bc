"""Requests to the provider: a list that changes every turn never rewrites earlier messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent

from deep_core import create_default_deps
from tests.stubs import (
    AnthropicStub,
    Call,
    OpenAIStub,
    Script,
    anthropic_model,
    assert_wire_prefixes,
    openai_model,
)

pytestmark = pytest.mark.anyio
STATUSES = ["pending", "in_progress", "completed"]


def turn(number: int) -> Call:
    todos = [{"content": f"Step {n}", "status": STATUSES[(n + number) % 3]} for n in range(number % 5)]
    return Call("write_todos", {"todos": todos})


@pytest.mark.slow
@pytest.mark.parametrize(("stub", "model"), [(OpenAIStub, openai_model), (AnthropicStub, anthropic_model)])
async def test_every_request_continues_the_one_before(
    make_agent: Callable[..., Agent[Any, Any]], stub: Any, model: Any
) -> None:
    # Starts empty, grows, shrinks, is emptied at 5 and 10, and filled again; three user turns.
    script = Script(
        "Hello.",
        *[turn(n) for n in range(1, 7)],
        "So far.",
        Call("read_todos"),
        *[turn(n) for n in range(7, 13)],
        "Done.",
    )
    with stub(script) as server:
        agent, deps, history = make_agent(model(server)), create_default_deps(), None
        for prompt in ("hello", "plan", "go on"):
            result = await agent.run(prompt, deps=deps, message_history=history)
            history = result.all_messages()
        bodies = server.requests
        assert_wire_prefixes(bodies)
        assert "todo.state" not in str(bodies[:2])
        assert str(bodies[-1]).count("todo.state") == 12, "said at each change"
