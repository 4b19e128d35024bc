"""Host small capabilities: the outer gate calls them, not Pydantic AI one by one.

Pydantic AI copies the run's context for every capability at each of its hooks, used or not: 33 copies for a turn of
three calls, which are 3 % of a turn of a bare agent. Most capabilities use one hook or two. A hosted capability
is called only at those, at the same place in the chain, with the same context (docs/decisions/0010).
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic_ai.capabilities import AbstractCapability, CombinedCapability

from .session import Deps

if TYPE_CHECKING:
    from pydantic_ai import ToolDefinition
    from pydantic_ai.capabilities.abstract import AgentNode, NodeResult, WrapToolExecuteHandler
    from pydantic_ai.messages import AgentStreamEvent, ModelResponse, ToolCallPart
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.run import AgentRunResult

    from .session import Args, Ctx

_RUN_HOOKS = ("before_run", "after_run", "after_node_run", "before_model_request", "after_model_request")
HOOKS = (*_RUN_HOOKS, "before_tool_execute", "after_tool_execute", "wrap_tool_execute", "get_wrapper_model")
"""What a hosted capability may implement. One that implements another hook stands beside the kernel's own."""
PLAIN = {*HOOKS, "id", "description", "defer_loading", "get_serialization_name"}


def hostable(capability: AbstractCapability[Deps]) -> bool:
    """Whether a capability implements nothing but `HOOKS`, in its class or on the instance."""
    classes = [cls for cls in type(capability).__mro__ if cls not in AbstractCapability.__mro__]
    own = {name for cls in classes for name in vars(cls)} | {*vars(capability)}
    changed = {name for name in own & {*dir(AbstractCapability)} if not name.startswith(("__", "_abc_"))}
    return changed <= PLAIN and capability.defer_loading is not True


class PassingEvents(AbstractCapability[Deps]):
    """A capability that leaves event streams alone. Pydantic AI's default is a generator that passes each event on."""

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """False: otherwise every request would stream."""
        return False

    def wrap_run_event_stream(
        self, ctx: Ctx, *, stream: AsyncIterable[AgentStreamEvent]
    ) -> AsyncIterable[AgentStreamEvent]:
        """Return the stream itself."""
        return stream


@dataclass(eq=False, repr=False)
class HostingCapability(PassingEvents):
    """A capability that calls those that it hosts, each at the hooks that it implements.

    Attributes:
        hosted: outermost first.
    """

    hosted: tuple[AbstractCapability[Deps], ...] = ()

    def __post_init__(self) -> None:
        own = {hook: [each for each in self.hosted if _implements(each, hook)] for hook in HOOKS}
        self._at = {hook: _dispatcher(found) for hook, found in own.items()}

    async def before_run(self, ctx: Ctx) -> None:
        """Call the hosted capabilities."""
        await self._at["before_run"].before_run(ctx)

    async def after_run(self, ctx: Ctx, *, result: AgentRunResult[object]) -> AgentRunResult[object]:
        """Call the hosted capabilities."""
        return await self._at["after_run"].after_run(ctx, result=result)

    async def after_node_run(self, ctx: Ctx, *, node: AgentNode[Deps], result: NodeResult[Deps]) -> NodeResult[Deps]:
        """Call the hosted capabilities."""
        return await self._at["after_node_run"].after_node_run(ctx, node=node, result=result)

    async def before_model_request(self, ctx: Ctx, request_context: ModelRequestContext) -> ModelRequestContext:
        """Call the hosted capabilities."""
        return await self._at["before_model_request"].before_model_request(ctx, request_context)

    async def after_model_request(
        self, ctx: Ctx, *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Call the hosted capabilities."""
        hosted = self._at["after_model_request"]
        return await hosted.after_model_request(ctx, request_context=request_context, response=response)

    async def before_tool_execute(self, ctx: Ctx, *, call: ToolCallPart, tool_def: ToolDefinition, args: Args) -> Args:
        """Call the hosted capabilities."""
        return await self._at["before_tool_execute"].before_tool_execute(ctx, call=call, tool_def=tool_def, args=args)

    async def after_tool_execute(
        self, ctx: Ctx, *, call: ToolCallPart, tool_def: ToolDefinition, args: Args, result: object
    ) -> object:
        """Call the hosted capabilities."""
        hosted = self._at["after_tool_execute"]
        return await hosted.after_tool_execute(ctx, call=call, tool_def=tool_def, args=args, result=result)

    async def wrap_tool_execute(
        self, ctx: Ctx, *, call: ToolCallPart, tool_def: ToolDefinition, args: Args, handler: WrapToolExecuteHandler
    ) -> object:
        """Call the hosted capabilities."""
        hosted = self._at["wrap_tool_execute"]
        return await hosted.wrap_tool_execute(ctx, call=call, tool_def=tool_def, args=args, handler=handler)

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Call the hosted capabilities."""
        return self._at["get_wrapper_model"].get_wrapper_model(model)


def _dispatcher(capabilities: list[AbstractCapability[Deps]]) -> AbstractCapability[Deps]:
    """Return Pydantic AI's own dispatch. Capabilities that emit no events need no copies of the context."""
    if not all(getattr(each, "shares_context", False) for each in capabilities):
        return CombinedCapability[Deps](capabilities)
    return capabilities[0] if len(capabilities) == 1 else _SharedContext(capabilities)


class _SharedContext(CombinedCapability[Deps]):
    async def wrap_tool_execute(
        self, ctx: Ctx, *, call: ToolCallPart, tool_def: ToolDefinition, args: Args, handler: WrapToolExecuteHandler
    ) -> object:
        """Call each around the next, without the two copies of the context that Pydantic AI makes for each."""
        for each in reversed(self.capabilities):
            handler = _around(each, handler, ctx, call, tool_def)
        return await handler(args)


def _around(
    capability: AbstractCapability[Deps],
    handler: WrapToolExecuteHandler,
    ctx: Ctx,
    call: ToolCallPart,
    tool_def: ToolDefinition,
) -> Callable[[Args], Awaitable[object]]:
    return lambda args: capability.wrap_tool_execute(ctx, call=call, tool_def=tool_def, args=args, handler=handler)


def _implements(capability: AbstractCapability[Deps], hook: str) -> bool:
    return getattr(type(capability), hook) is not getattr(AbstractCapability, hook) or hook in vars(capability)
