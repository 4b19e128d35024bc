"""The kernel of deep agents on Pydantic AI: it finds plugins, checks them, orders them and builds one agent.

Public names are loaded on first use, so that importing this package costs next to nothing.
"""

from .lazy import lazy_exports

__version__ = "0.1.0"

HOMES = {
    "agent.config": ["AgentConfig"],
    "agent.context": ["AgentContext", "BackendContext", "BackendFactory"],
    "agent.kernel": ["Kernel", "create_deep_agent"],
    "agent.run.backend_protocols": [
        "BackendProtocol", "SandboxProtocol", "SupportsGuardedWrite", "SupportsProtect", "SupportsRangeRead",
        "SupportsRoute", "SupportsStreamWrite",
    ],
    "agent.run.capability": ["agent_context"],
    "plugins.context": ["PluginContext"],
    "plugins.contributions": [
        "Allow", "Ask", "Contribution", "Deny", "Processor", "StateSlot", "ToolCall", "Without",
    ],
    "errors": ["ConfigError", "MissingExtra", "PluginError", "PluginWarning"],
    "agent.run.events": [
        "ApprovalEvent", "CompactionEvent", "RequestEvent", "RetryEvent", "RunEndEvent", "RunEvent",
        "RunStartEvent", "ToolEvent",
    ],
    "agent.sections": ["PromptSection"],
    "agent.explain": ["Explanation", "explain"],
    "plugins.index": ["PluginRecord"],
    "plugins.kernel": ["PluginKernel", "default_kernel"],
    "plugins.markers": ["hookimpl", "hookspec"],
    "plugins.options": ["PluginOptions"],
    "plugins.skills": ["SkillLoader", "SkillMeta"],
    "agent.run.session": ["DeepAgentDeps", "SessionState", "SessionStates", "create_default_deps"],
    "parameters": ["AgentParameters", "SubagentParameters"],
    "tracing": ["Trace"],
}  # fmt: skip
"""Submodule -> the names that it holds; `__init__.pyi` has them for type checkers."""
OTHERS = {
    "tool_expressions": [
        "STANDARD_TAGS", "FromPlugin", "Prefix", "Tag", "TagNotSet", "TagSet", "ToolExpression", "ToolFacts",
        "ToolName", "tool_facts",
    ],
}  # fmt: skip
"""Package below the kernel -> those of its names that plugins import from here."""

__all__ = sorted(["lazy_exports", *(name for names in (*HOMES.values(), *OTHERS.values()) for name in names)])  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_exports(__name__, HOMES, OTHERS)
