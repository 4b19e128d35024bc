"""The settings of the server's operator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """The server's settings.

    Attributes:
        data: the directory of the sessions' files, of the key, and of the database where `store` names no other.
        store: where the sessions are: `postgresql://…`, for example. "" for a SQLite file in `data`.
        backend: where sessions work: `local`, a directory for each, or `docker`, a container for each.
        execute: whether `local` sessions can run commands. These run as the server's user and are not confined to
            the session's directory, so this is for one user on one machine. In docker they are always available.
        hosts: the host names that the server accepts; a page of another name cannot reach it.
        max_upload_bytes: maximum bytes of one upload.
        max_file_bytes: maximum bytes of a workspace file that is sent to the browser.
        max_sessions_of_one: maximum sessions of one user, and maximum new users of one address in a day: a client
            without its cookie is a new user.
        max_workspaces: maximum sessions at work at one time.
    """

    data: Path = Path("server-data")
    store: str = ""
    backend: Literal["local", "docker"] = "local"
    execute: bool = False
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost")
    max_upload_bytes: int = 50 * 1024**2
    max_file_bytes: int = 10 * 1024**2
    max_sessions_of_one: int = 50
    max_workspaces: int = 200
