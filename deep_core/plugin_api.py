"""What tools for plugins may import beyond the names of `deep_core`: installers, test suites, command lines.

Plugins that only contribute to agents need `deep_core` alone. Every other module of the kernel is private;
`tests/test_layers.py` holds this project's own plugins to these two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import lazy_exports

if TYPE_CHECKING:
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

__getattr__, __dir__ = lazy_exports(__name__, {
    "agent.config": ["parse_agent_config"],
    "agent.policy.gates": ["PolicyCapability"],
    "agent.run.capability": ["AgentParts", "DeepCapability"],
    "agent.run.history": ["last_live_texts", "live_text"],
    "agent.tools.expressions": ["as_expression"],
    "agent.tools.rule_errors": ["UnmatchedExpression"],
    "agent.tools.toolsets": ["RESERVED_TOOL_NAMES", "static_definitions"],
    "errors": ["describe_error", "error_message", "suggest"],
    "names": ["NAME", "canonical"],
    "plugins.config": [
        "Config", "ConfigLayer", "PluginSettings", "find_project_file", "read_file", "restrict", "trust", "user_file",
    ],
    "plugins.dispatch": ["Incident"],
    "plugins.index": ["Candidate", "origin_problem", "scan", "shield_pydantic", "site_directories"],
    "plugins.load": ["explain_failure"],
    "plugins.options": ["is_trusted_only"],
    "plugins.registry": ["static_attribute"],
    "plugins.status": ["RESERVED_NAMES", "FoundPlugins", "candidate_from_object", "entry_source", "find_plugins"],
})  # fmt: skip
