"""Load: a module's public names on first use, so that importing a plugin costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_exports(
    module: str, homes: Mapping[str, Sequence[str]], others: Mapping[str, Sequence[str]] = {}
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names are imported when they are first used.

        __getattr__, __dir__ = lazy_exports(__name__, {"options": ["WeatherOptions"], "toolset": ["forecast"]})

    Type checkers read the same names from imports under `if TYPE_CHECKING:`.

    Args:
        module: `__name__`.
        homes: submodule of the package -> the names that it holds.
        others: another package -> those of its names that this one has too.

    Raises:
        AttributeError: from `__getattr__`, for a name that is not listed, as Python says it.
    """
    home = {name: f".{submodule}" for submodule, names in homes.items() for name in names}
    home |= {name: package for package, names in others.items() for name in names}

    def load(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        here = sys.modules[module]
        value = getattr(import_module(home[name], here.__package__), name)
        setattr(here, name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *home})

    return load, names
