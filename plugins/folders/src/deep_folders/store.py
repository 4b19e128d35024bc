"""The folders that the user added, each a copy pinned by its content."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from .folder import Folder
from .reading import read_folder
from .snapshot import BadFolder, copy_folder, digest_of

__all__ = ["Added", "Store", "origin_name", "without_login"]


@dataclass(frozen=True)
class Added:
    """An added folder.

    Attributes:
        name: of the folder.
        origin: the path or the URL that it was added from.
        path: the folder inside `origin`; "" for all of it.
        ref: the branch or tag of a repository; "" for its default.
        commit: of the repository; "" for a path.
        digest: of its content.
        programs: whether its hooks and MCP servers may start.
        skills_only: whether nothing but its skills is used.
    """

    name: str
    origin: str
    path: str
    ref: str
    commit: str
    digest: str
    programs: bool
    skills_only: bool = False

    @property
    def source(self) -> str:
        """The command that adds it again, and what it is pinned to, for people."""
        command = f"deep {'skills' if self.skills_only else 'folders'} add {without_login(self.origin)}"
        inside = f" --path {self.path}" if self.path else ""
        branch = f" --ref {self.ref}" if self.ref else ""
        pin = f"commit {self.commit[:12]}" if self.commit else f"digest {self.digest[:12]}"
        return f"{command}{inside}{branch}, {pin}"


def origin_name(origin: str, path: str) -> str:
    """Return the name of a folder where it comes from: a path or an address, and the folder inside it."""
    return Path(path).name or re.split(r"[/:]", origin.rstrip("/"))[-1].removesuffix(".git") or "content"


def without_login(origin: str) -> str:
    """Return an address without a user and a password, for people."""
    return re.sub(r"//[^/@]*@", "//***@", origin)


class Store:
    """The folder of this plugin in the user's data: one record and one copy for each added folder.

    Args:
        root: created with the first folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def data(self, name: str) -> Path:
        """Return the folder for what a folder's programs keep; it survives updates."""
        return self.root / "data" / name

    def content(self, added: Added) -> Path:
        """Return the copy, which has the name of its origin: a skill's name is its folder's."""
        return self.root / "content" / f"{added.name}-{added.digest[:16]}" / origin_name(added.origin, added.path)

    def holds(self, added: Added) -> bool:
        """Whether the copy is what was added."""
        try:
            return digest_of(self.content(added), skipped=()) == added.digest
        except (OSError, ValueError):
            return False

    def all(self) -> list[Added]:
        """Return every record that can be read, by name."""
        return [added for path in self._paths() if (added := self._load(path)) is not None]

    def get(self, name: str) -> Added | None:
        """Return a record by name."""
        return self._load(self._path(name))

    def folders(self) -> Iterator[Folder]:
        """Read every added folder. One that is not what was added is a folder with a problem."""
        for path in self._paths():
            added = self._load(path)
            if added is None:
                name = path.stem
                why = f"{path} cannot be read; deep folders remove {name}"
                yield Folder(name, "claude-plugin", self.root, source=str(path), problem=why)
            else:
                yield self._folder(added)

    def _folder(self, added: Added) -> Folder:
        root, source = self.content(added), added.source
        if not self.holds(added):
            why = f"its copy is not what was added; deep folders update {added.name}"
            return Folder(added.name, "claude-plugin", root, source=source, problem=why)
        try:
            folder = read_folder(root.resolve(), self.data(added.name), added.name)
        except (OSError, ValueError) as error:
            why = f"{error}; deep folders remove {added.name}, and add it again"
            return Folder(added.name, "claude-plugin", root, source=source, problem=why)
        if added.skills_only:
            return replace(folder.only_skills, name=added.name, source=source)
        blocked = (
            "" if added.programs else f"added without programs; deep folders remove {added.name}, and add it again"
        )
        return replace(folder, name=added.name, source=source, blocked=blocked)

    def add(self, added: Added, content: Path) -> None:
        """Keep a copy of a folder and its record; replaces a folder of this name.

        Raises:
            OSError: the user's data cannot be written.
            BadFolder: see `files_of`.
        """
        old, place = self.get(added.name), self.content(added)
        if place.parent.exists() and not self.holds(added):  # someone changed that copy, or an older deep made it
            shutil.rmtree(place.parent)
        if not place.exists():
            waiting = self.root / "content" / f".{uuid4().hex}"
            try:
                copy_folder(content, waiting)
                if digest_of(waiting, skipped=()) != added.digest:
                    raise BadFolder(f"{added.origin} changed while it was copied; try again")
                place.parent.mkdir(parents=True, exist_ok=True)
                waiting.rename(place)
            finally:
                shutil.rmtree(waiting, ignore_errors=True)
        path = self._path(added.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{uuid4().hex}")
        with open(temporary, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:  # it may hold a login
            file.write(json.dumps({"schema": 1, **asdict(added)}, indent=1) + "\n")
        temporary.replace(path)
        # Programs that run now use the copy before this one; those before that go.
        kept = {place.parent, place.parent if old is None else self.content(old).parent}
        for copy in self._copies(added.name):
            if copy not in kept:
                shutil.rmtree(copy, ignore_errors=True)

    def remove(self, name: str) -> bool:
        """Remove a folder, its copy and what its programs kept. Returns whether it was there."""
        path = self._path(name)
        there = path.exists()
        path.unlink(missing_ok=True)
        for folder in (*self._copies(name), self.data(name)) if there else ():
            shutil.rmtree(folder, ignore_errors=True)
        return there

    def _copies(self, name: str) -> list[Path]:
        copies = (self.root / "content").glob(f"{name}-*")
        return [path for path in copies if re.fullmatch(r"[0-9a-f]{16}", path.name.removeprefix(f"{name}-"))]

    def _paths(self) -> list[Path]:
        return sorted((self.root / "added").glob("*.json"))

    def _path(self, name: str) -> Path:
        return self.root / "added" / f"{name}.json"

    def _load(self, path: Path) -> Added | None:
        try:
            data: object = json.loads(path.read_text(encoding="utf-8"))
            record = cast("dict[str, Any]", data)
            added = Added(**{key: record[key] for key in Added.__dataclass_fields__ if key in record})
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return added if added.name == path.stem else None
