"""Hosted capabilities: called at the hooks that they implement, in their order, with the context of the run."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.toolsets import FunctionToolset

from deep_core.agent.run.hosting import hostable
from tests.plugins_by_hand import agent_of, plugin, run, scripted
from tests.stubs import Call, Turn


class Records(AbstractCapability[Any]):
    """Notes in `seen` what its hooks get."""

    def __init__(self, seen: list[Any], name: str = "") -> None:
        self.seen = seen
        self.name = name

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        self.seen.append((self.name, "response", ctx.run_step, response.text))
        return response

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        self.seen.append((self.name, "call", ctx.run_step, ctx.tool_name, tool_def.name, call.tool_call_id, args))
        result = await handler({**args, "b": args["b"] + 1})
        self.seen.append((self.name, "result", result))
        return result * 10


class Shares(Records):
    shares_context = True


def add(a: int, b: int) -> int:
    return a + b


def seen_by(*kinds: type[Records]) -> list[Any]:
    seen: list[Any] = []
    capabilities = [kind(seen, str(number)) for number, kind in enumerate(kinds)]
    model = scripted(Turn(calls=(Call("add", {"a": 1, "b": 2}),)), Turn(text="end"))
    run(agent_of(plugin("counts", toolsets=[FunctionToolset([add])], capabilities=capabilities), model=model))
    return seen


@pytest.mark.parametrize("kinds", [[Shares], [Shares, Shares], [Shares, Records, Shares], [Shares, Shares, Shares]])
def test_capabilities_that_share_the_context_are_called_as_any_others(kinds: list[type[Records]]) -> None:
    seen = seen_by(*kinds)
    assert seen == seen_by(*[Records] * len(kinds))
    calls = [each for each in seen if each[1] == "call"]
    assert [(each[0], each[2:4], each[-1]["b"]) for each in calls] == [
        (str(number), (1, "add"), 2 + number) for number in range(len(kinds))
    ]
    results = [each[2] for each in seen if each[1] == "result"]
    assert results == [(3 + len(kinds)) * 10**depth for depth in range(len(kinds))]


def test_a_capability_with_another_hook_is_not_hosted() -> None:
    class Prepares(Records):
        async def prepare_tools(self, ctx: Any, tool_defs: Any) -> Any:
            return tool_defs

    assert hostable(Records([]))
    assert not hostable(Prepares([]))
    assert seen_by(Prepares, Shares) == seen_by(Records, Records)
