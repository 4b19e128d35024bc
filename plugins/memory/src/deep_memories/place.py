"""Which memory a session has: its owner's, of its project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_core.plugin_api import folder_name

from .errors import MemoryRefused
from .store import Store

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from .options import MemoryOptions

__all__ = ["store_of"]

HOST = ("local", "deep-local", "deep-sandbox")
"""Providers of workspaces whose id is a directory of this machine."""


def store_of(ctx: RunContext[Any], options: MemoryOptions, data_dir: Callable[[], Path]) -> Store:
    """Return the memory of a run's session. Nothing is created.

    Raises:
        MemoryRefused: the session has no project or no owner to keep it under.
    """
    folder = data_dir() / "owners" / folder_name(_owner(ctx, options)) if options.owner is not None else data_dir()
    return Store(
        folder / "projects" / folder_name(_project(ctx, options)),
        note_chars=options.note_chars,
        max_topics=options.max_topics,
        topic_chars=options.topic_chars,
    )


def _owner(ctx: RunContext[Any], options: MemoryOptions) -> str:
    owner: object = options.owner(ctx.deps) if callable(options.owner) else options.owner
    # A session without an owner must not share one with others like it.
    if not isinstance(owner, str) or not owner:
        raise MemoryRefused("this session has no owner, so it has no memory")
    return owner


def _project(ctx: RunContext[Any], options: MemoryOptions) -> str:
    if options.project is not None:
        return options.project
    ref = ctx.workspace.ref
    if ref is None or ref.provider not in HOST:
        raise MemoryRefused(
            "this session works in no directory of this machine, so it has no project to remember things of; "
            "the user can name one: [plugins.memory.options] project"
        )
    return ref.id
