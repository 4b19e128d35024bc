"""Report errors of the model and of files as failed tool calls that the model can fix; the run continues."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.workspaces import Workspace, WorkspaceError, WorkspaceUnavailableError

from .access import TooLarge
from .codec import NotText, Unencodable, UnknownEncoding
from .documents import DocumentError
from .edit import Refused
from .quoting import quoted, unescape
from .stored import is_stored
from .suggestions import suggestion

__all__ = ["tool_failures"]

GONE = (
    " A session's stored files are limited: it was removed for newer ones, or with its session. "
    "If you need it, run what made it again."
)


@asynccontextmanager
async def tool_failures(workspace: Workspace, path: str) -> AsyncGenerator[None]:
    """Turn an error about `path` into `ToolFailed`, which costs no retry.

    A workspace that is gone cannot be fixed by another call: that error is raised unchanged.
    """
    given, path = path, quoted(unescape(path)) or "''"
    try:
        yield
    except WorkspaceUnavailableError:
        raise
    except TooLarge as error:
        raise ToolFailed(_too_large(path, error)) from error
    except (Refused, Unencodable) as error:
        raise ToolFailed(
            f"{path}: {error}{' Nothing was written.' if isinstance(error, Unencodable) else ''}"
        ) from error
    except UnknownEncoding as error:
        raise ToolFailed(f"{path}: {error}.") from error
    except DocumentError as error:
        raise ToolFailed(f"{path} {error}") from error
    except NotText as error:
        raise ToolFailed(f"{path}: {error}; it is not text. Use a command for its format, or another file.") from error
    except FileNotFoundError as error:
        hint = GONE if is_stored(unescape(given)) else await suggestion(workspace, given)
        raise ToolFailed(f"{path}: no such file or directory.{hint}") from error
    except IsADirectoryError as error:
        raise ToolFailed(f"{path} is a directory, not a file. Use ls.") from error
    except NotADirectoryError as error:
        raise ToolFailed(f"{path}: not a directory, or a part of the path is a file.") from error
    except UnicodeError as error:
        raise ToolFailed(f"{path}: {error}") from error
    except (OSError, ValueError, WorkspaceError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ToolFailed(f"{path}: {reason or type(error).__name__}") from error


def _too_large(path: str, error: TooLarge) -> str:
    size = "of unknown size" if error.size is None else f"{error.size:,} bytes"
    return (
        f"{path} is too large ({size}, the limit is {error.limit:,}). Nothing was changed. "
        "Use a command on part of it, or a smaller file."
    )
