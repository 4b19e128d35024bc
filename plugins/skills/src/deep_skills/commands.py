"""`deep skills check`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

import click
from deep_cli import config_option, one_line, say, say_json

from deep_core import Kernel, SkillLoader

from .by_hand import check_skills
from .discovery import Scan
from .problem import Problem

__all__ = ["skills"]

PLUGIN = "skills"
FAILED = 1


@runtime_checkable
class Checked(Protocol):
    """A loader that can say without a session what is wrong with its skills."""

    def check(self, *, strict: bool) -> Scan:
        """Search, and report every problem."""
        ...


@click.group("skills")
def skills() -> None:
    """Check the skills of the agent."""


@skills.command("check")
@click.argument("folders", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--strict", is_flag=True, help="Check as the reference validator of the standard does.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", help="Format of stdout. Default: text.")
@config_option
def check(folders: tuple[Path, ...], strict: bool, output: str, config: Path | None) -> None:
    """Report every problem of the agent's skills, or of those in FOLDERS. Exits with 1 if a skill is left out."""
    if folders:
        problems = check_skills(folders, strict=strict)
        count = None
    else:
        scans = _scan_all(config, strict=strict)
        problems = [problem for scan in scans for problem in scan.problems]
        count = sum(len(scan.skills) for scan in scans)
    skipped = sum(problem.fatal for problem in problems)
    if output == "json":
        say_json({"schema": 1, "skills": count, "problems": [_facts(problem) for problem in problems]})
    else:
        for problem in problems:
            say(f"{one_line(str(problem), None)}{' (skipped)' if problem.fatal else ''}")
        found = "" if count is None else f"{count} skills, "
        say(f"{found}problems: {len(problems)}, left out: {skipped}", err=True)
    if skipped:
        raise SystemExit(FAILED)


def _facts(problem: Problem) -> dict[str, object]:
    return {"path": problem.path, "line": problem.line, "message": problem.message, "skipped": problem.fatal}


def _scan_all(config: Path | None, *, strict: bool) -> list[Scan]:
    """Search with every plugin's loaders that need no session."""
    with Kernel(config=config) as kernel:
        found = [loader for loader in _loaders(kernel) if isinstance(loader, Checked)]
        return [loader.check(strict=strict) for loader in found]


def _loaders(kernel: Kernel) -> list[SkillLoader]:
    """Ask without an agent, which takes most of a second; with one if a plugin's loaders need it."""
    failed: list[str] = []
    found = kernel.caller.collect(
        "deep_skill_loaders",
        lambda plugin: {"context": kernel.context(plugin)},
        among=kernel.active,
        drop=lambda plugin, where, error: failed.append(plugin),
    )
    if failed:
        from deep_core import agent_context

        found = agent_context(kernel.create_agent("test"), PLUGIN).collect("deep_skill_loaders")
    return [contribution.value for contribution in found]
