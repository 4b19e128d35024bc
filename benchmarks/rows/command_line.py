"""Command line and import with 50, 300 and 1,000 distributions installed: milliseconds beyond `python -c pass`."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.measure import REPOSITORY, Bench, Figure, Goal, lockstep, only
from tests.environments import Distribution, Environment

__all__ = ["child", "measure"]

ROUNDS = 9
INSTALLED = {50: 70, 300: 80, 1000: 110}
"""Distributions -> goal of `deep plugins list`, in milliseconds."""
PLUGINS = sorted(path.parent for path in (REPOSITORY / "plugins").glob("*/src"))
COMMANDS = {
    "import deep_core": ["-c", "import deep_core"],
    "deep --version": ["-m", "deep_cli", "--version"],
    "deep plugins list": ["-m", "deep_cli", "plugins", "list"],
}


def measure(bench: Bench) -> list[Figure]:
    """Measure ours beside the interpreter alone."""
    out: list[Figure] = []
    for installed, limit in INSTALLED.items():
        taken = lockstep(bench.ours, "command_line", bench.rounds(ROUNDS), 1, installed=installed)
        for name, goal in {"import deep_core": 30, "deep --version": 40, "deep plugins list": limit}.items():
            title = f"{name}, {installed:,} distributions"
            out.append(bench.figure(title, "ms beyond python -c pass", only(taken, name), Goal(goal), digits=0))
    return out


def child(module: str, answer: Callable[[dict[str, float] | None], None], *, installed: int) -> None:
    """Time each command, less what the interpreter takes. A first time writes the kernel's cache."""
    with tempfile.TemporaryDirectory() as directory:
        environment = Environment.create(Path(directory).resolve())
        _fill(environment, installed)

        def beyond() -> dict[str, float]:
            python = _ms(["-c", "pass"], environment)
            return {name: _ms(command, environment) - python for name, command in COMMANDS.items()}

        beyond()
        answer(None)
        while True:
            answer(beyond())


def _fill(environment: Environment, installed: int) -> None:
    """Install ours as from wheels, and distributions that are no plugins."""
    metadata = f"{environment.site}/deep_core-0.1.0.dist-info"
    Path(metadata).mkdir()
    Path(metadata, "METADATA").write_text("Metadata-Version: 2.1\nName: deep-agent-core\nVersion: 0.1.0\n")
    environment.install(*(Distribution.of_project(folder) for folder in PLUGINS))
    rest = installed - len(PLUGINS) - 1
    others = [Distribution(f"library-{number}", requires=()) for number in range(rest)]
    environment.install(*others)
    for number, other in enumerate(others):
        points = environment.site / other.dist_info / "entry_points.txt"
        if number % 4:
            points.unlink()
        else:  # in a real environment about every fourth has a command
            points.write_text(f"[console_scripts]\nlibrary-{number} = library_{number}:main\n")


def _ms(command: Sequence[str], environment: Environment) -> float:
    began = time.perf_counter()
    subprocess.run(
        [environment.python, *command],
        cwd=environment.work,
        env=environment.variables(),
        capture_output=True,
        check=True,
    )
    return (time.perf_counter() - began) * 1000
