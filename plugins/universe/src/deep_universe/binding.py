"""An object's public methods as functions for tools."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["instance_of", "methods_of"]


def instance_of(obj: object) -> object:
    """Return the object; of a class, a new instance.

    Raises:
        TypeError: the class needs arguments.
    """
    if not isinstance(obj, type):
        return obj
    try:
        inspect.signature(obj).bind()
    except TypeError as error:
        raise TypeError(
            f"{obj.__name__} needs arguments ({error}): bind an instance, bind({obj.__name__}(…))"
        ) from None
    return obj()


def methods_of(obj: object, exclude: Iterable[str] = ()) -> list[tuple[str, Callable[..., Any]]]:
    """Return the names and bound methods of an object: its class's, base classes first, in the order they are defined.

    Names with an underscore first are skipped. Class attributes are read statically, so no property and no other
    descriptor runs. A name in `exclude` that is not a method is ignored with a warning.

    Raises:
        TypeError: `exclude` is a string.
    """
    if isinstance(exclude, str):
        raise TypeError(f'exclude is a collection of method names: write exclude=["{exclude}"]')
    excluded = set(exclude)
    names: dict[str, None] = {}
    for base in reversed(type(obj).__mro__):
        names.update(dict.fromkeys(name for name in vars(base) if not name.startswith("_")))
    methods = [name for name in names if _is_method(inspect.getattr_static(obj, name))]
    if unknown := sorted(excluded - set(methods)):
        warnings.warn(
            f"exclude: {type(obj).__name__} has no public method {', '.join(unknown)}", UserWarning, stacklevel=3
        )
    return [(name, getattr(obj, name)) for name in methods if name not in excluded]


def _is_method(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, staticmethod | classmethod)
