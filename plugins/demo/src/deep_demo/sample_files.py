"""The small real project that the demo works on, wherever this distribution was installed."""

from __future__ import annotations

import os
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

__all__ = ["copy_sample_project", "sample_project"]

SKIPPED = frozenset(["__pycache__", ".ruff_cache", ".pytest_cache"])
"""What running its tests in place leaves behind."""


def sample_project() -> Traversable:
    """The directory of the sample project; read it, and work on a copy.

    In a wheel it is package data (`sample/`, put there by hatch_build.py). In a checkout there is only the original,
    `examples/sample-project`.

    Raises:
        FileNotFoundError: it is in neither place, so the installation is not complete.
    """
    packaged = files("deep_demo").joinpath("sample")
    if packaged.joinpath("README.md").is_file():
        return packaged
    # plugins/demo/src/deep_demo/sample_files.py: the checkout is four directories up.
    original = Path(__file__).resolve().parents[4] / "examples" / "sample-project"
    if (original / "README.md").is_file():
        return original
    raise FileNotFoundError(
        f"deep-demo's sample project is neither at {packaged} nor at {original}; "
        "mend it with: pip install --force-reinstall --no-deps deep-demo"
    )


def copy_sample_project(destination: str | os.PathLike[str]) -> Path:
    """Copy the sample project's files, byte for byte, into a directory.

    Args:
        destination: made if it is not there; nothing may be in it.

    Returns:
        The directory, resolved.

    Raises:
        FileExistsError: there is something in it.
        FileNotFoundError: see `sample_project`.
    """
    target = Path(destination).resolve()
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty; the sample project is copied into a new or empty directory")
    _copy(sample_project(), target)
    return target


def _copy(source: Traversable, target: Path) -> None:
    for entry in source.iterdir():
        if entry.name in SKIPPED:
            continue
        if entry.is_dir():
            (target / entry.name).mkdir()
            _copy(entry, target / entry.name)
        else:
            (target / entry.name).write_bytes(entry.read_bytes())
