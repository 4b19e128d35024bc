"""The kernel of deep agents on Pydantic AI: it finds plugins, checks them, orders them and builds one agent.

Public names are loaded on first use, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .agent_config import AgentConfig
    from .errors import ConfigError, MissingExtra, PluginError, PluginWarning
    from .events import RunEvent
    from .explain import Explanation
    from .expressions import FromPlugin, Prefix, Tag, ToolExpression, ToolName
    from .plugins.context import AgentContext, agent_context
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
    from .plugins.kernel import Kernel, create_deep_agent
    from .plugins.markers import hookimpl, hookspec
    from .plugins.options import PluginOptions
    from .plugins.skills import SkillLoader, SkillMeta
    from .state import DeepAgentDeps, SessionState, create_default_deps
    from .tracing import Trace
    from .workspace import BackendProtocol, SandboxProtocol

__all__ = [
    "AgentConfig",
    "AgentContext",
    "Allow",
    "Ask",
    "BackendFactory",
    "BackendProtocol",
    "ConfigError",
    "Contribution",
    "DeepAgentDeps",
    "Deny",
    "Explanation",
    "FromPlugin",
    "Kernel",
    "MissingExtra",
    "PluginError",
    "PluginOptions",
    "PluginRecord",
    "PluginWarning",
    "Prefix",
    "Processor",
    "PromptSection",
    "RunEvent",
    "SandboxProtocol",
    "SessionState",
    "SkillLoader",
    "SkillMeta",
    "StateSlot",
    "Tag",
    "ToolCall",
    "ToolExpression",
    "ToolName",
    "Trace",
    "Without",
    "agent_context",
    "create_deep_agent",
    "create_default_deps",
    "hookimpl",
    "hookspec",
    "lazy_exports",
]

__getattr__, __dir__ = lazy_exports(__name__, {
    "agent_config": ["AgentConfig"],
    "plugins.context": ["AgentContext", "agent_context"],
    "plugins.contributions": [
        "Allow", "Ask", "BackendFactory", "Contribution", "Deny", "Processor", "PromptSection",
        "StateSlot", "ToolCall", "Without",
    ],
    "errors": ["ConfigError", "MissingExtra", "PluginError", "PluginWarning"],
    "events": ["RunEvent"],
    "explain": ["Explanation"],
    "expressions": ["FromPlugin", "Prefix", "Tag", "ToolExpression", "ToolName"],
    "plugins.index": ["PluginRecord"],
    "plugins.kernel": ["Kernel", "create_deep_agent"],
    "plugins.markers": ["hookimpl", "hookspec"],
    "plugins.options": ["PluginOptions"],
    "plugins.skills": ["SkillLoader", "SkillMeta"],
    "state": ["DeepAgentDeps", "SessionState", "create_default_deps"],
    "tracing": ["Trace"],
    "workspace": ["BackendProtocol", "SandboxProtocol"],
})  # fmt: skip
