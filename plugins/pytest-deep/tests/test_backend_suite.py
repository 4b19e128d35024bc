"""The suite for backends: a confined one passes, and an unconfined one fails the right tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from deep_backends import local_backend, memory_backend, sandbox_backend
from pydantic_ai.workspaces import LocalWorkspaceBackend, WorkspaceBackend
from pytest_deep import BackendConformance
from pytest_deep.backend_suite import WAYS

from tests.authors_pytest import RunPytest
from tests.rules import own_rules_only, without

pytest_plugins = ["pytester"]


STAYS = (
    "test_a_background_command_is_read_typed_to_and_ends",
    "test_a_background_command_is_stopped_with_all_that_it_started",
)


@pytest.fixture(autouse=True)
def data(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))


@own_rules_only
class TestLocal(BackendConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return local_backend(tmp_path)


@pytest.mark.needs("bubblewrap")
@own_rules_only
class TestSandbox(BackendConformance):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> WorkspaceBackend:
        return sandbox_backend(tmp_path)


@own_rules_only
@without(*STAYS)
class TestMemory(BackendConformance):
    @pytest.fixture
    def backend(self) -> WorkspaceBackend:
        return memory_backend()


@own_rules_only
@without("test_nothing_outside_is_read", "test_nothing_outside_is_changed", *STAYS)  # as listed, which skips
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


@pytest.mark.slow
def test_a_backend_that_confines_nothing_is_caught(pytester: pytest.Pytester, run_pytest: RunPytest) -> None:
    pytester.makepyfile(AUTHOR)
    result = run_pytest("-k", "outside")
    # Each way out is read twice and listed; removing a link removes the link.
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] >= 3 * len(WAYS), outcomes
    result.stdout.fnmatch_lines(["*read a file outside of the workspace. Fix: resolve links*"])
    result.stdout.fnmatch_lines(["*changed files outside of the workspace*"])


WITHOUT_COMMANDS = """
import gc
import pytest
from deep_backends import memory_backend
from pytest_deep import BackendConformance

class TestFilesOnly(BackendConformance):
    @pytest.fixture
    def backend(self):
        return memory_backend()

def test_nothing_is_left_to_be_logged(caplog):
    gc.collect()
    assert caplog.messages == []
"""


@pytest.mark.exhaustive
def test_what_a_backend_without_commands_skips_leaves_no_failed_task(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    pytester.makepyfile(WITHOUT_COMMANDS)
    result = run_pytest("-k", "cancellation or logged")
    result.assert_outcomes(passed=1, skipped=1)
