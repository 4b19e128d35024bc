"""A forked program is one of its environment, and ends as a started one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.authors_pytest import IN_A_FORK
from tests.environments import REPOSITORY, Distribution, Environment

ASK = "import {0}; answer([{0}.__file__, {0}.__spec__.origin])"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """One that has deep-agent-core, deep-cli and deep-sessions, which deep-cli imports."""
    environment = Environment.create(tmp_path)
    environment.install(*(Distribution.of_project(REPOSITORY / "plugins" / name) for name in ("cli", "sessions")))
    return environment


def test_a_module_is_the_file_of_the_environment(environment: Environment) -> None:
    for module in ("deep_cli.main", "deep_sessions", "deep_sessions.runner"):
        file, origin = environment.ask(ASK.format(module), start=False)
        assert file == origin
        assert Path(str(file)).is_relative_to(environment.site)
    assert environment.ask(ASK.format("deep_core"), start=False)[0] == str(REPOSITORY / "deep_core" / "__init__.py")


def test_a_module_that_the_environment_lacks_cannot_be_imported(environment: Environment) -> None:
    code = """
import sys
try:
    import deep_todo
except ModuleNotFoundError as error:
    answer([error.name, sys.prefix, sys.argv, __name__])
"""
    assert environment.ask(code, start=False) == ["deep_todo", str(environment.prefix), ["-c"], "__main__"]


@pytest.mark.parametrize(
    "program",
    [
        "print('out'); raise SystemExit('a text')",
        "import sys; sys.exit(7)",
        "import sys; sys.exit()",
        "1 / 0",
        "raise KeyboardInterrupt",
        "import os; os.kill(os.getpid(), 9)",
        "import atexit; atexit.register(print, 'at the end')",
        "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
        "import sys; print('out'); sys.stdout.close()",
        "import os; print(os.read(0, 1))",
    ],
)
def test_it_ends_as_a_started_one_does(environment: Environment, program: str) -> None:
    forked, started = environment.fork("-c", program), environment.run(environment.python, "-c", program)
    assert (forked.code, forked.out) == (started.code, started.out)
    assert forked.err.splitlines()[-1:] == started.err.splitlines()[-1:]


@pytest.mark.slow
def test_pytest_leaves_the_temporary_files_of_other_runs_alone(environment: Environment) -> None:
    environment.install(Distribution.of_project(REPOSITORY / "plugins" / "pytest-deep"))
    (environment.work / "test_where.py").write_text("def test_where(tmp_path):\n    print(tmp_path)\n", "utf-8")
    done = environment.fork("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:asyncio", *IN_A_FORK).ok()
    assert str(environment.root / "pytest-of-") in done.out
