"""The versions that constraints.txt pins can be installed wherever `make test` says that it works."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, metadata

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.environments import REPOSITORY

OLDEST = "3.11.0"


def test_pinned_versions_accept_the_oldest_python() -> None:
    """Debian 12 has Python 3.11.2. A pin that needs 3.11.5 makes `make test` fail there, and only there."""
    refused: dict[str, str] = {}
    for line in (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines():
        try:
            python = str(metadata(Requirement(line).name).json.get("requires_python", ""))
        except PackageNotFoundError:  # a pin for another system
            continue
        if not SpecifierSet(python).contains(OLDEST):
            refused[line] = python
    assert refused == {}
