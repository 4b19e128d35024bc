# The names of plugin_api.py as type checkers see them: at run time each is imported on first use.
from entry_point_index import absolute_path, canonical, find_program, site_directories
from tool_expressions import (
    ACCEPT_EDITS,
    EVERY_CALL,
    And,
    ExpressionParseError,
    Not,
    Or,
    Reason,
    ReasonKind,
    UnmatchedExpression,
    are_answered,
    as_expression,
    call_ids,
    call_path,
    reasons_of,
    words_of,
)

from .agent.config import agent_values, ignored_keys, read_agent_config, restricted_layers
from .agent.plan import Plan
from .agent.policy.gates import PolicyCapability, approves
from .agent.run.capability import DeepCapability
from .agent.run.history import last_live_texts, live_text
from .agent.tools.toolsets import RESERVED_TOOL_NAMES, OfferedWhile, static_definitions
from .errors import describe_error, error_message, suggest
from .names import NAME, folder_name, visible
from .parameters import RESERVED_NAMES
from .plugins.config import Config, ConfigLayer, restrict
from .plugins.config_file import ConfigFile, project_files, user_file
from .plugins.dispatch import Incident
from .plugins.index import Candidate, origin_problem, scan, shield_pydantic
from .plugins.load import explain_failure
from .plugins.options import NARROWER, field_docs, project_mark, validate_options
from .plugins.registry import static_attribute
from .plugins.settings import SETTINGS, PluginSettings
from .plugins.status import FoundPlugins, candidate_from_object, entry_source, find_plugins

__all__ = [
    "ACCEPT_EDITS",
    "EVERY_CALL",
    "NAME",
    "NARROWER",
    "RESERVED_NAMES",
    "RESERVED_TOOL_NAMES",
    "SETTINGS",
    "And",
    "Candidate",
    "Config",
    "ConfigFile",
    "ConfigLayer",
    "DeepCapability",
    "ExpressionParseError",
    "FoundPlugins",
    "Incident",
    "Not",
    "OfferedWhile",
    "Or",
    "Plan",
    "PluginSettings",
    "PolicyCapability",
    "Reason",
    "ReasonKind",
    "UnmatchedExpression",
    "absolute_path",
    "agent_values",
    "approves",
    "are_answered",
    "as_expression",
    "call_ids",
    "call_path",
    "candidate_from_object",
    "canonical",
    "describe_error",
    "entry_source",
    "error_message",
    "explain_failure",
    "field_docs",
    "find_plugins",
    "find_program",
    "folder_name",
    "ignored_keys",
    "last_live_texts",
    "live_text",
    "origin_problem",
    "project_files",
    "project_mark",
    "read_agent_config",
    "reasons_of",
    "restrict",
    "restricted_layers",
    "scan",
    "shield_pydantic",
    "site_directories",
    "static_attribute",
    "static_definitions",
    "suggest",
    "user_file",
    "validate_options",
    "visible",
    "words_of",
]
