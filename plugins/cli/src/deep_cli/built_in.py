"""The built-in commands of `deep`, by name."""

from __future__ import annotations

__all__ = ["BUILT_IN", "LIGHT"]

BUILT_IN = {
    "run": ("commands.run:run", "Let the agent do one task on the current folder."),
    "chat": ("commands.chat:chat", "Talk with the agent about the current folder; it streams, asks and remembers."),
    "call": ("commands.call:call", "Run one tool of the agent, without a model: how to try a tool."),
    "plugins": ("commands.plugins:plugins", "The installed plugins and what became of them."),
    "explain": ("commands.explain:explain", "The agent as assembled: every part, its plugin, its cost."),
    "doctor": ("commands.doctor:doctor", "What is wrong, and the command that mends it."),
    "config": ("commands.config:config", "The configuration: show, schema, init, trust."),
    "new": ("commands.new:new", "A new plugin from the template."),
}
"""Command -> where it is, and its line in the help, so that `deep --help` imports none of them."""
LIGHT = frozenset({"plugins", "doctor", "new"})
"""Built-in commands that do not load pydantic, or see to it themselves."""
