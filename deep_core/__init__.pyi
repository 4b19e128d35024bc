# The names of __init__.py as type checkers see them: at run time each is imported on first use.
from tool_expressions import (
    STANDARD_TAGS,
    FromPlugin,
    Prefix,
    Tag,
    TagNotSet,
    TagSet,
    ToolExpression,
    ToolFacts,
    ToolName,
    tool_facts,
)

from .agent.config import AgentConfig
from .agent.context import AgentContext, BackendContext, BackendFactory
from .agent.explain import Explanation, explain
from .agent.kernel import Kernel, create_deep_agent
from .agent.run.backend_protocols import (
    BackendProtocol,
    SandboxProtocol,
    SupportsGuardedWrite,
    SupportsProtect,
    SupportsRangeRead,
    SupportsRoute,
    SupportsStreamWrite,
)
from .agent.run.capability import agent_context
from .agent.run.events import (
    ApprovalEvent,
    CompactionEvent,
    RequestEvent,
    RetryEvent,
    RunEndEvent,
    RunEvent,
    RunStartEvent,
    ToolEvent,
)
from .agent.run.session import DeepAgentDeps, SessionState, SessionStates, create_default_deps
from .agent.sections import PromptSection
from .errors import ConfigError, MissingExtra, PluginError, PluginWarning
from .lazy import lazy_exports as lazy_exports
from .parameters import AgentParameters, SubagentParameters
from .plugins.context import PluginContext
from .plugins.contributions import (
    Allow,
    Ask,
    Contribution,
    Deny,
    Processor,
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

__version__: str

__all__ = [
    "STANDARD_TAGS",
    "AgentConfig",
    "AgentContext",
    "AgentParameters",
    "Allow",
    "ApprovalEvent",
    "Ask",
    "BackendContext",
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
    "PluginContext",
    "PluginError",
    "PluginKernel",
    "PluginOptions",
    "PluginRecord",
    "PluginWarning",
    "Prefix",
    "Processor",
    "PromptSection",
    "RequestEvent",
    "RetryEvent",
    "RunEndEvent",
    "RunEvent",
    "RunStartEvent",
    "SandboxProtocol",
    "SessionState",
    "SessionStates",
    "SkillLoader",
    "SkillMeta",
    "StateSlot",
    "SubagentParameters",
    "SupportsGuardedWrite",
    "SupportsProtect",
    "SupportsRangeRead",
    "SupportsRoute",
    "SupportsStreamWrite",
    "Tag",
    "TagNotSet",
    "TagSet",
    "ToolCall",
    "ToolEvent",
    "ToolExpression",
    "ToolFacts",
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
    "tool_facts",
]
