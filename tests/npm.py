"""Packages from npm's registry, for tests against the real programs and libraries of others."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.local_wheels import made_once

__all__ = ["install"]


def install(factory: pytest.TempPathFactory, *packages: str) -> Path:
    """Install packages, once in a run of pytest; return their `node_modules`.

    Skip the test if the registry does not give them.

    Args:
        factory: the fixture.
        packages: as `name@version`.
    """
    name = f"npm-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:8]}"
    return made_once(factory, name, lambda folder: _install(folder, packages)) / "node_modules"


def _install(folder: Path, packages: tuple[str, ...]) -> None:
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs npm's registry: npm install {' '.join(packages)}: {done.stderr[-200:]}")
