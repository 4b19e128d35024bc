"""The type of a todo: pydantic-ai-todo's, without the rest of its package."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pydantic_ai_todo.types import Todo

__all__ = ["load_todo"]

_PACKAGE = "pydantic_ai_todo"
_MODULE = "pydantic_ai_todo.types"
_lock = threading.Lock()


def load_todo() -> type[Todo]:
    """Return `pydantic_ai_todo.Todo`, the same class that the package exports.

    The package's `__init__` imports redis (pydantic-ai-todo 0.2.7: 55 to 250 ms, depending on the machine); its module
    `types` needs pydantic only and takes 5 ms. So load that module alone, under its own name: a later
    `import pydantic_ai_todo` finds it there and exports the same class.

    Raises:
        ImportError: pydantic-ai-todo is not installed, or has no `types` with a `Todo`.
    """
    with _lock:
        present = sys.modules.get(_MODULE)
        if present is None and _PACKAGE not in sys.modules:
            _load_alone()
        module = import_module(_MODULE) if _PACKAGE in sys.modules else sys.modules[_MODULE]
    try:
        return cast("type[Todo]", module.Todo)
    except AttributeError:
        raise ImportError(f"{_MODULE} has no Todo; deep-todo needs pydantic-ai-todo >= 0.2.7, < 0.3") from None


def _load_alone() -> None:
    package = find_spec(_PACKAGE)  # finds a top-level package without importing it
    places = None if package is None else package.submodule_search_locations
    spec = None if places is None else PathFinder.find_spec(_MODULE, places)
    if spec is None or spec.loader is None:
        raise ImportError(f"deep-todo needs {_MODULE}: pip install 'pydantic-ai-todo>=0.2.7,<0.3'", name=_MODULE)
    module = module_from_spec(spec)
    sys.modules[_MODULE] = module  # pydantic looks up annotations there at class creation
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_MODULE]
        raise


def __getattr__(name: str) -> object:
    if name != "Todo":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load_todo()
