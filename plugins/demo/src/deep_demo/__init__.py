"""Scripted models, `demo:tour` and `demo:echo`, with a sample project: no key, no network.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from .models import DemoModel
    from .sample_files import copy_sample_project, sample_project

__all__ = ["DemoModel", "copy_sample_project", "sample_project"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "models": ["DemoModel"],
        "sample_files": ["copy_sample_project", "sample_project"],
    },
)


@hookimpl
def deep_resolve_model(model_id: str) -> Model | None:
    """Resolve `demo:tour` and `demo:echo`."""
    if not model_id.startswith("demo:"):
        return None
    from .models import demo_model

    return demo_model(model_id)
