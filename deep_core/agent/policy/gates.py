"""The gates: the capability and the toolsets that apply the policy.

`deep.policy` is outermost and decides on every call before any other capability sees it. Each plugin's toolset verifies
that it runs the call that was decided on (`tools.PluginToolset`), and `InnerGate` does so for tools that have no such
toolset, inside everything that other capabilities wrap around them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeGuard

from pydantic_ai import ToolDefinition, UserPromptNode
from pydantic_ai.capabilities import (
    AbstractCapability,
    CapabilityOrdering,
    CombinedCapability,
    Hooks,
    WrapperCapability,
)
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed, UserError
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import DeferredToolRequests
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import ValidationError
from tool_expressions import attributed_facts

from ...plugins.kernel import PluginKernel
from .._pydantic_ai import PendingMessageDrainCapability, ToolSearchToolset, has_handler
from ..run.hosting import HostingCapability
from ..run.observers import where
from ..run.session import Deps, SessionState, session
from ..tools.toolsets import ToolRules
from .approvals import args_as_json, close_open_calls, note_decisions
from .budget import release_request, reserve_request
from .cut_calls import refuse_cut
from .decisions import NO_CALL_WAITS, NO_RUN, RUN, Policy, RunCalls, calls_of, decided

if TYPE_CHECKING:
    from pydantic_ai.capabilities.abstract import (
        AgentNode,
        WrapRunHandler,
        WrapToolExecuteHandler,
        WrapToolValidateHandler,
    )
    from pydantic_ai.capabilities.abstract import RawToolArgs as Raw

    from ..run.session import Args, Ctx


@dataclass(eq=False, repr=False)
class Attributing(WrapperToolset[Deps]):
    """Attributes a run's tools that no plugin's toolset listed: of capabilities, of one run, of plain agents."""

    policy: Policy
    owners: Mapping[str, str] = field(default_factory=dict[str, str])
    """Capability id -> the plugin that contributed it."""
    foreign: ToolRules = field(default_factory=ToolRules)
    _foreign: set[str] = field(default_factory=set[str])
    """The names that were attributed here; each run has its own instance."""

    async def get_tools(self, ctx: Ctx) -> dict[str, ToolsetTool[Deps]]:
        """Return all tools, attributed."""
        tools, own = await self.wrapped.get_tools(ctx), calls_of(ctx).own
        # Most are listed as a plugin's toolset attributed them: this runs for every tool and request.
        return {
            name: tool if tool.tool_def is own.get(name) else self._attributed(name, tool, own)
            for name, tool in tools.items()
        }

    def _attributed(self, name: str, tool: ToolsetTool[Deps], own: dict[str, ToolDefinition]) -> ToolsetTool[Deps]:
        definition = tool.tool_def
        facts = attributed_facts(definition)
        if facts is not None and facts.name in own and attributed_facts(own[facts.name]) is facts:
            return tool  # attributed before, and changed by another capability
        if name not in own or name in self._foreign:
            self._foreign.add(name)
            plugin = self.owners.get(definition.capability_id or "", "app")
            own[name] = self.foreign.attribute(plugin, definition, searches=self._is_search(tool))
            self.policy.tools.seen(own[name])
        return replace(tool, tool_def=own[name])

    def _is_search(self, tool: ToolsetTool[Deps]) -> bool:
        """Whether a tool is Pydantic AI's own search, whose toolset wraps all others."""
        toolset = self.wrapped
        while isinstance(toolset, WrapperToolset):
            if type(toolset) is ToolSearchToolset and toolset is tool.toolset:
                return True
            toolset = toolset.wrapped
        return False


@dataclass(eq=False, repr=False)
class InnerGate(Attributing):
    """Attributes all function tools of a run, inside everything that capabilities wrap around them."""

    async def get_tools(self, ctx: Ctx) -> dict[str, ToolsetTool[Deps]]:
        """Return all tools except deferred ones that the filter hides: the tool search is outside of this toolset."""
        tools, shows = await super().get_tools(ctx), self.policy.tools.shows
        return {n: tool for n, tool in tools.items() if not tool.tool_def.defer_loading or shows(tool.tool_def)}

    async def call_tool(self, name: str, tool_args: Args, ctx: Ctx, tool: ToolsetTool[Deps]) -> object:
        """Verify the call of a tool that no plugin's toolset listed: such a toolset verifies deeper inside."""
        if name in self._foreign:
            calls = calls_of(ctx)
            await self.policy.verify(ctx, calls, calls.own.get(name, tool.tool_def), tool_args)
        return await self.wrapped.call_tool(name, tool_args, ctx, tool)


