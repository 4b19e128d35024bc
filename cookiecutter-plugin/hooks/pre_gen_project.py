"""Refuses answers that would make a plugin that cannot be loaded. `deep new` asks with the same rules."""

import keyword
import re
import sys

PLUGIN = re.compile(r"[a-z][a-z0-9_]{0,39}")
DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
TEXT = re.compile(r"[^\"\\\x00-\x1f\x7f]*")
"""Fits between quotes in pyproject.toml and in a docstring."""

# Parameters of create_deep_agent, commands of deep, and a name that would clash in the code.
RESERVED = [
    "app",
    "approvers",
    "backend",
    "capabilities",
    "config",
    "deep",
    "defer_model_check",
    "depth",
    "deps",
    "deps_type",
    "description",
    "end_strategy",
    "history_processors",
    "innermost",
    "instructions",
    "interrupt_on",
    "kernel",
    "max_concurrency",
    "metadata",
    "model",
    "model_settings",
    "name",
    "native_tools",
    "output_type",
    "plugin",
    "plugins",
    "retries",
    "strict",
    "system_prompt",
    "tool_filter",
    "tool_timeout",
    "tools",
    "toolsets",
    "validation_context",
]
COMMANDS = ["call", "chat", "config", "demo", "doctor", "explain", "keys", "new", "plugins", "run", "worktree"]

plugin = "{{ cookiecutter.plugin }}"
distribution = "{{ cookiecutter.distribution }}"
module = "{{ cookiecutter.module }}"
command = "{{ cookiecutter.command }}" == "True"
texts = {
    "description": """{{ cookiecutter.description }} """[:-1],
    "author": """{{ cookiecutter.author }} """[:-1],
    "email": """{{ cookiecutter.email }} """[:-1],
}

problems = []
if not PLUGIN.fullmatch(plugin):
    problems.append(f"plugin: {plugin!r} must be lower-case letters, digits and _, at most 40, a letter first")
if plugin in RESERVED or keyword.iskeyword(plugin):
    problems.append(f"plugin: {plugin!r} is reserved; take another name")
if plugin.startswith("deep_"):
    problems.append(f"plugin: {plugin!r} needs no deep_: the distribution's name begins with it")
if command and plugin in COMMANDS:
    problems.append(f"plugin: deep {plugin} is a command already; take another name, or leave the command out")
if not DISTRIBUTION.fullmatch(distribution):
    problems.append(f"distribution: {distribution!r} must be letters, digits, - and _")
if not module.isascii() or not module.isidentifier() or keyword.iskeyword(module) or module in sys.stdlib_module_names:
    problems.append(f"module: {module!r} must be a name for a Python package that no other package has")
problems += [f"{key}: no quotes and backslashes please" for key, text in texts.items() if not TEXT.fullmatch(text)]

if problems:
    sys.exit("\n".join(problems))
