"""The kernel of deep agents on Pydantic AI: it finds plugins, checks them, orders them and builds one agent.

Public names are loaded on first use, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .agent.config import AgentConfig
    from .agent.explain import Explanation, explain
    from .agent.kernel import Kernel, create_deep_agent
    from .agent.run.capability import agent_context
    from .agent.run.events import (
        ApprovalEvent,
        CompactionEvent,
        RequestEvent,
        RunEndEvent,
        RunEvent,
        RunStartEvent,
        ToolEvent,
    )
    from .agent.run.session import DeepAgentDeps, SessionState, create_default_deps
    from .agent.run.workspace import BackendProtocol, SandboxProtocol
    from .agent.tools.expressions import FromPlugin, Prefix, Tag, ToolExpression, ToolName
    from .errors import ConfigError, MissingExtra, PluginError, PluginWarning
    from .plugins.context import AgentContext
    from .plugins.contributions import (
        Allow,
        Ask,
        BackendFactory,
        Contribution,
        Deny,
        Processor,
        PromptSection,
        StateSlot,
        ToolCall,
        Without,
    )
    from .plugins.index import PluginRecord
    from .plugins.kernel import PluginKernel, default_kernel
    from .plugins.markers import hookimpl, hookspec
    from .plugins.options import PluginOptions
    from .plugins.skills import SkillLoader, SkillMeta
    from .tracing import Trace

__all__ = [
    "AgentConfig",
    "AgentContext",
    "Allow",
    "ApprovalEvent",
    "Ask",
    "BackendFactory",
    "BackendProtocol",
    "CompactionEvent",
    "ConfigError",
    "Contribution",
    "DeepAgentDeps",
    "Deny",
    "Explanation",
    "FromPlugin",
    "Kernel",
    "MissingExtra",
    "PluginError",
    "PluginKernel",
    "PluginOptions",
    "PluginRecord",
    "PluginWarning",
    "Prefix",
    "Processor",
    "PromptSection",
    "RequestEvent",
    "RunEndEvent",
    "RunEvent",
    "RunStartEvent",
    "SandboxProtocol",
    "SessionState",
    "SkillLoader",
    "SkillMeta",
    "StateSlot",
    "Tag",
    "ToolCall",
    "ToolEvent",
    "ToolExpression",
    "ToolName",
    "Trace",
    "Without",
    "agent_context",
    "create_deep_agent",
    "create_default_deps",
    "default_kernel",
    "explain",
    "hookimpl",
    "hookspec",
    "lazy_exports",
]

__getattr__, __dir__ = lazy_exports(__name__, {
    "agent.config": ["AgentConfig"],
    "agent.kernel": ["Kernel", "create_deep_agent"],
    "agent.run.capability": ["agent_context"],
    "plugins.context": ["AgentContext"],
    "plugins.contributions": [
        "Allow", "Ask", "BackendFactory", "Contribution", "Deny", "Processor", "PromptSection",
        "StateSlot", "ToolCall", "Without",
    ],
    "errors": ["ConfigError", "MissingExtra", "PluginError", "PluginWarning"],
    "agent.run.events": [
        "ApprovalEvent", "CompactionEvent", "RequestEvent", "RunEndEvent", "RunEvent", "RunStartEvent", "ToolEvent",
    ],
    "agent.explain": ["Explanation", "explain"],
    "agent.tools.expressions": ["FromPlugin", "Prefix", "Tag", "ToolExpression", "ToolName"],
    "plugins.index": ["PluginRecord"],
    "plugins.kernel": ["PluginKernel", "default_kernel"],
    "plugins.markers": ["hookimpl", "hookspec"],
    "plugins.options": ["PluginOptions"],
    "plugins.skills": ["SkillLoader", "SkillMeta"],
    "agent.run.session": ["DeepAgentDeps", "SessionState", "create_default_deps"],
    "tracing": ["Trace"],
    "agent.run.workspace": ["BackendProtocol", "SandboxProtocol"],
})  # fmt: skip
