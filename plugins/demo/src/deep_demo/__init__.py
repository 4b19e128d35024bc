"""Scripted models, `demo:tour` and `demo:echo`, and a sample project for them: no key, no network.

Importing this module loads neither pydantic nor Pydantic AI: public names come on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from .models import DemoModel
    from .sample_files import copy_sample_project, sample_project

__all__ = ["DemoModel", "copy_sample_project", "sample_project"]

_HOME = {
    "DemoModel": "models",
    "copy_sample_project": "sample_files",
    "sample_project": "sample_files",
}


@hookimpl
def deep_resolve_model(model_id: str) -> Model | None:
    """`demo:tour` and `demo:echo`."""
    if not model_id.startswith("demo:"):
        return None
    from .models import demo_model

    return demo_model(model_id)


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
