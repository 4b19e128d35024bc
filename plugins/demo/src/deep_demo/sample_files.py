"""The small real project of the demo, in a wheel or in a checkout."""

from __future__ import annotations

import os
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

__all__ = ["copy_sample_project", "sample_project"]

SKIPPED = frozenset(["__pycache__", ".ruff_cache", ".pytest_cache"])
"""Files that its tests create."""


def sample_project() -> Traversable:
    """Return the directory of the sample project; work on a copy.

    A wheel has it as package data (`sample/`, added by hatch_build.py). A checkout has only the original,
    `examples/sample-project`.

    Raises:
        FileNotFoundError: it is in neither place, so the installation is incomplete.
    """
    package_data = files("deep_demo").joinpath("sample")
    if package_data.joinpath("README.md").is_file():
        return package_data
    # plugins/demo/src/deep_demo/sample_files.py: the checkout is four directories up.
    original = Path(__file__).resolve().parents[4] / "examples" / "sample-project"
    if (original / "README.md").is_file():
        return original
    raise FileNotFoundError(
        f"deep-demo's sample project is neither at {package_data} nor at {original}; "
        "reinstall deep-demo: pip install --force-reinstall --no-deps deep-demo"
    )


def copy_sample_project(destination: str | os.PathLike[str]) -> Path:
    """Copy the sample project's files, byte for byte, into a directory.

    Args:
        destination: created if missing; must be empty.

    Returns:
        The directory, resolved.

    Raises:
        FileExistsError: it is not empty.
        FileNotFoundError: see `sample_project`.
    """
    target = Path(destination).resolve()
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty; choose a new or empty directory")
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
