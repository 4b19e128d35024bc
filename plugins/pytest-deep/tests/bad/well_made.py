"""Weather with everything that a plugin can have and no mistake, to compare the bad ones with."""

import asyncio
from typing import Any

from deep_core import Processor, PromptSection, StateSlot, hookimpl

VISITED: StateSlot[list[str]] = StateSlot("visited", list[str], list)


@hookimpl
def deep_options() -> Any:
    from deep_core import PluginOptions

    class WeatherOptions(PluginOptions):
        unit: str = "celsius"

    return WeatherOptions


@hookimpl
def deep_state() -> list[Any]:
    return [VISITED]


@hookimpl
def deep_toolsets(context: Any) -> list[Any]:
    from pydantic_ai import FunctionToolset, RunContext

    from deep_core import DeepAgentDeps

    toolset = FunctionToolset[Any](id="weather")

    async def forecast(ctx: RunContext[DeepAgentDeps[Any]], city: str) -> str:
        """Tomorrow's weather in a city."""
        await asyncio.sleep(0)
        ctx.deps.state[VISITED].append(city)
        return f"Sunny in {city}"

    toolset.add_function(forecast, metadata={"tags": ["read"]})
    return [toolset]


@hookimpl
def deep_prompt_sections(context: Any) -> list[PromptSection]:
    return [
        PromptSection.static("manners", "Name the city in each answer."),
        PromptSection.live("visited", lambda ctx: f"Asked so far: {len(ctx.deps.state[VISITED])}"),
    ]


@hookimpl
def deep_history_processors(context: Any) -> list[Processor]:
    async def unchanged(messages: list[Any]) -> list[Any]:
        await asyncio.sleep(0)
        return messages

    return [Processor("unchanged", unchanged, phase="annotate")]


@hookimpl
def deep_run_event(event: Any, context: Any) -> None:
    context.logger.debug("%s", event)
