"""What tools for plugins may import beyond the names of `deep_core`: installers, test suites, command lines.

Plugins that only contribute to agents need `deep_core` alone. Every other module of the kernel is private;
`tests/test_layers.py` holds this project's own plugins to these two.
"""

from .lazy import lazy_exports

HOMES = {
    "agent.config": ["agent_values", "ignored_keys", "read_agent_config", "restricted_layers"],
    "agent.plan": ["Plan"],
    "agent.policy.gates": ["PolicyCapability", "approves"],
    "agent.run.capability": ["DeepCapability"],
    "agent.run.history": ["last_live_texts", "live_text"],
    "agent.tools.toolsets": ["RESERVED_TOOL_NAMES", "OfferedWhile", "static_definitions"],
    "errors": ["describe_error", "error_message", "suggest"],
    "parameters": ["RESERVED_NAMES"],
    "names": ["NAME", "folder_name", "visible"],
    "plugins.config": ["Config", "ConfigLayer", "restrict"],
    "plugins.config_file": ["ConfigFile", "project_files", "user_file"],
    "plugins.dispatch": ["Incident"],
    "plugins.index": ["Candidate", "origin_problem", "scan", "shield_pydantic"],
    "plugins.load": ["explain_failure"],
    "plugins.options": ["NARROWER", "field_docs", "project_mark", "validate_options"],
    "plugins.registry": ["static_attribute"],
    "plugins.settings": ["SETTINGS", "PluginSettings"],
    "plugins.status": ["FoundPlugins", "candidate_from_object", "entry_source", "find_plugins"],
}  # fmt: skip
"""Submodule -> the names that it holds; `plugin_api.pyi` has them for type checkers."""
OTHERS = {
    "entry_point_index": ["absolute_path", "canonical", "find_program", "site_directories"],
    "tool_expressions": [
        "ACCEPT_EDITS", "EVERY_CALL", "And", "ExpressionParseError", "Not", "Or", "Reason", "ReasonKind",
        "UnmatchedExpression", "are_answered", "as_expression", "call_ids", "call_path", "reasons_of", "words_of",
    ],
}  # fmt: skip

__all__ = sorted([*(name for names in (*HOMES.values(), *OTHERS.values()) for name in names)])  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__, __dir__ = lazy_exports(__name__, HOMES, OTHERS)
