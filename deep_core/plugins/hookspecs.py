"""The hooks. `docs/generate.py` makes one page from each function, and a test runs its example.

The kernel collects the contributions to one agent (policy `collect`, argument `context`) in the order of this file. The
context of a hook can read the contributions to the hooks above it.

First line: what the plugin contributes. *Called*: when, and how often. *Result*: what the kernel does with the results
and with an exception. Contribution hooks are plain functions and do no I/O. Notify hooks may be async.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .markers import hookspec

if TYPE_CHECKING:
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import Model
    from pydantic_ai.toolsets import AbstractToolset

    # As a plugin's author names them: this file is the public interface, and the layers below know no agent.
    from .. import (
        AgentConfig,
        AgentContext,
        BackendFactory,
        DeepAgentDeps,
        PluginOptions,
        Processor,
        PromptSection,
        RunEvent,
        SkillLoader,
        StateSlot,
        ToolCall,
    )
    from .contributions import Verdict


@hookspec(policy="collect", item="types:ModuleType")
def deep_hookspecs() -> Iterable[ModuleType]:  # pyright: ignore[reportReturnType]
    """Modules that declare this plugin's own hooks, each marked with `@hookspec(policy=…)`.

    Called:
        Once, while the kernel loads plugins, before it checks implementations.

    Result:
        Every other plugin can implement the hooks with `@hookimpl(of="this_plugin")`. `context.collect("deep_cities")`
        returns what they contribute. A hook takes `context` or nothing, and its policy is `collect` or `one`; a hook
        with the policy `notify` takes any arguments, and its owner calls it with `kernel.caller.notify`. With
        `mapping=True` it returns a mapping. A contribution that is not an `item` is an error of its plugin. A hook that
        already exists is an error of this plugin. If the function raises, the kernel leaves the plugin out.

    Example:
        import sys
        from deep_core import hookimpl, hookspec

        @hookspec(policy="collect", item="builtins:str")
        def deep_cities(context):
            "Return cities that need a forecast."

        @hookimpl
        def deep_hookspecs():
            return [sys.modules[__name__]]
    """


@hookspec(policy="one", item="deep_core.plugins.options:PluginOptions")
def deep_options() -> type[PluginOptions]:  # pyright: ignore[reportReturnType]
    """The plugin's options: a subclass of `PluginOptions`.

    Called:
        Once for every agent, and by `deep config schema`.

    Result:
        The model validates `[plugins.<name>.options]`, the environment and options from code. `context.options(Model)`
        returns the instance. Options for a plugin without this hook are an error. If the function raises, the kernel
        leaves the plugin out of the agent.

        `PluginOptions` is a pydantic model. Keep your model in a module that only the hook imports, so that the plugin
        stays cheap to import.

    Example:
        from deep_core import PluginOptions, hookimpl

        class WeatherOptions(PluginOptions):
            unit: str = "celsius"

        @hookimpl
        def deep_options():
            return WeatherOptions
    """


@hookspec(policy="collect", item="deep_core.plugins.contributions:StateSlot")
def deep_state() -> Iterable[StateSlot[Any]]:  # pyright: ignore[reportReturnType]
    """Slots of session state that the plugin owns, kept in `deps.state`.

    Called:
        Once, after the kernel has loaded the plugins.

    Result:
        Tools and sections use the value as `ctx.deps.state[SLOT]`. The session stores it. Two slots with the same name
        are an error that names both plugins.

    Example:
        from deep_core import StateSlot, hookimpl

        FAVORITES = StateSlot("favorites", list[str], list)

        @hookimpl
        def deep_state():
            return [FAVORITES]
    """


@hookspec(policy="collect", item="collections.abc:Callable", mapping=True)
def deep_session_methods() -> Mapping[str, Callable[..., Any]]:  # pyright: ignore[reportReturnType]
    """Methods of the session: functions that applications call as `deps.name(…)`.

    Called:
        Once, after the kernel has loaded the plugins.

    Result:
        `deps.name(…)` calls the function with the deps as first argument. If another plugin, a state slot or a field of
        `DeepAgentDeps` has the same name, an error names both. If the function raises, the kernel leaves the plugin
        out.

    Example:
        from deep_core import StateSlot, hookimpl

        VISITED = StateSlot("visited", list[str], list)

        def visit(deps, city):
            deps.state[VISITED].append(city)

        @hookimpl
        def deep_state():
            return [VISITED]

        @hookimpl
        def deep_session_methods():
            return {"visit": visit}
    """


@hookspec(policy="collect", item="collections.abc:Callable", mapping=True)
def deep_backends(context: AgentContext) -> Mapping[str, BackendFactory]:  # pyright: ignore[reportReturnType]
    """Backends by name: places for files and commands.

    Called:
        Once for every agent. The kernel calls the factory of the chosen backend once for each session, with a
        `BackendContext`: the plugin's context and the `session_id`.

    Result:
        `backend="name"` selects a backend. Two backends with the same name are an error that names both plugins. If the
        function raises, the kernel leaves the plugin out of the agent.

    Example:
        from deep_core import hookimpl

        def scratch(context):
            from deep_backends import local_backend

            return local_backend(context.session_dir(context.session_id))

        @hookimpl
        def deep_backends(context):
            return {"scratch": scratch}
    """


@hookspec(policy="collect", item="pydantic_ai.toolsets:AbstractToolset")
def deep_toolsets(context: AgentContext) -> Iterable[AbstractToolset[DeepAgentDeps[Any]]]:  # pyright: ignore[reportReturnType]
    """Toolsets with the tools that the model may call.

    Called:
        Once for every agent.

    Result:
        The agent has the tools of all plugins, and the kernel knows which plugin each tool belongs to. Tag the tools
        (`metadata={"tags": ["read"]}`) with read, write, execute, network or destructive. A tool without tags counts as
        `write`. Two tools with the same name are an error that names both plugins. If the function raises, the kernel
        leaves the plugin out of the agent.

    Example:
        from deep_core import hookimpl

        @hookimpl
        def deep_toolsets(context):
            from pydantic_ai import FunctionToolset

            toolset = FunctionToolset(id="weather")

            @toolset.tool_plain(metadata={"tags": ["read"]})
            async def forecast(city: str) -> str:
                "Tomorrow's weather in a city."
                return f"Sunny in {city}"

            return [toolset]
    """


@hookspec(policy="collect")
def deep_history_processors(context: AgentContext) -> Iterable[Processor]:  # pyright: ignore[reportReturnType]
    r"""History processors, which change the messages before a request.

    Called:
        Once for every agent. The processors run before every request to the model.

    Result:
        The processors form a chain: phase `redact`, then `reduce`, then `annotate`. Within a phase they follow plugin
        order. A plain callable, in any form that Pydantic AI accepts, becomes a `Processor` with defaults. If the
        function raises, the kernel leaves the plugin out of the agent.

        A reducer rewrites what was sent, so it should act rarely and cut much. It must not separate a tool call from
        its result.

    Example:
        import re
        from dataclasses import replace
        from deep_core import Processor, hookimpl

        def mask(value):
            "Mask a text, or the text of an item (a user's, a file's or a live section's)."
            if isinstance(value, str):
                return re.sub(r"\d{4} \d{4}", "****", value)
            return replace(value, content=mask(value.content)) if hasattr(value, "content") else value

        def mask_part(part):
            if part.part_kind != "user-prompt":
                return part
            items = part.content
            return replace(part, content=mask(items) if isinstance(items, str) else [*map(mask, items)])

        def mask_cards(messages):
            return [replace(message, parts=[*map(mask_part, message.parts)]) for message in messages]

        @hookimpl
        def deep_history_processors(context):
            return [Processor("mask_cards", mask_cards, phase="redact", persist=False)]
    """


@hookspec(policy="collect", item="deep_core.plugins.skills:SkillLoader")
def deep_skill_loaders(context: AgentContext) -> Iterable[SkillLoader]:  # pyright: ignore[reportReturnType]
    """Skill loaders, the sources of skills.

    Called:
        Once for every agent.

    Result:
        The plugin that offers skills reads the loaders with `context.collect("deep_skill_loaders")`. If the function
        raises, the kernel leaves the plugin out of the agent.

        For a skill that a loader does not list, `read` and `resource` must raise KeyError. For a file that the skill
        does not have, `resource` must raise FileNotFoundError.

    Example:
        from deep_core import SkillMeta, hookimpl

        SKILLS = {"greet": "Say hello."}

        class Builtin:
            source = "package"

            async def list(self, ctx):
                return [SkillMeta("greet", "How to greet.", "package", "builtin/greet")]

            async def read(self, ctx, name):
                return SKILLS[name]

            async def resource(self, ctx, name, path):
                raise FileNotFoundError(path) if name in SKILLS else KeyError(name)

        @hookimpl
        def deep_skill_loaders(context):
            return [Builtin()]
    """


@hookspec(policy="collect", item="deep_core.agent.sections:PromptSection")
def deep_prompt_sections(context: AgentContext) -> Iterable[PromptSection]:  # pyright: ignore[reportReturnType]
    """Prompt sections, which tell the model what it should know about the plugin.

    Called:
        Once for every agent. The function of a live section runs before every request.

    Result:
        Static texts come first, in a stable order. The kernel appends a live text when it changes. Do not repeat a
        tool's description. If the hook raises, the kernel leaves the plugin out of the agent. If a live section raises
        later, the text that was last sent stays.

    Example:
        from deep_core import PromptSection, hookimpl

        @hookimpl
        def deep_prompt_sections(context):
            return [PromptSection.static("units", "Use {tool:forecast} in celsius.", needs=["forecast"])]
    """


@hookspec(policy="collect", item="pydantic_ai.capabilities:AbstractCapability")
def deep_capabilities(context: AgentContext) -> Iterable[AbstractCapability[DeepAgentDeps[Any]]]:  # pyright: ignore[reportReturnType]
    """Pydantic AI capabilities, for what no other hook offers.

    Called:
        Once for every agent.

    Result:
        The capabilities stand beside the kernel's own, inside the policy. They cannot answer a call that needs
        approval. The kernel refuses a capability that overrides `handle_deferred_tool_calls` unless the user names the
        plugin in `approvers`, and one that asks for the innermost place unless the user names it in `innermost`. Return
        instances, not classes. If the function raises, the kernel leaves the plugin out of the agent.

    Example:
        from deep_core import hookimpl

        @hookimpl
        def deep_capabilities(context):
            from pydantic_ai.capabilities import Thinking

            return [Thinking()]
    """


@hookspec(policy="deny")
def deep_check_call(call: ToolCall, context: AgentContext, ctx: RunContext[DeepAgentDeps[Any]]) -> Verdict | None:
    """A verdict on one tool call: `Allow`, `Ask`, `Deny`, or None.

    Called:
        Before every execution of every tool, in the agent and its subagents, with the validated arguments.

    Result:
        The strictest answer of all plugins wins. An exception denies the call. The function may be async. For a check
        that depends on the session, use `ctx.deps`. A plugin that is configured to check nothing says so when it
        contributes, `context.idle("deep_check_call")`, and is not called.

    Example:
        from deep_core import Deny, hookimpl

        @hookimpl
        def deep_check_call(call, context):
            if "network" in call.tags and call.args.get("city") == "Atlantis":
                return Deny("Atlantis has no weather service")
            return None
    """


@hookspec(policy="first", item="pydantic_ai.models:Model")
def deep_resolve_model(model_id: str, config: AgentConfig | None) -> Model | None:
    """A model for an id that Pydantic AI does not know, or for the server at `agent.model.base_url`.

    Called:
        When an agent is created or run with a model id. `config` is the agent's configuration while it is created.

    Result:
        The first model wins. If all plugins return None, Pydantic AI resolves the id. The kernel skips a plugin that
        raises. If an agent is created with an id that nothing resolves, such as `acme:echo`, the error has the status
        of the plugin `acme`. If a run is given one, `agent.run(model="acme:echo")`, the error is Pydantic AI's own.

    Example:
        from deep_core import hookimpl

        @hookimpl
        def deep_resolve_model(model_id):
            if model_id != "acme:echo":
                return None
            from pydantic_ai.models.test import TestModel

            return TestModel(custom_output_text="echo")
    """


@hookspec(policy="notify")
def deep_agent_created(agent: Agent[Any, Any], context: AgentContext) -> None:
    """Notification: an agent was created.

    Called:
        Once for every agent, when it is complete.

    Result:
        The kernel ignores the result and logs an exception.

    Example:
        from deep_core import hookimpl

        @hookimpl
        def deep_agent_created(agent, context):
            context.logger.info("created %s", agent.name)
    """


@hookspec(policy="notify")
def deep_run_event(event: RunEvent, context: AgentContext) -> None:
    """Notification: something happened in a run, as a typed, frozen event.

    Called:
        When a run starts and ends, a model answers, a tool call starts and ends, a call asks or is approved or denied,
        and a history was compacted. Not for streamed text.

    Result:
        The kernel ignores the result and logs an exception. The function may be async. A plugin that is configured to
        listen to nothing says so when it contributes, `context.idle("deep_run_event")`, and is not called.

    Example:
        from deep_core import hookimpl

        @hookimpl
        def deep_run_event(event, context):
            context.logger.debug("%s", event)
    """
