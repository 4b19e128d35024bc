"""What the tests of the backends share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from deep_backends import LocalBackend, local_backend


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass(frozen=True)
class World:
    """A workspace with neighbours: `root` is the backend's, `root-evil` and `outside` are not."""

    base: Path
    backend: LocalBackend

    @property
    def root(self) -> Path:
        return self.base / "root"

    @property
    def outside(self) -> Path:
        return self.base / "outside"

    def snapshot(self) -> dict[str, bytes | str | None]:
        """Everything that is not below the root: contents, link targets, directories."""
        found: dict[str, bytes | str | None] = {}
        for directory, names, files in os.walk(self.base):
            if Path(directory) == self.base:
                names.remove("root")
            for name in [*names, *files]:
                path = Path(directory, name)
                found[str(path)] = (
                    os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
                )
        return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    base = Path(os.path.realpath(tmp_path))
    for name in ("root", "root-evil", "outside"):
        (base / name).mkdir()
    (base / "root" / "inside.txt").write_bytes(b"inside")
    (base / "root" / "deep" / "er").mkdir(parents=True)
    for name in ("root-evil", "outside"):
        (base / name / "secret.txt").write_bytes(b"secret")
        (base / name / "folder").mkdir()
    return World(base, local_backend(base / "root"))
