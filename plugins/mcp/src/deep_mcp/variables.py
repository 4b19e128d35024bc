"""Expand `${VAR}` and `${VAR:-default}` in a server's configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["UnsetVariable", "expand", "variables_in"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^}])*))?\}")


class UnsetVariable(ValueError):
    """A variable without a value and without a default.

    Attributes:
        name: of the variable.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"the environment variable {name} is not set; export {name}=…, or write ${{{name}:-default}}")
        self.name = name


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Replace each variable once; what a value contains is not expanded again.

    As in a shell, `:-` also replaces an empty value.

    Raises:
        UnsetVariable: a variable is not set, and has no default.
    """

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if default is not None:
            return environ.get(name) or default
        if name not in environ:
            raise UnsetVariable(name)
        return environ[name]

    return _VARIABLE.sub(value, text)


def variables_in(text: str) -> list[str]:
    """Return the names of the variables in a text."""
    return [match[1] for match in _VARIABLE.finditer(text)]
