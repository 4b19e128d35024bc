"""The kernel of deep agents on Pydantic AI: it finds plugins, checks them, orders them and builds one agent.

Public names are loaded on first use, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .agent_config import AgentConfig
    from .context import AgentContext, agent_context
    from .contributions import (
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
    from .errors import ConfigError, MissingExtra, PluginError, PluginWarning
    from .events import RunEvent
    from .explain import Explanation
    from .expressions import FromPlugin, Prefix, Tag, ToolExpression, ToolName
    from .index import PluginRecord
    from .kernel import Kernel, create_deep_agent
    from .markers import hookimpl, hookspec
    from .plugin_options import PluginOptions
    from .skills import SkillLoader, SkillMeta
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
    "context": ["AgentContext", "agent_context"],
    "contributions": [
        "Allow", "Ask", "BackendFactory", "Contribution", "Deny", "Processor", "PromptSection",
        "StateSlot", "ToolCall", "Without",
    ],
    "errors": ["ConfigError", "MissingExtra", "PluginError", "PluginWarning"],
    "events": ["RunEvent"],
    "explain": ["Explanation"],
    "expressions": ["FromPlugin", "Prefix", "Tag", "ToolExpression", "ToolName"],
    "index": ["PluginRecord"],
    "kernel": ["Kernel", "create_deep_agent"],
    "markers": ["hookimpl", "hookspec"],
    "plugin_options": ["PluginOptions"],
    "skills": ["SkillLoader", "SkillMeta"],
    "state": ["DeepAgentDeps", "SessionState", "create_default_deps"],
    "tracing": ["Trace"],
    "workspace": ["BackendProtocol", "SandboxProtocol"],
})  # fmt: skip
