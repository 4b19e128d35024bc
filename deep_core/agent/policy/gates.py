"""The gates: the capability and the toolsets that apply the policy, outside and inside all other capabilities.

`deep.policy` is outermost and decides on every call before any other capability sees it. `InnerGate`, inside everything
that others wrap around the tools, decides again, and so does the tool itself (`tools.PluginToolset`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic_ai import ToolDefinition, UserPromptNode
from pydantic_ai.capabilities import (
    AbstractCapability,
    CapabilityOrdering,
    CombinedCapability,
    HandleDeferredToolCalls,
    Hooks,
    WrapperCapability,
)
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed, UserError
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import DeferredToolRequests, RunContext
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import ValidationError
from tool_expressions import attributed_facts, tool_facts

from .._pydantic_ai import PendingMessageDrainCapability, ToolSearchToolset, has_handler
from ..run.hosting import HostingCapability
from ..run.session import SessionState, session
from ..tools.toolsets import ToolRules
from .approvals import (
    RUNS,
    RunCalls,
    args_as_json,
    calls_of,
    close_open_calls,
    digest_args,
    note_decisions,
    remember_question,
)
from .budget import release_request, reserve_request
from .rules import NO_CALL_WAITS, Policy, admitted_call

RAW_SETTINGS = ("extra_body", "bedrock_additional_model_requests_fields")
"""Model settings with raw fields of the provider's request."""
RAW_FIELDS = ("tools", "mcp_servers", "plugins", "search_parameters", "web_search_options")
"""Raw fields that let a provider run tools."""


