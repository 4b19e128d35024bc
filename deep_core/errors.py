"""Errors of plugins and configuration, and their messages: what is wrong, where, and what to type next."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import cast

from entry_point_index import canonical

from .names import visible


class PluginError(Exception):
    """A plugin that the caller named cannot be used; with `strict=True`, any plugin.

    Attributes:
        plugin: the plugin's name; None if several are involved.
    """

    def __init__(self, message: str, *, plugin: str | None = None) -> None:
        super().__init__(visible(message))
        self.plugin = plugin


class ConfigError(PluginError):
    """A configuration key or value is wrong. The message names the file and the key, and suggests a fix."""


class PluginWarning(UserWarning):
    """The kernel left a plugin out, or a plugin failed at run time; the application continues."""


class MissingExtra(ImportError):
    """Raised by a plugin whose optional dependency is not installed.

    Args:
        extra: what to install: `"skills[pdf]"` is short for `deep-skills[pdf]`; a name with a hyphen, or the name of
            the plugin's own distribution, stays as it is; a bare `"pdf"` is an extra of the plugin's own distribution.
    """

    def __init__(self, extra: str) -> None:
        self.extra = extra
        super().__init__(self.advice())

    def advice(self, distribution: str | None = None) -> str:
        """Return what to type, for a plugin of this distribution."""
        name, bracket, _ = self.extra.partition("[")
        own = distribution is not None and canonical(name) == canonical(distribution)
        requirement = self.extra if own or "-" in name else f"deep-{self.extra}"
        if distribution is not None and not bracket and not own and "-" not in name:
            requirement = f"{distribution}[{name}]"
        return f"needs an optional dependency: pip install '{requirement}'"


def warn(message: str) -> None:
    """Emit a `PluginWarning` at the application's line that led to it, not at the kernel's."""
    own, level = os.path.dirname(__file__) + os.sep, 1
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # `skip_file_prefixes` comes with Python 3.12
    while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
        frame, level = frame.f_back, level + 1
    warnings.warn(visible(message), PluginWarning, stacklevel=level + 1)


def reraise_control(error: BaseException) -> None:
    """Raise an exception that is not an error of the code that it passed: Ctrl-C, a cancellation, a closed generator.

    Everything else is contained: a plugin's SystemExit, or a panic in Rust, must not end the application.
    """
    from asyncio import CancelledError  # only errors come here

    control = (KeyboardInterrupt, CancelledError, GeneratorExit)
    group = cast("BaseExceptionGroup[BaseException]", error) if isinstance(error, BaseExceptionGroup) else None
    if isinstance(error, control) or (group is not None and group.subgroup(control) is not None):
        raise error


def error_message(error: BaseException) -> str:
    """Return an exception's message, even if its own `__str__` fails: that is a plugin's code, outside containment."""
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001 - what it raises says nothing of what went wrong
        reraise_control(broken)
        return f"(its message cannot be read: {type(broken).__name__})"


def describe_error(error: BaseException) -> str:
    """Return `ValueError: no such city`; the class alone if there is no message."""
    return f"{type(error).__name__}: {error_message(error)}".rstrip(": ")


def suggest(word: str, known: Iterable[str]) -> str:
    """Return `" Did you mean 'x'?"` for the nearest of `known`, compared as a whole and by its parts; "" if none is."""
    import difflib  # only a mistake needs it

    names = sorted(known)
    parts = {part: name for name in names for part in name.split("_")}
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    near = near or [parts[part] for part in difflib.get_close_matches(word, parts, n=1, cutoff=0.75)]
    return f" Did you mean {near[0]!r}?" if near else ""


def clash_message(kind: str, name: str, owners: Sequence[tuple[str, str]], replaceable: str | None = None) -> str:
    """Name both owners with versions, then the fixes that exist for that kind.

    Args:
        kind: what two plugins define.
        name: the name that they share.
        owners: (plugin, label) of each.
        replaceable: the tool's original name, if one plugin may replace the other's tool.
    """
    if len({plugin for plugin, _ in owners}) == 1:
        owner, label = owners[0]
        if owner == "app":
            return f"the application gives two {kind}s of the name {name!r}: rename one of them"
        return (
            f"plugin {label} has two {kind}s of the name {name!r}: its author must rename one of them; until then "
            f"[plugins.{owner}] enabled = false"
        )
    who = "\n".join(f"  {label}" for _, label in owners)
    plugin = next((p for p, _ in reversed(owners) if p != "app"), "app")
    other = next((p for p, _ in owners if p != plugin), plugin)
    ways = [f"[plugins.{plugin}] enabled = false"]
    if kind == "tool":
        ways = [
            f'[plugins.{plugin}] prefix = "{plugin}"',
            f'[plugins.{plugin}] tools = "~name:{name}"',
            *([f'[plugins.{plugin}] replaces = ["{other}:{replaceable}"]'] if replaceable and other != "app" else []),
            *ways,
        ]
    return f"two plugins have a {kind} {name!r}:\n{who}\nChoose one way out:\n" + "\n".join(f"  {way}" for way in ways)
