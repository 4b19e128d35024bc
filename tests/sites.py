"""A site directory of a test, and an index that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from entry_point_index import EntryPoint, Index, Notes

from tests.environments import Distribution


class Site:
    """A site directory, an index with a cache of its own, and how often its distributions were read."""

    def __init__(self, path: Path, cache: Path) -> None:
        path.mkdir(exist_ok=True)
        self.path = path
        self.index = Index(
            "deep", "deep-agent-core", "0.1.0", cache, marker="agent_plugins.json", reader="deep-folders"
        )
        self.reads: list[str] = []

    def install(self, *distributions: Distribution) -> None:
        """Write distributions into it."""
        for distribution in distributions:
            distribution.write(self.path)

    def scan(self, group: str | None = None, directories: Sequence[str] = ()) -> list[EntryPoint]:
        """What the index finds there."""
        return self.index.scan(group, directories or [str(self.path)])

    def point(self) -> EntryPoint:
        """Its only entry point."""
        (point,) = self.scan()
        return point

    def notes(self) -> Notes:
        """The notes, as another process reads them."""
        return self.index.notes()

    def read(self) -> list[str]:
        """The distributions that were read since the last call."""
        read, self.reads[:] = sorted(Path(path).name.partition("-")[0] for path in self.reads), []
        return read

    def cache_file(self) -> Path:
        """The file of this environment."""
        (file,) = self.index.cache.glob("*.json")
        return file
