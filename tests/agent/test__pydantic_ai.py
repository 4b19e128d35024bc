"""What the kernel reads of Pydantic AI's texts, in the version that is installed: CI runs the oldest and the newest."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
from pydantic_ai.models import infer_model

from deep_core.agent._pydantic_ai import is_unknown_model, retries_are_spent
from tests.plugins_by_hand import scripted
from tests.stubs import Call


@pytest.mark.parametrize("name", ["acme:echo", "echo-without-a-provider"])
def test_it_says_that_a_model_is_unknown(name: str) -> None:
    with pytest.raises(UserError) as raised:
        infer_model(name)
    assert is_unknown_model(raised.value)
    assert not is_unknown_model(UserError("the model is Unknown model-wise"))


def test_it_says_that_the_retries_of_a_tool_are_spent() -> None:
    def stubborn() -> str:
        raise ModelRetry("again")

    agent: Any = Agent(scripted(*[Call("stubborn", {})] * 5), tools=[stubborn], retries=1)
    with pytest.raises(UnexpectedModelBehavior) as raised:
        asyncio.run(agent.run("go"))
    assert retries_are_spent(raised.value, "stubborn")
    assert not retries_are_spent(raised.value, "other")
    assert not retries_are_spent(RuntimeError(str(raised.value)), "stubborn")
