"""The wrong twin of `embedding.py`: pyright reports each marked line and no other."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent

from deep_core import (
    AgentContext,
    AgentParameters,
    DeepAgentDeps,
    Kernel,
    Without,
    create_deep_agent,
    create_default_deps,
)

Deps = DeepAgentDeps[Any]


class City(BaseModel):
    name: str


kernel = Kernel()

# -- keywords ------------------------------------------------------------------------------------------------------

create_deep_agent("test", toolsts=[])  # error
kernel.create_agent("test", toolsts=[])  # error
create_deep_agent("test", interupt_on=False)  # error
kernel.create_agent("test", interupt_on=False)  # error
create_deep_agent("test", deps_type=DeepAgentDeps)  # error
create_deep_agent("test", todo=False)  # error
kernel.create_agent("test", kernel=kernel)  # error
misspelt: AgentParameters = {"tool_filtr": "read"}  # error

# -- values --------------------------------------------------------------------------------------------------------

create_deep_agent(3)  # error
kernel.create_agent(3)  # error
create_deep_agent("test", instructions=3)  # error
kernel.create_agent("test", instructions=3)  # error
create_deep_agent("test", tools="forecast")  # error
kernel.create_agent("test", tools="forecast")  # error
create_deep_agent("test", toolsets=["weather"])  # error
create_deep_agent("test", capabilities=["thinking"])  # error
create_deep_agent("test", history_processors=["redact"])  # error
create_deep_agent("test", backend=3)  # error
create_deep_agent("test", tool_filter=["read"])  # error
kernel.create_agent("test", tool_filter=["read"])  # error
create_deep_agent("test", plugins=["todo"])  # error
kernel.create_agent("test", plugins=[Without(3)])  # error
create_deep_agent("test", interrupt_on=3)  # error
kernel.create_agent("test", interrupt_on={"pay": 3})  # error
create_deep_agent("test", approvers=[3])  # error
create_deep_agent("test", config=3)  # error
create_deep_agent("test", kernel="default")  # error
create_deep_agent("test", model_settings=3)  # error
create_deep_agent("test", retries="many")  # error
create_deep_agent("test", end_strategy="late")  # error
create_deep_agent("test", tool_timeout="long")  # error
create_deep_agent("test", output_type=3)  # error

# -- results -------------------------------------------------------------------------------------------------------

text: Agent[Deps, str] = create_deep_agent("test")  # error
asking: Agent[Deps, str] = kernel.create_agent("test")  # error
city: Agent[Deps, City] = create_deep_agent("test", output_type=City)  # error
of_text: Agent[Deps, str] = create_deep_agent("test", output_type=City, interrupt_on=False)  # error
of_city: Agent[Deps, City] = kernel.create_agent("test", interrupt_on=False)  # error


async def run() -> str:
    result = await create_deep_agent("test", output_type=City, interrupt_on=False).run("go", deps=DeepAgentDeps())
    print(result.output.nme)  # error
    asked = await kernel.create_agent("test").run("go", deps=DeepAgentDeps())
    await kernel.create_agent("test").run("go", deps={})  # error
    return asked.output  # error


# -- in a plugin ---------------------------------------------------------------------------------------------------


def delegate(context: AgentContext) -> None:
    context.create_agent("test", tool_filtr="read")  # error
    context.create_agent("test", approvers=["me"])  # error
    context.create_agent("test", config={"agent": {}})  # error
    context.create_agent("test", depth=0)  # error


# -- sessions ------------------------------------------------------------------------------------------------------

print(create_default_deps(app=City(name="Oslo")).app.nme)  # error
print(create_default_deps().app.name)  # error
print(kernel.load_deps("", app=City(name="Oslo")).app.nme)  # error
print(kernel.load_deps("").app.name)  # error
kernel.context("todo").options(City)  # error