@dataclass(eq=False, repr=False)
class ShownToolset(Attributing):
    """Filters a run's function tools, and attributes those that appear only outside of `InnerGate`."""

    async def get_tools(self, ctx: Ctx) -> dict[str, ToolsetTool[Deps]]:
        """Return the tools that the filter selects."""
        tools, known = await self.wrapped.get_tools(ctx), calls_of(ctx).own
        late = [name for name in tools if name not in known or name in self._foreign]
        if late:
            tools = {**tools, **{name: self._attributed(name, tools[name], known) for name in late}}
        listed = self.policy.tools
        if not self.policy.rules.shown and listed.is_checked:
            return tools
        own = [known.get(name, tool.tool_def) for name, tool in tools.items()]
        listed.check(own)
        return {name: tool for (name, tool), mine in zip(tools.items(), own, strict=True) if listed.shows(mine)}


@dataclass(eq=False, repr=False, kw_only=True)
class PolicyCapability(HostingCapability, PendingMessageDrainCapability):
    """The outer gate: first in the chain, around every other capability. It hosts those that come next."""

    kernel: PluginKernel
    policy: Policy
    approvers: tuple[AbstractCapability[Deps], ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict[str, str])

    def alone(self) -> PolicyCapability:
        """Return the gate without the capabilities that it hosts, for an agent that has none of them."""
        return replace(self, hosted=())

    def get_ordering(self) -> CapabilityOrdering:
        """Place it outside every other capability, even outermost ones."""
        return CapabilityOrdering(position="outermost", wraps=[AbstractCapability])

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: it belongs to its agent and cannot be created from a spec."""
        return None

    async def wrap_run(self, ctx: Ctx, *, handler: WrapRunHandler) -> AgentRunResult[object]:
        """Hold the session. Before any other hook runs, vet the capabilities that this run added."""
        self._vet_run(ctx)
        deps = session(ctx)
        deps.state.bind(self.kernel)
        name = ctx.agent.name if ctx.agent else None
        label = f"run {ctx.run_id} of agent {name or 'without a name'} in session {deps.session_id}"
        with deps.state.hold(self.kernel, label):
            deps.state[RUN] = calls = RunCalls(ctx.run_id or "", self.policy, self._above(deps.state.parent))
            try:
                return await handler()
            finally:
                release_request(ctx)
                if deps.state[RUN] is calls:  # an abandoned run may end after the next one has begun
                    deps.state[RUN] = NO_RUN

    def _above(self, caller: SessionState | None) -> tuple[Policy, ...]:
        """Return the policies of the callers that this agent's policy does not include."""
        calls = caller[RUN] if caller is not None else RunCalls()
        if calls.policy is None:
            return ()
        included = calls.policy is self.policy or calls.policy is self.policy.parent
        return calls.above if included else (calls.policy, *calls.above)

    async def before_model_request(self, ctx: Ctx, request_context: ModelRequestContext) -> ModelRequestContext:
        """Count the request for all agents of the session, before any other hook, and add enqueued messages."""
        reserve_request(ctx)
        request_context = await super().before_model_request(ctx, request_context)
        # After the hosted capabilities: what they enqueue goes out with this request.
        return await PendingMessageDrainCapability.before_model_request(self, ctx, request_context)

    async def after_model_request(
        self, ctx: Ctx, *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Report a request once: when every other hook has accepted the answer of its last attempt."""
        response = await super().after_model_request(ctx, request_context=request_context, response=response)
        release_request(ctx)
        if self.policy.observers.listeners:
            from ..run.events import RequestEvent

            used, model = response.usage, response.model_name or ""
            tokens = RequestEvent(
                **where(ctx), model=model, input_tokens=used.input_tokens, output_tokens=used.output_tokens
            )
            await self.policy.observers.send(tokens)
        return response

    async def before_node_run(self, ctx: Ctx, *, node: AgentNode[Deps]) -> AgentNode[Deps]:
        """Record a person's decisions on waiting calls, before any other hook can forge them."""
        if isinstance(node, UserPromptNode) and node.deferred_tool_results is not None:
            note_decisions(ctx, node.deferred_tool_results, calls_of(ctx).answers)
        return node

    async def handle_deferred_tool_calls(self, ctx: Ctx, *, requests: DeferredToolRequests) -> None:
        """Answer nothing. First in the chain: vet again, in case an approver appeared after the start of the run."""
        self._vet_run(ctx)
        if self.approvers:
            calls_of(ctx).handed.update({call.tool_call_id: args_as_json(call.args) for call in requests.approvals})

    async def wrap_tool_validate(
        self, ctx: Ctx, *, call: ToolCallPart, tool_def: ToolDefinition, args: Raw, handler: WrapToolValidateHandler
    ) -> Args:
        """Note what a named approver wrote, before any other hook can change it; refuse a call that was cut.

        Raises:
            ModelRetry: the answer was cut inside of this call.
            ValidationError: the arguments are wrong; long ones are truncated.
        """
        calls = calls_of(ctx)
        if ctx.tool_call_approved and (asked := calls.handed.pop(call.tool_call_id, None)) is not None:
            given = args_as_json(call.args)
            calls.answers[call.tool_call_id] = None if given == asked else given
        refuse_cut(ctx, call)
        try:
            return await handler(args)
        except ValidationError as error:
            from .validation_errors import truncate_errors

            raise truncate_errors(error) from error

    def _vet_run(self, ctx: Ctx) -> None:
        root = ctx.root_capability
        if root is None:
            return
        for leaf in leaves_of(root):
            if leaf is not self and approves(leaf) and not self._named(leaf):
                raise UserError(
                    f"capability {type(leaf).__name__} could approve tool calls in this run, and nobody named it as an "
                    "approver. Pass it to create_deep_agent(capabilities=[…]), or name its plugin in approvers=[…]."
                )

    def _named(self, leaf: AbstractCapability[Deps]) -> bool:
        # By identity, or by id and class if `for_run` created an instance for this run.
        return any(
            leaf is known or (leaf.id is not None and leaf.id == known.id and type(leaf) is type(known))
            for known in self.approvers
        )

    def get_wrapper_toolset(self, toolset: AbstractToolset[Deps]) -> AbstractToolset[Deps]:
        """Wrap the run's tools in the filter."""
        return ShownToolset(toolset, self.policy, self.owners)

    async def wrap_tool_execute(
        self, ctx: Ctx, *, call: ToolCallPart, tool_def: ToolDefinition, args: Args, handler: WrapToolExecuteHandler
    ) -> object:
        """Decide before any capability inside can answer."""
        calls = calls_of(ctx)
        definition = calls.own.get(tool_def.name, tool_def)
        token = decided.set(None)
        try:
            await self.policy.decide(ctx, calls, definition, args)
            return await super().wrap_tool_execute(ctx, call=call, tool_def=tool_def, args=args, handler=handler)
        except ApprovalRequired as asks:
            # The policy asked, or the tool: its toolset, which verifies, or its own code.
            if not any(policy.asks for policy in (self.policy, *calls.above)):
                raise ToolFailed(f"Denied: {(asks.metadata or {}).get('reason') or NO_CALL_WAITS}") from asks
            raise self.policy.question(ctx, definition, args, decided.get(), asks) from asks
        finally:
            decided.reset(token)

    async def after_run(self, ctx: Ctx, *, result: AgentRunResult[object]) -> AgentRunResult[object]:
        """Close the calls that a final result left open, then call the hosted capabilities."""
        if not isinstance(result.output, DeferredToolRequests):
            close_open_calls(result.all_messages())
        return await super().after_run(ctx, result=result)


def is_capability(given: object) -> TypeGuard[AbstractCapability[Deps]]:
    """Whether an object is a capability, not a function that makes one."""
    return isinstance(given, AbstractCapability)


def leaves_of(capability: AbstractCapability[Deps]) -> list[AbstractCapability[Deps]]:
    """Return the capabilities inside a capability, outermost first; itself if it holds no others."""
    leaves: list[AbstractCapability[Deps]] = []
    capability.apply(leaves.append)
    return leaves


def is_innermost(capability: AbstractCapability[Deps]) -> bool:
    """Whether a capability asks for a place behind all others, as durable engines do."""
    return (capability.get_ordering() or CapabilityOrdering()).position == "innermost"


def approves(capability: AbstractCapability[Deps]) -> bool:
    """Whether a capability, or one that it wraps, could answer approval requests."""
    method = type(capability).handle_deferred_tool_calls
    if getattr(capability.handle_deferred_tool_calls, "__func__", None) is not method:
        return True  # the instance overrides the method
    for kind, inside in _HOLDERS:
        if isinstance(capability, kind) and method is kind.handle_deferred_tool_calls:
            return inside(capability)
    return method is not AbstractCapability.handle_deferred_tool_calls


_HOLDERS: list[tuple[type[Any], Callable[[Any], bool]]] = [
    (WrapperCapability, lambda holder: approves(holder.wrapped)),
    (CombinedCapability, lambda holder: any(map(approves, holder.capabilities))),
    (Hooks, lambda holder: has_handler(holder, "handle_deferred_tool_calls")),
]
"""What approves only if something in it does."""
