"""Host small capabilities: the outer gate calls them, not Pydantic AI one by one.

Pydantic AI copies the run's context for every capability at each of its hooks, used or not: 33 copies for a turn of
three calls, which are 3 % of a turn of a bare agent. Most capabilities use one hook or two. A hosted capability
is called only at those, at the same place in the chain, with the same context (docs/decisions/0010).
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability, CombinedCapability

if TYPE_CHECKING:
    from pydantic_ai import RunContext

_RUN_HOOKS = ("before_run", "after_run", "after_node_run", "before_model_request", "after_model_request")
HOOKS = (*_RUN_HOOKS, "before_tool_execute", "after_tool_execute", "wrap_tool_execute", "get_wrapper_model")
"""What a hosted capability may implement. One that implements another hook stands beside the kernel's own."""
PLAIN = {*HOOKS, "id", "description", "defer_loading", "get_serialization_name"}


def hostable(capability: AbstractCapability[Any]) -> bool:
    """Whether a capability implements nothing but `HOOKS`, in its class or on the instance."""
    classes = [cls for cls in type(capability).__mro__ if cls not in AbstractCapability.__mro__]
    own = {name for cls in classes for name in vars(cls)} | {*vars(capability)}
    changed = {name for name in own & {*dir(AbstractCapability)} if not name.startswith(("__", "_abc_"))}
    return changed <= PLAIN and capability.defer_loading is not True


class PassingEvents(AbstractCapability[Any]):
    """A capability that leaves event streams alone. Pydantic AI's default is a generator that passes each event on."""

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """False: otherwise every request would stream."""
        return False

    def wrap_run_event_stream(self, ctx: RunContext[Any], *, stream: AsyncIterable[Any]) -> AsyncIterable[Any]:
        """Return the stream itself."""
        return stream


@dataclass(eq=False, repr=False)
class HostingCapability(PassingEvents):
    """A capability that calls those that it hosts, each at the hooks that it implements.

    Attributes:
        hosted: outermost first.
    """

    hosted: tuple[AbstractCapability[Any], ...] = ()

    def __post_init__(self) -> None:
        own = {hook: [each for each in self.hosted if _implements(each, hook)] for hook in HOOKS}
        self._by_hook = {hook: _dispatcher(found) for hook, found in own.items()}


def _dispatcher(capabilities: list[AbstractCapability[Any]]) -> AbstractCapability[Any]:
    """Return Pydantic AI's own dispatch. Capabilities that emit no events need no copies of the context."""
    if not all(getattr(each, "shares_context", False) for each in capabilities):
        return CombinedCapability[Any](capabilities)
    return capabilities[0] if len(capabilities) == 1 else _SharedContext(capabilities)


class _SharedContext(CombinedCapability[Any]):
    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, args: dict[str, Any], handler: Callable[[Any], Awaitable[Any]], **about: Any
    ) -> Any:
        """Call each around the next, without the two copies of the context that Pydantic AI makes for each."""
        for each in reversed(self.capabilities):
            handler = _around(each, handler, ctx, about)
        return await handler(args)


def _around(
    capability: AbstractCapability[Any], handler: Callable[[Any], Awaitable[Any]], ctx: RunContext[Any], about: Any
) -> Callable[[Any], Awaitable[Any]]:
    return lambda args: capability.wrap_tool_execute(ctx, args=args, handler=handler, **about)


def _forward(hook: str) -> Callable[..., Any]:
    # Not async: an async hook's coroutine passes through, and `get_wrapper_model` returns no coroutine.
    def call_hosted(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._by_hook[hook], hook)(*args, **kwargs)

    return call_hosted


for _hook in HOOKS:
    setattr(HostingCapability, _hook, _forward(_hook))


def _implements(capability: AbstractCapability[Any], hook: str) -> bool:
    return getattr(type(capability), hook) is not getattr(AbstractCapability, hook) or hook in vars(capability)
