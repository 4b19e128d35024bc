"""A forked program has the modules of its environment, although the fork has imported ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.authors_pytest import IN_A_FORK
from tests.environments import REPOSITORY, Distribution, Environment

ASK = "import {0}; answer([{0}.__file__, {0}.__spec__.origin, getattr({0}, 'CHANGED', False)])"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """One that has deep-agent-core alone."""
    return Environment.create(tmp_path)


@pytest.fixture
def sessions() -> Distribution:
    """deep-sessions, which deep-cli imports."""
    return Distribution.of_project(REPOSITORY / "plugins" / "sessions")


def where(environment: Environment, module: str) -> list[object]:
    """The file of a module in a forked program, that of its spec, and whether its text was changed."""
    answer: list[object] = environment.ask(ASK.format(module), start=False)
    return answer


@pytest.mark.slow
def test_a_module_is_the_file_of_the_environment(environment: Environment, sessions: Distribution) -> None:
    environment.install(sessions, Distribution.of_project(REPOSITORY / "plugins" / "cli"))
    for module in ("deep_cli.main", "deep_sessions", "deep_sessions.stores", "deep_sessions.runner"):
        file, origin, _ = where(environment, module)
        assert file == origin
        assert Path(str(file)).is_relative_to(environment.site)
    assert where(environment, "deep_core")[0] == str(REPOSITORY / "deep_core" / "__init__.py")


def test_a_module_that_the_environment_has_otherwise_is_the_one_of_the_environment(
    environment: Environment, sessions: Distribution
) -> None:
    path = "deep_sessions/runner.py"
    changed = {**sessions.files, path: sessions.files[path] + "\nCHANGED = True\n"}
    environment.install(replace(sessions, files=changed), Distribution.of_project(REPOSITORY / "plugins" / "cli"))
    assert where(environment, "deep_sessions.runner")[2] is True
    used = "import deep_cli.run.stored, deep_sessions.runner; answer(hasattr(deep_sessions.runner, 'CHANGED'))"
    assert environment.ask(used, start=False) is True


def test_a_module_that_the_environment_lacks_cannot_be_imported_nor_what_needs_it(environment: Environment) -> None:
    environment.install(Distribution.of_project(REPOSITORY / "plugins" / "cli"))
    code = """
failed = []
for name in "deep_sessions", "deep_todo", "deep_cli.run.stored":
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        failed.append([name, error.name])
answer(failed)
"""
    assert environment.ask(code, start=False) == [
        ["deep_sessions", "deep_sessions"],
        ["deep_todo", "deep_todo"],
        ["deep_cli.run.stored", "deep_sessions"],
    ]


@pytest.mark.slow
def test_pytest_leaves_the_temporary_files_of_other_runs_alone(environment: Environment) -> None:
    environment.install(Distribution.of_project(REPOSITORY / "plugins" / "pytest-deep"))
    (environment.work / "test_where.py").write_text("def test_where(tmp_path):\n    print(tmp_path)\n", "utf-8")
    done = environment.fork("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:asyncio", *IN_A_FORK).ok()
    assert str(environment.root / "pytest-of-") in done.out
