"""The errors that our backends add to Pydantic AI's: each says what was refused, where, and what to do."""

from __future__ import annotations

from pydantic_ai.workspaces import WorkspaceError

__all__ = ["ConfinementError", "FileTooLargeError", "ProtectedPathError", "UnsupportedOperationError"]

_SHOWN = 200


def shown(path: str) -> str:
    """`path` as an error shows it: quoted, and cut where a very long one would bury the message."""
    return repr(path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…")


class ConfinementError(WorkspaceError, PermissionError, ValueError):
    """A path leads outside the directory that the backend is confined to.

    A `PermissionError` because access is refused, a `ValueError` because the workspace contract asks
    for one when the root's ancestors are removed, and a `WorkspaceError` because the refusal is deliberate.

    Attributes:
        path: The path as the caller gave it.
        root: The absolute directory that the backend is confined to.
    """

    path: str
    root: str

    @classmethod
    def outside(cls, path: str, root: str) -> ConfinementError:
        """The error for a `path` that leads outside `root`."""
        error = cls(
            f"{shown(path)} leads outside the workspace {root!r}: use a path below it, or give the backend another root"
        )
        error.path, error.root = path, root
        return error

    @classmethod
    def hidden(cls, path: str, mount: str) -> ConfinementError:
        """The error for a `path` whose link leads to what `mount` hides."""
        error = cls(
            f"{shown(path)} leads through a link to what {mount!r} hides, where another backend is mounted: "
            "use another path"
        )
        error.path, error.root = path, mount
        return error


class ProtectedPathError(ConfinementError):
    """A write below the interpreter's packages, or to a config file that was read, was refused; reading is allowed."""

    @classmethod
    def below(cls, path: str, root: str, protected: str) -> ProtectedPathError:
        """The error for a change of `path`, which is, lies below, or contains `protected`."""
        error = cls(
            f"refused to change {shown(path)}: {protected!r} is protected (the running interpreter's packages, "
            "or a configuration file that was read); write elsewhere, or ask a person to change it"
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
        """The error for a file of `size` bytes where `limit` bytes may be read at once."""
        error = cls(
            f"{shown(path)} has {size} bytes, more than the {limit} that are read at once: "
            "read it by range, read_range(path, start, length), or search it with a command"
        )
        error.size, error.limit = size, limit
        return error


class UnsupportedOperationError(WorkspaceError):
    """The backend behind a route of a composite does not have the optional protocol that was asked of it."""
