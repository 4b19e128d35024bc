"""Requests to the provider: skills that come and go never rewrite earlier messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent

from deep_core import create_default_deps
from tests.stubs import (
    AnthropicStub,
    Call,
    OpenAIStub,
    RequestView,
    Script,
    anthropic_model,
    assert_wire_prefixes,
    openai_model,
)

pytestmark = pytest.mark.anyio


@pytest.mark.slow
@pytest.mark.parametrize(("stub", "model"), [(OpenAIStub, openai_model), (AnthropicStub, anthropic_model)])
async def test_every_request_continues_the_one_before(
    project: Path, skill: Callable[..., Path], make_agent: Callable[..., Agent[Any, Any]], stub: Any, model: Any
) -> None:
    root = project / ".deep/skills"

    def grow(view: RequestView) -> Call:
        skill(root, f"new-{view.index}")
        return Call("list_skills")

    def load(view: RequestView) -> Call:
        return Call("load_skill", {"skill_name": "new-1"})

    # Starts without any skill; one appears in the first run, is told of in the second, and loaded twice.
    script = Script("Hello.", grow, "So far.", load, load, grow, "More.", load, "Done.")
    with stub(script) as server:
        agent, deps, history = make_agent(model(server)), create_default_deps(), None
        for prompt in ("hello", "grow", "use", "again"):
            result = await agent.run(prompt, deps=deps, message_history=history)
            history = result.all_messages()
        bodies = server.requests
    assert_wire_prefixes(bodies)
    assert "skills.catalog" not in str(bodies[2])
    assert str(bodies[-1]).count("skills.catalog") == 2, "told when the folder had changed, at the beginning of a run"
    assert str(bodies[-1]).count("# Skill: new-1") == 1
