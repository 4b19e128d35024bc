"""A strict program that embeds deep: every overload of `create_deep_agent` and `Kernel.create_agent`. Type-checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack, assert_type

from deep_subagents import SubagentsOptions
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, RunContext
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import FunctionToolset

from deep_core import (
    AgentConfig,
    AgentContext,
    AgentParameters,
    DeepAgentDeps,
    Kernel,
    PluginOptions,
    Processor,
    Tag,
    ToolCall,
    Without,
    create_deep_agent,
    create_default_deps,
)

Deps = DeepAgentDeps[Any]


class City(BaseModel):
    name: str


@dataclass
class App:
    unit: str


def forecast(ctx: RunContext[DeepAgentDeps[App]], city: str) -> str:
    """Tomorrow's weather."""
    return city + ctx.deps.app.unit


def same(messages: list[ModelMessage]) -> list[ModelMessage]:
    return messages


def expensive(call: ToolCall) -> bool:
    return call.args.get("amount", 0) > 100


kernel = Kernel()
toolset = FunctionToolset[Any](id="mine")

# -- the output type, and whether calls can ask --------------------------------------------------------------------

assert_type(create_deep_agent(), Agent[Deps, str | DeferredToolRequests])
assert_type(kernel.create_agent(), Agent[Deps, str | DeferredToolRequests])
assert_type(create_deep_agent("test", interrupt_on=False), Agent[Deps, str])
assert_type(kernel.create_agent("test", interrupt_on=False), Agent[Deps, str])
assert_type(create_deep_agent(TestModel(), output_type=City), Agent[Deps, City | DeferredToolRequests])
assert_type(kernel.create_agent(TestModel(), output_type=City), Agent[Deps, City | DeferredToolRequests])
assert_type(create_deep_agent(output_type=City, interrupt_on=False), Agent[Deps, City])
assert_type(kernel.create_agent(output_type=City, interrupt_on=False), Agent[Deps, City])
assert_type(create_deep_agent(output_type=[City, str], interrupt_on=False), Agent[Deps, City | str])
assert_type(kernel.create_agent(output_type=[City, str], interrupt_on=False), Agent[Deps, City | str])
assert_type(create_deep_agent(interrupt_on=None), Agent[Deps, str | DeferredToolRequests])
assert_type(create_deep_agent(interrupt_on={"pay": expensive}), Agent[Deps, str | DeferredToolRequests])
assert_type(kernel.create_agent(interrupt_on="write | execute"), Agent[Deps, str | DeferredToolRequests])
assert_type(kernel.create_agent(interrupt_on=~Tag("read")), Agent[Deps, str | DeferredToolRequests])
assert_type(create_deep_agent(kernel=kernel), Agent[Deps, str | DeferredToolRequests])
assert_type(create_deep_agent(kernel=None, interrupt_on=False), Agent[Deps, str])

# -- every other parameter -----------------------------------------------------------------------------------------

PARAMETERS: AgentParameters = {
    "instructions": "Be brief.",
    "name": "ada",
    "tools": [forecast],
    "toolsets": [toolset],
    "history_processors": [Processor("same", same), same],
    "backend": "local",
    "strict": True,
    "description": "Counts.",
    "model_settings": {"temperature": 0.5},
    "retries": {"tools": 4},
    "system_prompt": "x",
    "validation_context": {"a": 1},
    "defer_model_check": True,
    "end_strategy": "early",
    "metadata": {"team": "a"},
    "tool_timeout": 3.0,
    "max_concurrency": 2,
    "capabilities": [],
    "tool_filter": "read & ~network",
    "plugins": [SubagentsOptions(), Without("todo")],
    "approvers": ["slack_approvals"],
    "innermost": ["dbos"],
    "native_tools": ["web_search"],
    "config": AgentConfig.model_validate({"identity": {"name": "ada"}}),
    "depth": 0,
}
assert_type(create_deep_agent(**PARAMETERS), Agent[Deps, str | DeferredToolRequests])
assert_type(kernel.create_agent("test", interrupt_on=False, **PARAMETERS), Agent[Deps, str])


def house_agent(**parameters: Unpack[AgentParameters]) -> Agent[Deps, str]:
    """A function of the application's own, with the same parameters."""
    return create_deep_agent("test", interrupt_on=False, **parameters)


house_agent(tool_filter=Tag("read"), plugins=[Without("todo")])


# -- the result ----------------------------------------------------------------------------------------------------


async def ask(city: str) -> str:
    agent = create_deep_agent(output_type=City, tools=[forecast])
    result = await agent.run(city, deps=create_default_deps(app=App("celsius")))
    if isinstance(result.output, DeferredToolRequests):
        return ", ".join(call.tool_name for call in result.output.approvals)
    return result.output.name


# -- in a plugin ---------------------------------------------------------------------------------------------------


class Options(PluginOptions):
    limit: int = 5


async def delegate(context: AgentContext, deps: Deps) -> Any:
    assert_type(context.options(Options).limit, int)
    child = context.create_agent("test", name="helper", instructions="Help.", tool_filter="read", output_type=City)
    return (await child.run("go", deps=deps.clone_for_subagent())).output


# -- sessions that were stored -------------------------------------------------------------------------------------

assert_type(kernel.load_deps("", app=App("C")), DeepAgentDeps[App])
assert_type(kernel.load_deps(""), DeepAgentDeps[None])
assert_type(kernel.load_deps("", app=App("C")).app, App)
assert_type(DeepAgentDeps[App].load("", app=App("C")).app, App)

# -- the application's own object, and a plugin's options outside of agents --------------------------------------------

assert_type(create_default_deps(app=App("C")), DeepAgentDeps[App])
assert_type(create_default_deps(app=App("C")).app, App)
assert_type(create_default_deps(app=App("C")).clone_for_subagent().app, App)
assert_type(DeepAgentDeps(app=App("C")).app.unit, str)
assert_type(create_default_deps().app, None)
assert_type(kernel.context("subagents").options(SubagentsOptions), SubagentsOptions)
