"""Packages from npm's registry, for tests against the real programs and libraries of others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

__all__ = ["install"]


def install(folder: Path, *packages: str) -> Path:
    """Install packages; return their `node_modules`. Skip the test if the registry does not give them.

    Args:
        folder: where to install them.
        packages: as `name@version`.
    """
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs npm's registry: npm install {' '.join(packages)}: {done.stderr[-200:]}")
    return folder / "node_modules"
