"""The hooks. Each page of the hook documentation is made from one function here, and its example is run by a test.

First line: what the plugin contributes. *Called*: when, and how often. *Result*: what becomes of the results, and of
an exception. Contribution hooks are plain functions and do no I/O; notify hooks may be async.
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

    from ..agent.run.events import RunEvent
    from ..agent.run.session import DeepAgentDeps
    from .context import AgentContext
    from .contributions import BackendFactory, Processor, PromptSection, StateSlot, ToolCall, Verdict
    from .options import PluginOptions
    from .skills import SkillLoader


@hookspec(policy="collect", item="types:ModuleType")
def deep_hookspecs() -> Iterable[ModuleType]:  # pyright: ignore[reportReturnType]
    """Modules that declare hooks of this plugin's own, each function marked `@hookspec(policy=…)`.

    Called:
        Once, while plugins are loaded, before any implementation is checked.

    Result:
        The hooks can then be implemented by every other plugin, with `@hookimpl(of="this_plugin")`. A hook that is
        already declared is an error for this plugin; an exception leaves the plugin out.

    Example:
        import sys
        from deep_core import hookimpl, hookspec

        @hookspec(policy="collect")
        def deep_cities(context):
            "Cities to forecast for."

        @hookimpl
        def deep_hookspecs():
            return [sys.modules[__name__]]
    """


@hookspec(policy="one", item="deep_core.plugins.options:PluginOptions")
def deep_options() -> type[PluginOptions]:  # pyright: ignore[reportReturnType]
    """The plugin's options: a subclass of `PluginOptions`.

    Called:
        Once for every agent that is made (and by `deep config schema`).

    Result:
        `[plugins.<name>] options`, the environment and code are validated by it, and `context.options(Model)` gives
        the instance. Options for a plugin without this hook are an error. An exception leaves the plugin out of the
        agent.
        `PluginOptions` is a pydantic model: keep yours in a module of its own that the hook imports, so that importing
        the plugin stays cheap.

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
        Once, after the plugins are loaded.

    Result:
        Tools and sections reach the value as `ctx.deps.state[SLOT]`; it is stored with the session. Two slots of one
        name are an error that names both plugins.

    Example:
        from deep_core import StateSlot, hookimpl

        FAVOURITES = StateSlot("favourites", list[str], list)

        @hookimpl
        def deep_state():
            return [FAVOURITES]
    """


@hookspec(policy="collect", item="collections.abc:Callable", mapping=True)
def deep_session_methods() -> Mapping[str, Callable[..., Any]]:  # pyright: ignore[reportReturnType]
    """Methods of the session: functions that applications call as `deps.name(…)`.

    Called:
        Once, after the plugins are loaded.

    Result:
        `deps.name(…)` calls the function with the deps first. A name that another plugin, a state slot or a field of
        `DeepAgentDeps` has is an error that names both. An exception leaves the plugin out.

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


