"""The capability `deep`, through which all plugins reach the agent."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import Agent, InstructionPart, ToolDefinition, UserPromptNode
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed, UnexpectedModelBehavior
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import Model, ModelRequestContext, ModelResolutionContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import RunContext, ToolDenied
from pydantic_ai.toolsets import AbstractToolset
from pydantic_ai.workspaces import WorkspaceBackend, WorkspaceRef
from tool_expressions import tool_facts

from ...errors import PluginError, describe_error, error_message
from ..context import AgentContext
from ..policy.approvals import copy_args, unanswered_calls
from ..policy.gates import InnerGate, leaves_of
from ..tools.toolsets import RunToolsets
from .history import History
from .hosting import PassingEvents
from .session import session

if TYPE_CHECKING:
    from ..assemble import Assembly

_TOOL = re.compile(r"\{tool:([A-Za-z0-9_.-]+)\}")


class DeepCapability(PassingEvents):
    """Dispatch to the plugins' tools, sections, processors, backends and event listeners.

    Attributes:
        assembly: what the agent is made of.
    """

    def __init__(self, assembly: Assembly) -> None:
        self.id = "deep"
        self.description = None
        self.defer_loading = False
        self.assembly = assembly
        self._history = History(assembly)
        self._needs = {
            f"{plugin}.{section.name}": section
            for plugin, section in assembly.static
            if section.needs or _TOOL.search(str(section.text))
        }
        self._listed: tuple[list[ToolDefinition], Mapping[str, str], frozenset[str]] = ([], {}, frozenset())
        self._needs_offered = bool(self._needs) or any(section.value.needs for section in assembly.live)

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: the capability belongs to its kernel and cannot be created from a spec."""
        return None

    def get_ordering(self) -> CapabilityOrdering:
        """Place it inside every other capability, wherever those push each other; only named ones are innermost."""
        return CapabilityOrdering(wrapped_by=() if self.assembly.has_innermost else [AbstractCapability])

    # -- contributions -------------------------------------------------------------------------------------------

    def get_instructions(self) -> list[InstructionPart]:  # type: ignore[override]
        """Return the static sections, each under its plugin's name."""
        sections = self.assembly.static
        return [InstructionPart(str(section.text), name=f"{plugin}.{section.name}") for plugin, section in sections]

    def get_toolset(self) -> AbstractToolset[Any]:
        """Return the tools of all plugins."""
        return self.assembly.toolbox

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Gate every function tool of the run once more, inside what other capabilities wrap around them."""
        toolset = RunToolsets.of(toolset, self.assembly.toolbox)
        return InnerGate(toolset, self.assembly.policy, self.assembly.owners)

    @property
    def has_resolve_model_id(self) -> bool:
        """Whether a plugin resolves models. Otherwise Pydantic AI resolves each id directly."""
        return self.assembly.resolves_models

    async def resolve_model_id(self, ctx: ModelResolutionContext[Any], *, model_id: str) -> Model | None:
        """Let the plugins resolve a model id that a run was given."""
        return self.assembly.resolve_model(model_id)

    def get_workspace(self, ctx: RunContext[Any], *, ref: WorkspaceRef | None) -> WorkspaceBackend | None:
        """Return the session's backend."""
        return self.assembly.backend(session(ctx), ref)

    # -- the run -------------------------------------------------------------------------------------------------

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]) -> Any:
        """Hold the session, and report the run's start and end."""
        deps = session(ctx)
        deps.state.bind(self.assembly.kernel)
        name = ctx.agent.name if ctx.agent else None
        label = f"run {ctx.run_id} of agent {name or 'without a name'} in session {deps.session_id}"
        emit = self.assembly.emit
        with deps.state.hold(self.assembly.kernel, label):
            await emit("RunStartEvent", ctx)
            try:
                result = await handler()
            except BaseException as error:
                await emit("RunEndEvent", ctx, error=describe_error(error))
                raise
            await emit("RunEndEvent", ctx)
            return result

    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:
        """Report the calls that a person denied; no other hook sees them."""
        agent = self.assembly
        if agent.listeners and isinstance(node, UserPromptNode) and node.deferred_tool_results is not None:
            pending = unanswered_calls(ctx.messages)
            for call_id, answer in node.deferred_tool_results.approvals.items():
                if call_id in pending and (answer is False or isinstance(answer, ToolDenied)):
                    reason = answer.message if isinstance(answer, ToolDenied) else ""
                    tool = pending[call_id][0]
                    about = {"tool": tool, "plugin": self._plugin_of(tool), "call_id": call_id, "reason": reason}
                    await agent.emit("ApprovalEvent", ctx, decision="denied", **about)
        return cast("Any", node)

    def _plugin_of(self, tool: str) -> str:
        """As far as the tools are known before they are listed."""
        return next((tool_facts(each).plugin for each in self.assembly.toolbox.offered() if each.name == tool), "")

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Fit the sections to the offered tools, then run processors and live sections."""
        self.assembly.native_tools.filter(request_context)
        offered = frozenset[str]()
        if self._needs_offered:
            names, offered = self._names(request_context.model_request_parameters.function_tools)
            if self._needs:
                self._fit_sections(request_context, offered, names)
        if self.assembly.live or self.assembly.processors:
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
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Report a call's start and end."""
        emit = self.assembly.emit
        if not self.assembly.listeners:
            return await handler(args)
        about: dict[str, Any] = {
            "tool": tool_def.name,
            "plugin": tool_facts(tool_def).plugin,
            "call_id": call.tool_call_id,
            "args": copy_args(args),
        }
        await emit("ToolEvent", ctx, **about, outcome="started")
        began = time.perf_counter()
        try:
            result = await handler(args)
        except (ApprovalRequired, CallDeferred):
            raise
        except Exception as error:
            outcome = "retried" if isinstance(error, ModelRetry) or "Retry" in type(error).__name__ else "failed"
            about |= {"outcome": outcome, "error": error_message(error)}
            await emit("ToolEvent", ctx, **about, milliseconds=_since(began))
            raise
        await emit("ToolEvent", ctx, **about, outcome="success", milliseconds=_since(began))
        return result

    async def on_tool_execute_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        error: Exception,
    ) -> Any:
        """Turn an exception in a plugin's tool into a failed result. The application's own tools raise."""
        plugin = tool_facts(tool_def).plugin
        spent = isinstance(error, UnexpectedModelBehavior) and "exceeded max retries" in str(error)
        if plugin == "app" or self.assembly.incidents.strict or (spent and repr(call.tool_name) in str(error)):
            raise error  # the last of these: the model has used up its retries, which is not the tool's doing
        error.add_note(f"plugin {plugin}, tool {tool_def.name}")
        effect = "the model was told that the call failed"
        self.assembly.incidents.record(plugin, f"tool {tool_def.name}", error, effect)
        raise ToolFailed(f"{describe_error(error)} (plugin {plugin})") from error


class AttemptCapability(DeepCapability):
    """Filter and redact again before each attempt: other capabilities may have added tools and messages since.

    A class of its own, because Pydantic AI copies all tool definitions for each attempt where there is such a hook.
    """

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Filter native tools and redact."""
        self.assembly.native_tools.filter(request_context)
        await self._history.redact(ctx, request_context)
        return request_context


def agent_context(agent: Agent[Any, Any], plugin: str) -> AgentContext:
    """Return the context that a plugin's hooks received for this agent: for functions called outside a run.

    Raises:
        PluginError: the agent was not made by a kernel, or without that plugin.
    """
    for leaf in leaves_of(agent.root_capability):
        if isinstance(leaf, DeepCapability) and plugin in leaf.assembly.contexts:
            return leaf.assembly.contexts[plugin]
    raise PluginError(f"this agent was made without the plugin {plugin!r}; `deep plugins list` shows its status")


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
