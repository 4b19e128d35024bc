"""Vet the capabilities that plugins contribute, before an agent is made with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering

from ...errors import PluginError
from .gates import DeepBase, PolicyCapability, approves, leaves_of

__all__ = ["vet"]


def vet(capability: AbstractCapability[Any], label: str, *, approver: bool, native_tools: Iterable[str]) -> None:
    """Check one capability that a plugin returned, before an agent is made with it.

    Raises:
        PluginError: it takes a reserved id, could approve calls, or adds a native tool that nobody named.
    """
    for leaf in (capability, *leaves_of(capability)):
        name = type(leaf).__name__
        if leaf.id in ("deep", "deep.policy"):
            raise PluginError(f"{label}: capability {name} takes the id {leaf.id!r}, which is the kernel's own")
        ordering = leaf.get_ordering() or CapabilityOrdering()
        if any(isinstance(ref, type) and issubclass(PolicyCapability, ref) for ref in ordering.wraps):
            raise PluginError(f"{label}: capability {name} asks to stand outside the policy; nothing does")
        behind = any(isinstance(ref, type) and issubclass(DeepBase, ref) for ref in ordering.wrapped_by)
        if behind or ordering.position == "innermost":
            raise PluginError(f"{label}: capability {name} asks to stand behind the kernel's last look at a request")
        if approves(leaf) and not approver:
            raise PluginError(
                f"{label}: capability {name} overrides handle_deferred_tool_calls, so it could approve calls. If it "
                "should, name the plugin: create_deep_agent(approvers=[…]) or approvers in [agent]."
            )
        for tool in leaf.get_native_tools():
            kind = getattr(tool, "kind", None)
            if kind is not None and kind not in native_tools:
                raise PluginError(
                    f"{label}: capability {name} adds the provider's own tool {kind!r}, which runs where no policy "
                    f"gates it. To allow it: native_tools = [{kind!r}] in [agent] or create_deep_agent."
                )
