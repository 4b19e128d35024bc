"""The built-in commands of `deep`, by name."""

from __future__ import annotations

__all__ = ["BUILT_IN", "LIGHT"]

BUILT_IN = {
    "run": ("run.command:run_command", "Let the agent do one task on the current folder."),
    "chat": ("chat.command:chat", "Talk with the agent about the current folder."),
    "call": ("run.call_command:call", "Try one tool of the agent, without a model."),
    "worktree": ("run.worktree_command:worktree", "List, merge or drop sessions in git worktrees."),
    "plugins": ("plugins.command:plugins", "Show and change the installed plugins."),
    "explain": ("doctor.explain:explain", "Show every part of the agent: its plugin and its cost."),
    "doctor": ("doctor.command:doctor", "Find problems and show the commands that fix them."),
    "keys": ("config.keys_command:keys", "Store the keys of model providers."),
    "config": ("config.command:config", "Show, create or trust the configuration."),
    "new": ("plugins.new:new", "Create a plugin from the template."),
}
"""Command -> its module and help line, so that `deep --help` imports no command."""
LIGHT = frozenset({"plugins", "doctor", "new", "keys", "worktree"})
"""Built-in commands that do not load pydantic, or handle it themselves."""
