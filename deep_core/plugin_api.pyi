# The names of plugin_api.py as type checkers see them: at run time each is imported on first use.
from .agent.config import parse_agent_config
from .agent.policy.gates import PolicyCapability
from .agent.run.capability import AgentParts, DeepCapability
from .agent.run.history import last_live_texts, live_text
from .agent.tools.expressions import as_expression
from .agent.tools.rule_errors import UnmatchedExpression
from .agent.tools.toolsets import RESERVED_TOOL_NAMES, static_definitions
from .errors import describe_error, error_message, suggest
from .names import NAME, canonical
from .plugins.config import (
    Config,
    ConfigLayer,
    PluginSettings,
    find_project_file,
    read_file,
    restrict,
    trust,
    user_file,
)
from .plugins.dispatch import Incident
from .plugins.index import Candidate, origin_problem, scan, shield_pydantic, site_directories
from .plugins.load import explain_failure
from .plugins.options import is_trusted_only
from .plugins.registry import static_attribute
from .plugins.status import RESERVED_NAMES, FoundPlugins, candidate_from_object, entry_source, find_plugins

__all__ = [
    "NAME",
    "RESERVED_NAMES",
    "RESERVED_TOOL_NAMES",
    "AgentParts",
    "Candidate",
    "Config",
    "ConfigLayer",
    "DeepCapability",
    "FoundPlugins",
    "Incident",
    "PluginSettings",
    "PolicyCapability",
    "UnmatchedExpression",
    "as_expression",
    "candidate_from_object",
    "canonical",
    "describe_error",
    "entry_source",
    "error_message",
    "explain_failure",
    "find_plugins",
    "find_project_file",
    "is_trusted_only",
    "last_live_texts",
    "live_text",
    "origin_problem",
    "parse_agent_config",
    "read_file",
    "restrict",
    "scan",
    "shield_pydantic",
    "site_directories",
    "static_attribute",
    "static_definitions",
    "suggest",
    "trust",
    "user_file",
]
