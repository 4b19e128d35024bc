"""The folders of each kernel, read once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from deep_core.plugin_api import scan, suggest

from .marker import MARKER

if TYPE_CHECKING:
    from deep_core import AgentContext, PluginContext, PluginKernel
    from deep_core.plugin_api import Candidate

    from .around_calls import HookPrograms
    from .folder import Folder, StyleEntry
    from .options import FoldersOptions

__all__ = ["chosen_style", "find_folders", "hook_programs", "store_root", "used_folders"]

_PROGRAMS: WeakKeyDictionary[PluginKernel, dict[tuple[str, ...], HookPrograms]] = WeakKeyDictionary()
_FOUND: WeakKeyDictionary[PluginKernel, dict[object, tuple[Folder, ...]]] = WeakKeyDictionary()
_LOCK = Lock()


def store_root(kernel: PluginKernel) -> Path:
    """Return this plugin's folder in the user's data; it need not exist."""
    return kernel.data_dir / "plugins" / "folders"


def find_folders(context: PluginContext, options: FoldersOptions) -> tuple[Folder, ...]:
    """Return every folder: those that the user added, of the options, and of installed distributions.

    A kernel reads them once, and logs once why one is not used.
    """
    given = {name: tuple(names) for name, names in options.hook_env.items()}
    key = (options.paths, options.added, options.installed, tuple(sorted(given.items())))
    with _LOCK:
        known = _FOUND.setdefault(context.kernel, {})
        if key not in known:
            found = _distinct(_find(context, options))
            known[key] = tuple(replace(folder, hook_env=given.get(folder.name, ())) for folder in found)
            for folder in known[key]:
                if folder.problem:
                    context.logger.warning("folder %s is not used: %s", folder.name, folder.problem)
        return known[key]


def used_folders(context: PluginContext) -> tuple[Folder, ...]:
    """Return the folders without a problem."""
    from .options import FoldersOptions

    folders = find_folders(context, context.options(FoldersOptions))
    return tuple(folder for folder in folders if not folder.problem)


def hook_programs(context: PluginContext) -> HookPrograms | None:
    """Return the hooks of a kernel's folders; None if there are none that may run."""
    folders = tuple(folder for folder in used_folders(context) if folder.hooks and not folder.blocked)
    if not folders:
        return None
    with _LOCK:
        known = _PROGRAMS.setdefault(context.kernel, {})
        key = tuple(folder.name for folder in folders)
        if key not in known:
            from .around_calls import HookPrograms

            programs = known[key] = HookPrograms(folders, context.logger)
            if programs.around_runs("SessionEnd"):
                context.on_close(programs.end)
        return known[key]


def chosen_style(context: AgentContext, options: FoldersOptions) -> StyleEntry | None:
    """Return the output style of an agent that a person talks with; None if it has none."""
    if context.depth:
        return None
    styles = {f"{folder.name}:{style.name}": style for folder in used_folders(context) for style in folder.styles}
    if (name := options.output_style) and name not in styles:
        context.logger.warning("no output style %r.%s deep folders list shows folders", name, suggest(name, styles))
    return styles.get(name) or next((style for style in styles.values() if style.always and not name), None)


def _find(context: PluginContext, options: FoldersOptions) -> Iterator[Folder]:
    root = store_root(context.kernel)
    if options.added and (root / "added").is_dir():
        from .store import Store

        yield from Store(root).folders()
    if options.paths:
        from .in_place import folders_in_place

        yield from folders_in_place(options.paths, root / "data")
    if options.installed and (candidates := _with_folders(context.kernel)):
        from .installed import folder_of

        yield from (folder_of(candidate, root / "installed") for candidate in candidates)


def _with_folders(kernel: PluginKernel) -> list[Candidate]:
    """Return the distributions that bring a folder and that the kernel's lists allow."""
    active = {(r.distribution, r.version) for r in kernel.records if r.distribution and r.status == "active"}
    if not active:
        return []
    # A distribution with several plugins is one candidate for each of them.
    found = {c.point.dist_info: c for c in scan() if (c.record.distribution, c.record.version) in active}
    return [candidate for candidate in found.values() if (candidate.point.dist_info / MARKER).exists()]


def _distinct(folders: Iterator[Folder]) -> Iterator[Folder]:
    names: dict[str, Folder] = {}
    for folder in folders:
        first = names.setdefault(folder.name, folder)
        if first is not folder:
            why = f"{first.source} has a folder of this name; remove one of them"
            folder = replace(folder, problem=folder.problem or why)
        yield folder
