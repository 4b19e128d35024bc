"""The errors of this package. All say what is wrong and what to do."""

from __future__ import annotations

__all__ = [
    "DriverContractError",
    "DriverNotFoundError",
    "DuplicateToolError",
    "MiddlewareError",
    "NoDriverError",
    "ToolNameError",
    "ToolNotFoundError",
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


class DriverNotFoundError(UniverseError, LookupError):
    """No driver has this name."""


class NoDriverError(UniverseError, LookupError):
    """No driver can handle the model; the message lists each driver with its score."""


class DriverContractError(UniverseError, TypeError):
    """A driver broke its contract: a score that is not an int from 0 to 100, or a result of the wrong type."""


class MiddlewareError(UniverseError, ValueError):
    """A middleware cannot be identified: give it a `uid`."""
