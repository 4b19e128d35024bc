"""Measure an agent: suites of tasks, trials in processes of their own, and numbers that may be believed.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import ModuleType

    from pydantic_ai.models import Model

    from deep_core import PluginContext

    from .finding import find_suite
    from .options import TrialsOptions
    from .rows import Row, read_rows
    from .solving import Solved, solve
    from .suites import Suite, load_suite
    from .tasks import Task, load_task

__all__ = [
    "Row",
    "Solved",
    "Suite",
    "Task",
    "TrialsOptions",
    "find_suite",
    "load_suite",
    "load_task",
    "read_rows",
    "solve",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "finding": ["find_suite"],
        "options": ["TrialsOptions"],
        "rows": ["Row", "read_rows"],
        "solving": ["Solved", "solve"],
        "suites": ["Suite", "load_suite"],
        "tasks": ["Task", "load_task"],
    },
)


@hookimpl
def deep_options() -> type[TrialsOptions]:
    """Return the options of `[plugins.trials]`."""
    from .options import TrialsOptions

    return TrialsOptions


@hookimpl
def deep_hookspecs() -> list[ModuleType]:
    """Add the hook through which other plugins ship tasks."""
    from . import hookspecs

    return [hookspecs]


@hookimpl
def deep_eval_suites(context: PluginContext) -> Sequence[Path]:
    """Add `smoke` and `work`."""
    from .suites import OWN

    return OWN


@hookimpl
def deep_resolve_model(model_id: str) -> Model | None:
    """Resolve `trials:reference`, `trials:hasty` and `trials:nothing`."""
    if not model_id.startswith("trials:"):
        return None
    from .scripted import scripted_model

    return scripted_model(model_id)
