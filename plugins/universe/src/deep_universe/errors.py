"""The errors of this package. All say what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "CallDenied",
    "DriverContractError",
    "DriverNotFoundError",
    "DuplicateToolError",
    "InvalidArguments",
    "MiddlewareError",
    "MissingContextKey",
    "NoDriverError",
    "ToolNameError",
    "ToolNotFoundError",
    "ToolSchemaError",
    "UniverseError",
]


class UniverseError(Exception):
    """Base of the errors of deep-universe."""


class DuplicateToolError(UniverseError, ValueError):
    """A tool with this name is registered already; the first one stays."""


class ToolNameError(UniverseError, ValueError):
    """A tool's name does not match `^[a-zA-Z0-9_-]{1,64}$`, the strictest limit of any wire format."""


class ToolNotFoundError(UniverseError, LookupError):
    """No tool has this name."""


class ToolSchemaError(UniverseError, ValueError):
    """The wire format cannot express the schema of a tool's arguments; change the schema, or `strict`."""


class DriverNotFoundError(UniverseError, LookupError):
    """No driver has this name."""


class NoDriverError(UniverseError, LookupError):
    """No driver can handle the model; the message lists each driver with its score."""


class DriverContractError(UniverseError, TypeError):
    """A driver broke its contract: a score that is not an int from 0 to 100, or a result of the wrong type."""


class InvalidArguments(UniverseError, ValueError):
    """A call's arguments do not fit the tool's schema: `tool`, and `problems`, a line each. For the model to read."""

    def __init__(self, tool: str, problems: Sequence[str]) -> None:
        super().__init__(tool, list(problems))  # both, so that it can be pickled
        self.tool, self.problems = tool, list(problems)

    def __str__(self) -> str:
        return f"invalid arguments for {self.tool}: {'; '.join(self.problems)}"


class MissingContextKey(UniverseError, LookupError):
    """The context of a call lacks a key that a parameter is injected from: `key` and `parameter`."""

    def __init__(self, key: str, parameter: str) -> None:
        super().__init__(key, parameter)
        self.key, self.parameter = key, parameter

    def __str__(self) -> str:
        return f"the context has no {self.key!r}, which {self.parameter} needs: pass context={{{self.key!r}: …}}"


class CallDenied(UniverseError, PermissionError):
    """Nobody approved a call that needs an approval; it was not executed. For the model to read."""


class MiddlewareError(UniverseError, ValueError):
    """A middleware cannot be identified: give it a `uid`."""
