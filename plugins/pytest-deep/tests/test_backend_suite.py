"""The suite for backends: a confined one passes it, and one that confines nothing fails where it should."""

from __future__ import annotations

from pathlib import Path

import pytest
from deep_backends import local_backend, memory_backend
from pydantic_ai.workspaces import LocalWorkspaceBackend, WorkspaceBackend
from pytest_deep import BackendConformance
from pytest_deep.backend_suite import WAYS

pytest_plugins = ["pytester"]


class TestLocal(BackendConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return local_backend(tmp_path)


class TestMemory(BackendConformance):
    @pytest.fixture
    def backend(self) -> WorkspaceBackend:
        return memory_backend()


class TestUnconfinedByDesign(BackendConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return LocalWorkspaceBackend(tmp_path)

    @pytest.fixture
    def outside(self) -> None:
        return None


AUTHOR = """
import pytest
from pydantic_ai.workspaces import LocalWorkspaceBackend
from pytest_deep import BackendConformance

class TestOpen(BackendConformance):
    @pytest.fixture
    def backend(self, tmp_path):
        return LocalWorkspaceBackend(tmp_path)
"""


def test_a_backend_that_confines_nothing_is_caught(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(AUTHOR)
    result = pytester.runpytest_subprocess("-q", "-k", "outside", "-p", "no:cacheprovider")
    # Each way out is read twice and listed; removing a link removes the link.
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] >= 3 * len(WAYS), outcomes
    result.stdout.fnmatch_lines(["*read a file outside of the workspace. Change: resolve links*"])
    result.stdout.fnmatch_lines(["*changed files outside of the workspace*"])
