"""The errors that our backends add to Pydantic AI's; each says what is wrong, where, and what to do."""

from __future__ import annotations

from pydantic_ai.workspaces import WorkspaceError

__all__ = ["ConfinementError", "FileTooLargeError", "ProtectedPathError", "ReadOnlyError", "UnsupportedOperationError"]

_SHOWN = 200


def quote_path(path: str) -> str:
    """Quote `path` for an error, truncated if very long."""
    return repr(path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…")


class ReadOnlyError(WorkspaceError, PermissionError):
    """The workspace is read-only: `sandbox_mode = "read_only"`.

    Attributes:
        path: the path as the caller gave it.
    """

    path: str

    @classmethod
    def of(cls, path: str) -> ReadOnlyError:
        """Build the error for a change of `path`."""
        error = cls(f"{quote_path(path)} cannot be changed: the workspace is read-only")
        error.path = path
        return error


class ConfinementError(WorkspaceError, PermissionError, ValueError):
    """A path leads outside the directory that the backend is confined to.

    A `PermissionError` because access is denied, a `ValueError` because the workspace protocol requires
    one for removing the root's ancestors, and a `WorkspaceError` because it is deliberate.

    Attributes:
        path: The path as the caller gave it.
        root: The absolute directory that the backend is confined to.
    """

    path: str
    root: str

    @classmethod
    def outside(cls, path: str, root: str) -> ConfinementError:
        """Build the error for a `path` that leads outside `root`."""
        # Without the root: the model reads this, and folders of the host are not its business.
        error = cls(f"{quote_path(path)} leads outside the workspace: use a path in it")
        error.path, error.root = path, root
        return error

    @classmethod
    def hidden(cls, path: str, mount: str) -> ConfinementError:
        """Build the error for a `path` whose link leads to a path that `mount` hides."""
        error = cls(
            f"{quote_path(path)} leads through a link to a path hidden by the backend mounted at {mount!r}: "
            "use another path"
        )
        error.path, error.root = path, mount
        return error


class ProtectedPathError(ConfinementError):
    """A write to the interpreter's packages or to a config file in use was denied; reading is allowed."""

    @classmethod
    def below(cls, path: str, root: str, protected: str) -> ProtectedPathError:
        """Build the error for a change of `path`, which is, is below, or contains `protected`."""
        inside = protected.removeprefix(f"{root.rstrip('/')}/")
        what = quote_path(inside) if inside != protected else "its directory"
        error = cls(
            f"cannot change {quote_path(path)}: {what} is protected (the running interpreter's packages, "
            "or a configuration file in use); write elsewhere, or ask the user to change it"
        )
        error.path, error.root = path, root
        return error


class FileTooLargeError(WorkspaceError):
    """A file is larger than one call may read into memory.

    Attributes:
        size: The file's size in bytes.
        limit: The largest size in bytes that `read_bytes` returns.
    """

    size: int
    limit: int

    @classmethod
    def above(cls, path: str, size: int, limit: int) -> FileTooLargeError:
        """Build the error for a file of `size` bytes above `limit`."""
        error = cls(
            f"{quote_path(path)} has {size} bytes, more than the limit of {limit}: "
            "read it by range, read_range(path, start, length), or search it with a command"
        )
        error.size, error.limit = size, limit
        return error


class UnsupportedOperationError(WorkspaceError):
    """A composite's routed backend lacks the optional protocol."""
