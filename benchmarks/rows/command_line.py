"""Command line and import with 50, 300 and 1,000 distributions installed: milliseconds beyond `python -c pass`."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import REPOSITORY, Contender, Figure, Goal, Spread, scratch
from tests.environments import Distribution, Environment

__all__ = ["measure"]

ROUNDS = 9
INSTALLED = {50: 70, 300: 80, 1000: 110}
"""Distributions -> goal of `deep plugins list`, in milliseconds."""
PLUGINS = sorted(path.parent for path in (REPOSITORY / "plugins").glob("*/src"))


def measure(contenders: Sequence[Contender]) -> list[Figure]:
    """Only ours: there is nothing to compare with but the interpreter."""
    return [figure for installed, goal in INSTALLED.items() for figure in _at(installed, goal)]


def _at(installed: int, goal: float) -> list[Figure]:
    with scratch() as root:
        environment = Environment.create(root)
        _fill(environment, installed)
        python = str(environment.python)
        commands = {
            "python": [python, "-c", "pass"],
            "import deep_core": [python, "-c", "import deep_core"],
            "deep --version": [python, "-m", "deep_cli", "--version"],
            "deep plugins list": [python, "-m", "deep_cli", "plugins", "list"],
        }
        goals = {"import deep_core": 30, "deep --version": 40, "deep plugins list": goal}
        taken: list[dict[str, float]] = []
        for _ in range(ROUNDS + 1):
            taken.append({name: _seconds(command, environment) for name, command in commands.items()})
    out: list[Figure] = []
    for name, limit in goals.items():
        beyond = Spread.of([(each[name] - each["python"]) * 1000 for each in taken[1:]])
        title = f"{name}, {installed:,} distributions"
        out.append(Figure(title, "ms beyond python -c pass", {"ours": beyond}, Goal(limit), digits=0))
    return out


def _fill(environment: Environment, installed: int) -> None:
    """Ours, as installed from wheels, and others that are no plugins."""
    metadata = f"{environment.site}/deep_core-0.1.0.dist-info"
    Path(metadata).mkdir()
    Path(metadata, "METADATA").write_text("Metadata-Version: 2.1\nName: deep-core\nVersion: 0.1.0\n")
    environment.install(*(Distribution.of_project(folder) for folder in PLUGINS))
    rest = installed - len(PLUGINS) - 1
    others = [Distribution(f"library-{number}", requires=()) for number in range(rest)]
    environment.install(*others)
    for number, other in enumerate(others):
        points = environment.site / other.dist_info / "entry_points.txt"
        if number % 4:
            points.unlink()
        else:  # about as many as in a real environment have a command
            points.write_text(f"[console_scripts]\nlibrary-{number} = library_{number}:main\n")


def _seconds(command: Sequence[str], environment: Environment) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=environment.work, env=environment.variables(), capture_output=True, check=True)
    return time.perf_counter() - began