@dataclass(eq=False, repr=False)
class NativeTools:
    """The provider's native tools that a request may carry. No gate sees their calls, so the user must name them.

    Attributes:
        named: the kinds that configuration or code names.
        refused: called with each kind that was removed.
    """

    named: frozenset[str]
    refused: Callable[[str], None]

    def filter(self, request: ModelRequestContext) -> None:
        """Remove native tools that are not named. `tool_search` may stay: it finds tools whose calls are gated."""
        parameters, settings = request.model_request_parameters, request.model_settings
        if parameters.native_tools:
            kept = [tool for tool in parameters.native_tools if tool.kind == "tool_search" or self._allows(tool.kind)]
            if len(kept) < len(parameters.native_tools):
                request.model_request_parameters = replace(parameters, native_tools=kept)
        if settings and not settings.keys().isdisjoint(("openai_native_tools", *RAW_SETTINGS)):
            request.model_settings = cast("ModelSettings", dict(self.kept_settings(settings)))

    def kept_settings(self, settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield model settings without the native tools that are not named."""
        for key, value in settings.items():
            if key == "openai_native_tools":
                yield key, self._named(value)
            elif key in RAW_SETTINGS and isinstance(value, Mapping):
                fields = cast("Mapping[str, Any]", value)
                kept = {name: self._named(item) if name == "tools" else item for name, item in fields.items()}
                yield key, {name: kept[name] for name in kept if kept[name] != [] and self._keeps(name)}
            else:
                yield key, value

    def _keeps(self, field: str) -> bool:
        return field == "tools" or field not in RAW_FIELDS or self._allows(field)

    def _named(self, tools: Iterable[Mapping[str, Any]]) -> list[Any]:
        return [tool for tool in tools if self._allows(str(tool.get("type") or next(iter(tool), "")))]

    def _allows(self, kind: str) -> bool:
        if kind not in self.named:
            self.refused(kind)
        return kind in self.named


@dataclass(eq=False, repr=False)
class Attributing(WrapperToolset[Any]):
    """Attributes a run's tools that no plugin's toolset listed: of capabilities, of one run, of plain agents."""

    policy: Policy
    owners: Mapping[str, str] = field(default_factory=dict[str, str])
    """Capability id -> the plugin that contributed it."""
    foreign: ToolRules = field(default_factory=ToolRules)
    _foreign: set[str] = field(default_factory=set[str])
    """The names that were attributed here; each run has its own instance."""

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return all tools, attributed."""
        tools, own = await self.wrapped.get_tools(ctx), calls_of(ctx).own
        # Most are listed as a plugin's toolset attributed them: this runs for every tool and request.
        return {
            name: tool if tool.tool_def is own.get(name) else self._attributed(name, tool, own)
            for name, tool in tools.items()
        }

    def _attributed(self, name: str, tool: ToolsetTool[Any], own: dict[str, ToolDefinition]) -> ToolsetTool[Any]:
        definition = tool.tool_def
        facts = attributed_facts(definition)
        if facts is not None and facts.name in own and attributed_facts(own[facts.name]) is facts:
            return tool  # attributed before, and changed by another capability
        if name not in own or name in self._foreign:
            self._foreign.add(name)
            plugin = self.owners.get(definition.capability_id or "", "app")
            own[name] = self.foreign.attribute(plugin, definition, searches=self._is_search(tool))
        return replace(tool, tool_def=own[name])

    def _is_search(self, tool: ToolsetTool[Any]) -> bool:
        """Whether a tool is Pydantic AI's own search, whose toolset wraps all others."""
        toolset = self.wrapped
        while isinstance(toolset, WrapperToolset):
            if type(toolset) is ToolSearchToolset and toolset is tool.toolset:
                return True
            toolset = cast("AbstractToolset[Any]", toolset.wrapped)
        return False


@dataclass(eq=False, repr=False)
class InnerGate(Attributing):
    """Attributes and gates all function tools of a run, inside everything that capabilities wrap around them."""

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return all tools except deferred ones that the filter hides: the tool search is outside of this toolset."""
        tools = await super().get_tools(ctx)
        if not self.policy.shown:
            return tools
        later = {name: tool.tool_def for name, tool in tools.items() if tool.tool_def.defer_loading}
        hidden = {name: definition for name, definition in later.items() if not self.policy.shows(definition)}
        self.policy.seen(("", "on demand"), [*hidden.values()])  # rules may name them
        return {name: tool for name, tool in tools.items() if name not in hidden}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Gate the call with the arguments that arrive here."""
        calls = calls_of(ctx)
        admission = await self.policy.admit(ctx, calls, calls.own.get(name, tool.tool_def), tool_args)
        if admission is not None and name in self._foreign:
            admission.used = True  # these tools have no further gate inside, unlike plugins' toolsets
        return await self.wrapped.call_tool(name, tool_args, ctx, tool)


@dataclass(eq=False, repr=False)
class ShownToolset(Attributing):
    """Filters a run's function tools, and attributes those that appear only outside of `InnerGate`."""

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools that the filter selects."""
        tools, known = await self.wrapped.get_tools(ctx), calls_of(ctx).own
        late = [name for name in tools if name not in known or name in self._foreign]
        if late:
            tools = {**tools, **{name: self._attributed(name, tools[name], known) for name in late}}
        if not self.policy.shown and self.policy.is_checked:
            return tools
        own = [known.get(name, tool.tool_def) for name, tool in tools.items()]
        self.policy.check_listed(own)
        return {name: tool for (name, tool), mine in zip(tools.items(), own, strict=True) if self.policy.shows(mine)}


@dataclass(eq=False, repr=False)
class PolicyCapability(HostingCapability, PendingMessageDrainCapability):
    """The outer gate: first in the chain, around every other capability. It hosts those that come next."""

    policy: Policy = field(default_factory=Policy)
    approvers: tuple[AbstractCapability[Any], ...] = ()
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

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]) -> Any:
        """Vet the capabilities that this run added, before any other hook runs."""
        self._vet_run(ctx)
        state = session(ctx).state
        runs = state[RUNS]
        runs[ctx.run_id or ""] = RunCalls(self.policy, self._above(state.parent))
        try:
            return await handler()
        finally:
            release_request(ctx)
            del runs[ctx.run_id or ""]

    def _above(self, caller: SessionState | None) -> tuple[Policy, ...]:
        """Return the policies of the callers that this agent's policy does not include."""
        calls = next(iter(caller[RUNS].values()), None) if caller is not None else None  # a session has one run
        if calls is None:
            return ()
        included = calls.policy is self.policy or calls.policy is self.policy.parent
        return calls.above if included else (calls.policy, *calls.above)

    async def before_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> Any:
        """Count the request for all agents of the session, before any other hook, and add enqueued messages."""
        reserve_request(ctx)
        request_context = await super().before_model_request(ctx, request_context)
        # After the hosted capabilities: what they enqueue goes out with this request.
        return await PendingMessageDrainCapability.before_model_request(self, ctx, request_context)

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Report a request once: when every other hook has accepted the answer of its last attempt."""
        response = await super().after_model_request(ctx, request_context=request_context, response=response)
        release_request(ctx)
        used = {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
        await self.policy.emit("RequestEvent", ctx, model=response.model_name or "", **used)
        return response

    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:
        """Record a person's decisions on waiting calls, before any other hook can forge them."""
        if isinstance(node, UserPromptNode) and node.deferred_tool_results is not None:
            note_decisions(ctx, node.deferred_tool_results)
        return cast("Any", node)

    async def handle_deferred_tool_calls(self, ctx: RunContext[Any], *, requests: DeferredToolRequests) -> None:
        """Answer nothing. First in the chain: vet again, in case an approver appeared after the start of the run."""
        self._vet_run(ctx)
        if self.approvers:
            calls_of(ctx).handed.update({call.tool_call_id: args_as_json(call.args) for call in requests.approvals})

    async def wrap_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        handler: Callable[[str | dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Note what a named approver wrote, before any other hook can change it; truncate errors."""
        calls = calls_of(ctx)
        if ctx.tool_call_approved and (asked := calls.handed.pop(call.tool_call_id, None)) is not None:
            given = args_as_json(call.args)
            calls.answers[call.tool_call_id] = None if given == asked else given
        try:
            return await handler(args)
        except ValidationError as error:
            from .validation_errors import truncate_errors

            raise truncate_errors(error) from error

    def _vet_run(self, ctx: RunContext[Any]) -> None:
        root = ctx.root_capability
        if root is None:
            return
        for leaf in leaves_of(root):
            if leaf is not self and approves(leaf) and not self._named(leaf):
                raise UserError(
                    f"capability {type(leaf).__name__} could approve tool calls in this run, and nobody named it as an "
                    "approver. Pass it to create_deep_agent(capabilities=[…]), or name its plugin in approvers=[…]."
                )

    def _named(self, leaf: AbstractCapability[Any]) -> bool:
        # By identity, or by id and class if `for_run` created an instance for this run.
        return any(
            leaf is known or (leaf.id is not None and leaf.id == known.id and type(leaf) is type(known))
            for known in self.approvers
        )

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Wrap the run's tools in the filter."""
        return ShownToolset(toolset, self.policy, self.owners)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Decide before any capability inside can answer."""
        calls = calls_of(ctx)
        definition = calls.own.get(tool_def.name, tool_def)
        admission = await self.policy.admit(ctx, calls, definition, args, outer=True)
        token = None if admission is None else admitted_call.set(admission)
        try:
            return await super().wrap_tool_execute(ctx, call=call, tool_def=tool_def, args=args, handler=handler)
        except ApprovalRequired as asks:
            # A gate inside, or the tool itself, asked.
            if not any(policy.asks for policy in (self.policy, *calls.above)):
                raise ToolFailed(f"Denied: {(asks.metadata or {}).get('reason') or NO_CALL_WAITS}") from asks
            asked = admission.asked if admission is not None else ()
            remember_question(ctx, tool_facts(definition).key, [digest_args(args), *asked])
            raise
        finally:
            if token is not None:
                admitted_call.reset(token)

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Close the calls that a final result left open, then call the hosted capabilities."""
        if not isinstance(result.output, DeferredToolRequests):
            close_open_calls(result.all_messages())
        return await super().after_run(ctx, result=result)


def kinds_in(settings: object) -> frozenset[str]:
    """Return the kinds of native tools in model settings; none in a function that returns settings."""
    kinds: set[str] = set()
    if isinstance(settings, Mapping):
        dict(NativeTools(frozenset(), kinds.add).kept_settings(cast("Mapping[str, Any]", settings)))
    return frozenset(kinds)


def leaves_of(capability: AbstractCapability[Any]) -> list[AbstractCapability[Any]]:
    """Return the capabilities inside a capability, outermost first; itself if it holds no others."""
    leaves: list[AbstractCapability[Any]] = []
    capability.apply(leaves.append)
    return leaves


def is_innermost(capability: AbstractCapability[Any]) -> bool:
    """Whether a capability asks for a place behind all others, as durable engines do."""
    return (capability.get_ordering() or CapabilityOrdering()).position == "innermost"


def approves(capability: AbstractCapability[Any]) -> bool:
    """Whether a capability, or one that it wraps, could answer approval requests."""
    method = type(capability).handle_deferred_tool_calls
    if getattr(capability.handle_deferred_tool_calls, "__func__", None) is not method:
        return True  # the instance overrides the method
    if method is AbstractCapability.handle_deferred_tool_calls:
        return False
    if isinstance(capability, HandleDeferredToolCalls):
        return True
    if method is WrapperCapability.handle_deferred_tool_calls:
        return approves(cast("WrapperCapability[Any]", capability).wrapped)
    if method is CombinedCapability.handle_deferred_tool_calls:
        return any(approves(child) for child in cast("CombinedCapability[Any]", capability).capabilities)
    if method is Hooks.handle_deferred_tool_calls:
        return has_handler(cast("Hooks[Any]", capability), "handle_deferred_tool_calls")
    return True
