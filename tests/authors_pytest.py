"""A run of pytest like a plugin author's, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

__all__ = ["IN_A_FORK", "RunPytest", "authors_pytest"]

IN_A_FORK = ("-W", "ignore::pytest.PytestAssertRewriteWarning", "-W", "ignore:::trio._core._run")
"""Arguments for pytest. In a fork it warns of its plugins that were imported before it could rewrite them, and
hypothesis of the random numbers of trio."""

RunPytest = Callable[..., pytest.RunResult]
"""The fixture `run_pytest` of the test kit's tests."""


def authors_pytest(folder: Path, *arguments: str) -> list[str]:
    """The command that runs pytest with these arguments, and keeps its temporary files in the folder."""
    own = ("-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'temporary'}")
    return [sys.executable, "-m", "pytest", *own, *arguments]
