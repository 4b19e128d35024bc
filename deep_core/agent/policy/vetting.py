"""Vet the capabilities that plugins contribute, before the kernel creates an agent with them."""

from __future__ import annotations

from collections.abc import Collection

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering

from ...errors import PluginError
from ..run.capability import AttemptCapability
from ..run.session import Deps
from .gates import PolicyCapability, approves, is_innermost, leaves_of


def vet(
    capability: AbstractCapability[Deps], label: str, native_tools: Collection[str], rights: Collection[str] = ()
) -> None:
    """Check one capability that a plugin returned.

    Args:
        capability: the capability.
        label: the plugin, for errors.
        native_tools: the kinds of native tools that the user named.
        rights: the lists that name the plugin: `approvers`, `innermost`.

    Raises:
        PluginError: it takes a reserved id or place, could approve calls, or adds a native tool, and the user has not
            named it.
    """
    for leaf in (capability, *leaves_of(capability)):
        name = type(leaf).__name__
        if leaf.id in ("deep", "deep.policy"):
            raise PluginError(f"{label}: capability {name} uses the id {leaf.id!r}, which the kernel reserves")
        _vet_place(leaf, label, "innermost" in rights)
        if approves(leaf) and "approvers" not in rights:
            raise PluginError(
                f"{label}: capability {name} overrides handle_deferred_tool_calls, so it could approve calls. To allow "
                "it, name the plugin: create_deep_agent(approvers=[…]) or approvers in [agent]."
            )
        for tool in leaf.get_native_tools():
            kind = getattr(tool, "kind", None)
            if kind is not None and kind not in native_tools:
                raise PluginError(
                    f"{label}: capability {name} adds the provider's native tool {kind!r}, which no policy can gate. "
                    f"To allow it: native_tools = [{kind!r}] in [agent] or create_deep_agent."
                )


def _vet_place(leaf: AbstractCapability[Deps], label: str, may_be_innermost: bool) -> None:
    ordering, name = leaf.get_ordering() or CapabilityOrdering(), type(leaf).__name__
    if any(isinstance(ref, type) and issubclass(PolicyCapability, ref) for ref in ordering.wraps):
        raise PluginError(f"{label}: capability {name} asks for a place outside the policy; none is allowed there")
    behind = any(isinstance(ref, type) and issubclass(AttemptCapability, ref) for ref in ordering.wrapped_by)
    if (behind or is_innermost(leaf)) and not may_be_innermost:
        raise PluginError(
            f"{label}: capability {name} asks for a place behind the kernel's last check. To allow it, name the "
            "plugin: create_deep_agent(innermost=[…]) or innermost in [agent]."
        )
