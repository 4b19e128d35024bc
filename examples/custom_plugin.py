"""Write a plugin in one file, with options, state, a tool and two sections, and pass it to a kernel.

python examples/custom_plugin.py
"""

from __future__ import annotations

from typing import Any

from pydantic_ai import FunctionToolset, RunContext
from scripted import model

from deep_core import AgentContext, Kernel, PluginOptions, PromptSection, StateSlot, create_default_deps, hookimpl

ASKED: StateSlot[list[str]] = StateSlot("cities_asked", list[str], list)


class WeatherOptions(PluginOptions):
    """The options of the plugin."""

    unit: str = "celsius"
    """The unit of temperatures."""


class Weather:
    """The plugin `weather`."""

    @hookimpl
    def deep_options(self) -> type[WeatherOptions]:
        """Return the options model."""
        return WeatherOptions

    @hookimpl
    def deep_state(self) -> list[StateSlot[Any]]:
        """Return the slot for the cities that this session asked about."""
        return [ASKED]

    @hookimpl
    def deep_toolsets(self, context: AgentContext) -> list[FunctionToolset[Any]]:
        """Return one tool."""
        unit = context.options(WeatherOptions).unit
        toolset: FunctionToolset[Any] = FunctionToolset(id="weather")

        @toolset.tool(metadata={"tags": ["read", "network"]})
        async def forecast(ctx: RunContext[Any], city: str) -> str:
            """Tomorrow's weather in a city."""
            ctx.deps.state[ASKED].append(city)
            return f"{city}: 21 degrees {unit}"

        return [toolset]

    @hookimpl
    def deep_prompt_sections(self, context: AgentContext) -> list[PromptSection]:
        """Return a fixed text, and a text that follows the session."""

        def asked(ctx: RunContext[Any]) -> str | None:
            cities = ctx.deps.state[ASKED]
            return f"Asked about so far: {', '.join(cities)}" if cities else None

        return [
            PromptSection.static("manners", "Call {tool:forecast} before you speak of weather.", needs=["forecast"]),
            PromptSection.live("asked", asked),
        ]


def main() -> None:
    """Use a kernel with only this plugin."""
    with Kernel(plugins=[Weather()], discover=False) as kernel:
        scripted = model(("forecast", {"city": "Oslo"}), "21 degrees in Oslo.")
        agent = kernel.create_agent(scripted, plugins=[WeatherOptions(unit="kelvin")])
        deps = create_default_deps(kernel=kernel)
        result = agent.run_sync("How is Oslo?", deps=deps)
        print(result.output)
        print("state:", deps.state[ASKED])
        explanation = kernel.explain(agent)
        for section in explanation.sections:
            print(f"section {section.plugin}.{section.name}: {section.chars} characters, live: {section.live}")
        for tool in explanation.tools:
            print(f"tool {tool.name} of {tool.plugin}: {', '.join(tool.tags)}, asks: {tool.approval}")


if __name__ == "__main__":
    main()
