"""Check the name of a new plugin, and suggest a good one."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterable

from deep_core.plugin_api import canonical

from .search import known_plugins

__all__ = ["distribution_problem", "module_problem", "parse_name", "plugin_problem", "suggest_name", "text_problem"]

LONGEST = 40
UNLISTED = {"deep-agent-core", "deep-everything"}
"""Distributions of ours that are no plugin."""
# A class `PluginOptions` in the new plugin would hide its base class; deep-deep is not a useful name.
CLASHES = frozenset(["plugin", "deep"])
_DISTRIBUTION = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_TEXT = re.compile(r"[^\"\\\x00-\x1f\x7f]*")


def parse_name(text: str) -> tuple[str, str | None]:
    """Return the plugin's name and its distribution's, from either; None for the default distribution, deep-PLUGIN.

    A hyphen marks a distribution's name: `deep-notes` has the plugin `notes`, `acme-notes` the plugin `acme_notes`.
    """
    if "-" not in text or text != text.lower() or not _DISTRIBUTION.fullmatch(text):
        return _without_deep(text), None
    words = re.sub(r"[-_.]+", "_", text)
    plugin = _without_deep(words)
    return plugin, text if plugin == words else None


def _without_deep(name: str) -> str:
    """Remove the prefix that the distribution's name adds again."""
    return re.sub(r"^(deep_)+(?=.)", "", name)


def plugin_problem(name: str, used: Iterable[str] = ()) -> str:
    """What is wrong with a plugin's name, with a better one; "" for a good name.

    Args:
        name: the name typed.
        used: more names that it must not have: commands of `deep`, if it has a command.
    """
    from deep_core.plugin_api import NAME, RESERVED_NAMES

    reserved = {*RESERVED_NAMES, *CLASHES, *keyword.kwlist}
    if not NAME.fullmatch(name):
        why = f"must be lower-case letters, digits and _, at most {LONGEST}, a letter first"
    elif keyword.iskeyword(name):
        why = f"is a Python keyword: create_deep_agent({name}=…) would not parse"
    elif name in reserved:
        why = "is reserved: it is a parameter of create_deep_agent, or would clash in the code"
    elif name != _without_deep(name):
        why = "needs no deep_: the distribution's name begins with it"
    elif name in used:
        why = f"would hide the command deep {name}"
    else:
        return ""
    return f"{name!r} {why}. Try: {suggest_name(name, {*reserved, *used})}"


def suggest_name(name: str, used: Iterable[str]) -> str:
    """Suggest a good name close to `name`."""
    words = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")
    words = re.sub(r"^(deep_|[_0-9])*", "", words)[:LONGEST].strip("_")
    return f"my_{words}"[:LONGEST] if words in used else words or "my_plugin"


def distribution_problem(name: str) -> str:
    """What is wrong with a distribution's name (PEP 508), "" for a good one."""
    if not _DISTRIBUTION.fullmatch(name):
        return f"{name!r} must be letters, digits, - and _, a letter or digit first and last"
    ours = {plugin["distribution"] for plugin in known_plugins() if not plugin.get("others")}
    if canonical(name) in ours | UNLISTED:
        own = canonical(name).removeprefix("deep-")
        return f"{name!r} is one of deep's own distributions: pip would replace it. Try: my-{own}"
    return ""


def module_problem(name: str) -> str:
    """What is wrong with a package's name, "" for a good one."""
    if not name.isascii() or not name.isidentifier() or keyword.iskeyword(name):
        return f"{name!r} must be letters, digits and _, and not a Python keyword"
    if name in sys.stdlib_module_names or name == "deep_core":
        return f"{name!r} is another module's name. Try: deep_{name.removeprefix('deep_')}_plugin"
    return ""


def text_problem(text: str) -> str:
    """What is wrong with a text for pyproject.toml and a docstring, "" for a good one."""
    return "" if _TEXT.fullmatch(text) else f"{text!r} must not have a quote, a backslash or a line break"