@hookspec(policy="collect", item="pydantic_ai.toolsets:AbstractToolset")
def deep_toolsets(context: AgentContext) -> Iterable[AbstractToolset[DeepAgentDeps[Any]]]:  # pyright: ignore[reportReturnType]
    """Toolsets: the tools that the model may call.

    Called:
        Once for every agent that is made.

    Result:
        All are joined, each tool attributed to its plugin. Tag the tools (`metadata={"tags": ["read"]}`: read, write,
        execute, network, destructive); a tool without tags counts as `write`. Two tools of one name are an error that
        names both plugins. An exception leaves the plugin out of the agent.

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


@hookspec(policy="collect", item="collections.abc:Callable", mapping=True)
def deep_backends(context: AgentContext) -> Mapping[str, BackendFactory]:  # pyright: ignore[reportReturnType]
    """Backends: where files are and commands run, by name.

    Called:
        Once for every agent that is made. The factory of the chosen one is called once a session.

    Result:
        `backend="name"` finds it. Two of one name are an error that names both plugins. An exception leaves the
        plugin out of the agent.

    Example:
        from deep_core import hookimpl

        def scratch(context):
            from deep_backends import memory_backend

            return memory_backend()

        @hookimpl
        def deep_backends(context):
            return {"scratch": scratch}
    """


@hookspec(policy="collect")
def deep_history_processors(context: AgentContext) -> Iterable[Processor]:  # pyright: ignore[reportReturnType]
    r"""History processors: they change the messages before a request is sent.

    Called:
        Once for every agent that is made. The processors run before every model request.

    Result:
        A chain: phase `redact`, then `reduce`, then `annotate`; within one, in plugin order. A bare callable in any
        form that Pydantic AI takes becomes a `Processor` with defaults. An exception leaves the plugin out. A reducer
        rewrites what was sent, so it does much and seldom, and never parts a tool's call from its result.

    Example:
        import re
        from dataclasses import replace
        from deep_core import Processor, hookimpl

        def mask(value):
            "A text, or an item with a text: what a user, a file or a live section said."
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
    """Skill loaders: sources of skills.

    Called:
        Once for every agent that is made.

    Result:
        The plugin that offers skills reads them with `context.collect("deep_skill_loaders")`. An exception leaves
        the plugin out of the agent. For a skill that a loader does not list, `read` and `resource` raise KeyError; for
        a file that the skill has not, `resource` raises FileNotFoundError.

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


@hookspec(policy="collect", item="deep_core.plugins.contributions:PromptSection")
def deep_prompt_sections(context: AgentContext) -> Iterable[PromptSection]:  # pyright: ignore[reportReturnType]
    """Prompt sections: what the model should know about the plugin.

    Called:
        Once for every agent that is made. A live section's function runs before every request.

    Result:
        Static texts stand first, in a stable order; a live text is appended when it changes. Do not repeat what a
        tool's description says. An exception leaves the plugin out of the agent; a live section that raises later
        keeps what was last sent.

    Example:
        from deep_core import PromptSection, hookimpl

        @hookimpl
        def deep_prompt_sections(context):
            return [PromptSection.static("units", "Use {tool:forecast} in celsius.", needs=["forecast"])]
    """


@hookspec(policy="collect", item="pydantic_ai.capabilities:AbstractCapability")
def deep_capabilities(context: AgentContext) -> Iterable[AbstractCapability[DeepAgentDeps[Any]]]:  # pyright: ignore[reportReturnType]
    """Pydantic AI capabilities, for what no other hook gives.

    Called:
        Once for every agent that is made.

    Result:
        They stand beside the kernel's own, inside the policy: they cannot answer for a call that must be approved.
        One that overrides `handle_deferred_tool_calls` is refused unless the user names the plugin in `approvers`.
        Instances, not classes. An exception leaves the plugin out of the agent.

    Example:
        from deep_core import hookimpl

        @hookimpl
        def deep_capabilities(context):
            from pydantic_ai.capabilities import Thinking

            return [Thinking()]
    """


@hookspec(policy="deny")
def deep_check_call(call: ToolCall, context: AgentContext, ctx: RunContext[DeepAgentDeps[Any]]) -> Verdict | None:
    """A say on one tool call: `Allow`, `Ask`, `Deny`, or None for no opinion.

    Called:
        Before every execution of every tool, in the agent and its subagents, with the validated arguments.

    Result:
        The strictest answer of all plugins wins. An exception denies the call. May be async. `ctx.deps` is the
        session, for a check that depends on it.

    Example:
        from deep_core import Deny, hookimpl

        @hookimpl
        def deep_check_call(call, context):
            if "network" in call.tags and call.args.get("city") == "Atlantis":
                return Deny("Atlantis has no weather service")
            return None
    """


@hookspec(policy="first", item="pydantic_ai.models:Model")
def deep_resolve_model(model_id: str) -> Model | None:
    """A model for an id that Pydantic AI does not know.

    Called:
        When an agent is made or run with a model given as text.

    Result:
        The first model wins; with None from all, Pydantic AI resolves the id. A plugin that raises is passed over.

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
    """Nothing: the plugin is told that an agent was made.

    Called:
        Once for every agent, when it is complete.

    Result:
        Ignored; an exception is logged.

    Example:
        from deep_core import hookimpl

        @hookimpl
        def deep_agent_created(agent, context):
            context.logger.info("made %s", agent.name)
    """


@hookspec(policy="notify")
def deep_run_event(event: RunEvent, context: AgentContext) -> None:
    """Nothing: the plugin is told what happens in a run, as typed frozen events.

    Called:
        When a run starts and ends, a model request is answered, a tool call ends, approval is asked for, and a
        history was compacted. Not for text as it streams.

    Result:
        Ignored; an exception is logged. May be async.

    Example:
        from deep_core import hookimpl

        @hookimpl
        def deep_run_event(event, context):
            context.logger.debug("%s", event)
    """
