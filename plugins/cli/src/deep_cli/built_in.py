"""The built-in commands of `deep`, by name."""

from __future__ import annotations

__all__ = ["BUILT_IN", "LIGHT"]

BUILT_IN = {
    "run": ("commands.run:run", "Let the agent do one task on the current folder."),
    "chat": ("commands.chat:chat", "Talk with the agent about the current folder."),
    "call": ("commands.call:call", "Try one tool of the agent, without a model."),
    "plugins": ("commands.plugins:plugins", "Show and change the installed plugins."),
    "explain": ("commands.explain:explain", "Show every part of the agent: its plugin and its cost."),
    "doctor": ("commands.doctor:doctor", "Find problems and show the commands that fix them."),
    "keys": ("commands.keys:keys", "Store the keys of model providers."),
    "config": ("commands.config:config", "Show, create or trust the configuration."),
    "new": ("commands.new:new", "Create a plugin from the template."),
}
"""Command -> its module and help line, so that `deep --help` imports no command."""
LIGHT = frozenset({"plugins", "doctor", "new", "keys"})
"""Built-in commands that do not load pydantic, or handle it themselves."""
