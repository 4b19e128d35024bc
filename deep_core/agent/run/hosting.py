"""Assemble, hosting: small capabilities of plugins, called from the outer gate and not by Pydantic AI one by one.

Pydantic AI copies the run's context for every capability at each of its hooks, used or not: some 45 copies a turn for
each, which is about 6 % of a turn of a bare agent. Most plugins' capabilities use one hook or two. Those are kept here
and only reached where they have something to do: at the same place in the chain, with the same context
(docs/decisions/0010).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic_ai.capabilities import AbstractCapability, CombinedCapability

__all__ = ["Hosted", "hostable"]

HOOKS = (
    "before_run",
    "after_run",
    "before_model_request",
    "after_model_request",
    "before_tool_execute",
    "after_tool_execute",
    "wrap_tool_execute",
)
"""What a hosted capability may implement. Whatever implements another stands beside the kernel's own."""
PLAIN = {*HOOKS, "id", "description", "defer_loading", "get_serialization_name"}


def hostable(capability: AbstractCapability[Any]) -> bool:
    """Whether a capability implements nothing but `HOOKS`, in its class or on the instance."""
    bases = AbstractCapability.__mro__
    own = {name for cls in type(capability).__mro__ if cls not in bases for name in vars(cls)} | {*vars(capability)}
    changed = {name for name in own & {*dir(AbstractCapability)} if not name.startswith(("__", "_abc_"))}
    return changed <= PLAIN and capability.defer_loading is not True


class Hosted:
    """Capabilities by the hooks that they implement.

    Attributes:
        capabilities: all of them, outermost first.
    """

    def __init__(self, capabilities: Sequence[AbstractCapability[Any]] = ()) -> None:
        self.capabilities = tuple(capabilities)
        self._by_hook: dict[str, CombinedCapability[Any]] = {}
        for hook in HOOKS:
            own = [capability for capability in capabilities if _implements(capability, hook)]
            if own:
                self._by_hook[hook] = CombinedCapability[Any](own)

    def of(self, hook: str) -> CombinedCapability[Any] | None:
        """Those that implement a hook, dispatched as Pydantic AI does it; None where none does."""
        return self._by_hook.get(hook)


def _implements(capability: AbstractCapability[Any], hook: str) -> bool:
    return getattr(type(capability), hook) is not getattr(AbstractCapability, hook) or hook in vars(capability)
