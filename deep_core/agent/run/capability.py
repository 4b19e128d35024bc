"""The capability `deep`, through which all plugins reach the agent."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, InstructionPart, ToolDefinition, UserPromptNode
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed, ToolRetryError
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import Model, ModelRequestContext, ModelResolutionContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDenied
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from tool_expressions import tool_facts

from ...errors import PluginError, describe_error, error_message
from .._pydantic_ai import retries_are_spent
from ..context import AgentContext
from ..policy.approvals import copy_args, unanswered_calls
from ..policy.gates import InnerGate, leaves_of
from ..tools.toolsets import RunToolsets
from .history import History
from .hosting import PassingEvents
from .observers import where
from .session import Deps, session

if TYPE_CHECKING:
    from pydantic_ai.capabilities.abstract import AgentNode, WrapRunHandler, WrapToolExecuteHandler

    from ..plan import Plan
    from .session import Args, Ctx

_TOOL = re.compile(r"\{tool:([A-Za-z0-9_.-]+)\}")


class DeepCapability(PassingEvents):
    """Dispatch to the plugins' tools, sections, processors, backends and event listeners.

    Attributes:
        plan: what the agent is made of.
        stands_last: whether it is inside every other capability; no capability that the user named is innermost then.
    """

    def __init__(self, plan: Plan, *, stands_last: bool = True) -> None:
        self.id = "deep"
        self.description = None
        self.defer_loading = False
        self.plan = plan
        self.stands_last = stands_last
        self._owners = plan.owners
        self._observers = plan.policy.observers
        self._resolves_models = bool(plan.contributed.caller.plugins("deep_resolve_model", plan.contributed.plugins))
        self._history = History(
            plan.live, plan.processors, plan.kernel.tracer, plan.contributed.incidents, self._observers
        )
        self._needs = {
            f"{plugin}.{section.name}": section
            for plugin, section in plan.static
            if section.needs or _TOOL.search(str(section.text))
        }
        self._listed: tuple[list[ToolDefinition], Mapping[str, str], frozenset[str]] = ([], {}, frozenset())
        self._needs_offered = bool(self._needs) or any(section.value.needs for section in plan.live)

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: the capability belongs to its kernel and cannot be created from a spec."""
        return None

    def get_ordering(self) -> CapabilityOrdering:
        """Place it inside every other capability, wherever those push each other; only named ones are innermost."""
        return CapabilityOrdering(wrapped_by=[AbstractCapability] if self.stands_last else ())

    # -- contributions -------------------------------------------------------------------------------------------

    def get_instructions(self) -> list[InstructionPart]:  # type: ignore[override]
        """Return the static sections, each under its plugin's name."""
        sections = self.plan.static
        return [InstructionPart(str(section.text), name=f"{plugin}.{section.name}") for plugin, section in sections]

    def get_toolset(self) -> AbstractToolset[Deps]:
        """Return the tools of all plugins."""
        return self.plan.toolbox

    def get_wrapper_toolset(self, toolset: AbstractToolset[Deps]) -> AbstractToolset[Deps]:
        """Attribute the run's function tools, and verify calls, inside what other capabilities wrap around them."""
        return InnerGate(RunToolsets.of(toolset, self.plan.toolbox), self.plan.policy, self._owners)

    @property
    def has_resolve_model_id(self) -> bool:
        """Whether a plugin resolves models. Otherwise Pydantic AI resolves each id directly."""
        return self._resolves_models

    async def resolve_model_id(self, ctx: ModelResolutionContext[Deps], *, model_id: str) -> Model | None:
        """Let the plugins resolve a model id that a run was given."""
        found = self.plan.contributed
        return found.caller.first("deep_resolve_model", {"model_id": model_id, "config": None}, among=found.plugins)

    def get_workspace(self, ctx: Ctx, *, ref: WorkspaceRef | None) -> WorkspaceBackend | None:
        """Return the session's backend."""
        deps = session(ctx)
        deps.state.bind(self.plan.kernel)
        return self.plan.workspaces.for_session(deps, ref)

    # -- the run -------------------------------------------------------------------------------------------------

    async def wrap_run(self, ctx: Ctx, *, handler: WrapRunHandler) -> AgentRunResult[object]:
        """Report the run's start and end."""
        if not self._observers.listeners:
            return await handler()
        from .events import RunEndEvent, RunStartEvent

        await self._observers.send(RunStartEvent(**where(ctx)))
        try:
            result = await handler()
        except BaseException as error:
            await self._observers.send(RunEndEvent(**where(ctx), error=describe_error(error)))
            raise
        await self._observers.send(RunEndEvent(**where(ctx)))
        return result

    async def before_node_run(self, ctx: Ctx, *, node: AgentNode[Deps]) -> AgentNode[Deps]:
        """Report the calls that a person denied; no other hook sees them."""
        if self._observers.listeners and isinstance(node, UserPromptNode) and node.deferred_tool_results is not None:
            pending = unanswered_calls(ctx.messages)
            for call_id, answer in node.deferred_tool_results.approvals.items():
                if call_id in pending and (answer is False or isinstance(answer, ToolDenied)):
                    reason = answer.message if isinstance(answer, ToolDenied) else ""
                    tool = pending[call_id][0]
                    await self.plan.policy.tell(ctx, tool, self._plugin_of(tool), call_id, "denied", reason)
        return node

    def _plugin_of(self, tool: str) -> str:
        """As far as the tools are known before they are listed."""
        return next((tool_facts(each).plugin for each in self.plan.toolbox.offered() if each.name == tool), "")

    async def before_model_request(self, ctx: Ctx, request_context: ModelRequestContext) -> ModelRequestContext:
        """Fit the sections to the offered tools, then run processors and live sections."""
        self.plan.native_tools.filter(request_context)
        offered = frozenset[str]()
        if self._needs_offered:
            names, offered = self._names(request_context.model_request_parameters.function_tools)
            if self._needs:
                self._fit_sections(request_context, offered, names)
        if self.plan.live or self.plan.processors:
            await self._history.prepare(ctx, request_context, offered)
        return request_context

    def _names(self, definitions: list[ToolDefinition]) -> tuple[Mapping[str, str], frozenset[str]]:
        """Map original names to final ones, and collect both. Kept until other tools are listed."""
        if self._listed[0] != definitions:  # compares identities first: most requests list what the last one did
            names = {tool_facts(definition).original: definition.name for definition in definitions}
            self._listed = ([*definitions], names, frozenset((*names, *names.values())))
        return self._listed[1:]

    def _fit_sections(self, request: ModelRequestContext, offered: frozenset[str], names: Mapping[str, str]) -> None:
        parameters = request.model_request_parameters
        parts: list[InstructionPart] = []
        for part in parameters.instruction_parts or []:
            section = self._needs.get(part.name or "")
            if section is None or "capability:deep" not in str(part.id):
                parts.append(part)
            elif offered.issuperset(section.needs):
                content = _TOOL.sub(lambda match: names.get(match[1], match[1]), part.content)
                parts.append(part if content == part.content else replace(part, content=content))
        request.model_request_parameters = replace(parameters, instruction_parts=parts)

    async def wrap_tool_execute(
        self, ctx: Ctx, *, call: ToolCallPart, tool_def: ToolDefinition, args: Args, handler: WrapToolExecuteHandler
    ) -> object:
        """Report a call's start and end."""
        if not self._observers.listeners:
            return await handler(args)
        from .events import ToolEvent

        name, plugin, call_id, given = tool_def.name, tool_facts(tool_def).plugin, call.tool_call_id, copy_args(args)
        event = ToolEvent(**where(ctx), tool=name, plugin=plugin, call_id=call_id, args=given, outcome="started")
        await self._observers.send(event)
        began = time.perf_counter()
        try:
            result = await handler(args)
        except (ApprovalRequired, CallDeferred):
            raise
        except Exception as error:
            outcome, message = (
                "retried" if isinstance(error, ModelRetry | ToolRetryError) else "failed",
                error_message(error),
            )
            await self._observers.send(replace(event, outcome=outcome, error=message, milliseconds=_since(began)))
            raise
        await self._observers.send(replace(event, outcome="success", milliseconds=_since(began)))
        return result

    async def on_tool_execute_error(
        self, ctx: Ctx, *, call: ToolCallPart, tool_def: ToolDefinition, args: Args, error: Exception
    ) -> object:
        """Turn an exception in a plugin's tool into a failed result. The application's own tools raise."""
        plugin, incidents = tool_facts(tool_def).plugin, self.plan.contributed.incidents
        if plugin == "app" or incidents.strict or retries_are_spent(error, call.tool_name):
            raise error  # the last of these: the model has used up its retries, which is not the tool's doing
        error.add_note(f"plugin {plugin}, tool {tool_def.name}")
        incidents.record(plugin, f"tool {tool_def.name}", error, "the model was told that the call failed")
        raise ToolFailed(f"{describe_error(error)} (plugin {plugin})") from error


class AttemptCapability(DeepCapability):
    """Filter and redact again before each attempt: other capabilities may have added tools and messages since.

    A class of its own, because Pydantic AI copies all tool definitions for each attempt where there is such a hook.
    """

    async def prepare_model_request(self, ctx: Ctx, request_context: ModelRequestContext) -> ModelRequestContext:
        """Filter native tools and redact."""
        self.plan.native_tools.filter(request_context)
        await self._history.redact(ctx, request_context)
        return request_context


def agent_context(agent: Agent[Any, Any], plugin: str) -> AgentContext:
    """Return the context that a plugin's hooks received for this agent: for functions called outside a run.

    Raises:
        PluginError: the agent was not made by a kernel, or without that plugin.
    """
    for leaf in leaves_of(agent.root_capability):
        if isinstance(leaf, DeepCapability) and plugin in leaf.plan.contributed.contexts:
            return leaf.plan.contributed.contexts[plugin]
    raise PluginError(f"this agent was made without the plugin {plugin!r}; `deep plugins list` shows its status")


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
