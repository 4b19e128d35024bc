"""`deep new`: create a plugin, ready to install, test and publish."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ..built_in import BUILT_IN
from ..failure import FAILED, USAGE, Failure
from ..flags import verbose_option
from ..terminal.output import ask, say
from .naming import distribution_problem, module_problem, parse_name, plugin_problem, text_problem
from .template import Answer, complete, questions, render

__all__ = ["new"]

KINDS = questions().contributions
CHECKS: dict[str, Callable[[str], str]] = {
    "description": text_problem,
    "distribution": distribution_problem,
    "module": module_problem,
    "author": text_problem,
    "email": text_problem,
}


def _kinds(text: str) -> tuple[str, ...]:
    """Parse kinds of contribution: `toolset,prompt-section`, `all` or `none`."""
    from deep_core.plugin_api import suggest

    words = [word.strip().lower().replace("-", "_") for word in text.split(",")]
    for word in words:
        if word not in (*KINDS, "all", "none"):
            raise click.BadParameter(
                f"{word!r} is not a kind of contribution.{suggest(word, KINDS)} There are: {', '.join(KINDS)}"
            )
    return KINDS if "all" in words else tuple(kind for kind in KINDS if kind in words)


def _parse_kinds(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    chosen = [kind for text in value for kind in _kinds(text)]
    return tuple(kind for kind in KINDS if kind in chosen) if value else None


@click.command()
@click.argument("plugin", metavar="PLUGIN")
@click.option(
    "--with",
    "kinds",
    callback=_parse_kinds,
    multiple=True,
    metavar="KIND,…",
    help=f"What it contributes, toolset by default: {', '.join(KINDS)}; all; none.",
)
@click.option("--description", metavar="TEXT", help="Its summary, in one sentence.")
@click.option("--distribution", metavar="NAME", help="Its name for pip; deep-PLUGIN by default.")
@click.option("--module", metavar="NAME", help="The Python package; like the distribution by default.")
@click.option("--author", metavar="NAME", help="Your name; by default git's user.name.")
@click.option("--email", metavar="ADDRESS", help="Published with the package; empty by default.")
@click.option("--license", type=click.Choice(questions().licenses), help="Its license; MIT by default.")
@click.option(
    "--output-dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="The parent folder; the current one by default.",
)
@click.option("--no-input", is_flag=True, help="Ask nothing; take the defaults.")
@verbose_option
def new(plugin: str, kinds: tuple[str, ...] | None, output_dir: Path, no_input: bool, **options: str | None) -> None:
    """Create a new plugin from the template.

    PLUGIN is its name (weather: lower-case letters, digits and _) or its distribution's (deep-weather, acme-weather).
    On a terminal the command asks for missing options. It makes a folder with a distribution and its tests, and never
    overwrites one.
    """
    from deep_core import __version__

    plugin, distribution = parse_name(plugin)
    _refuse("PLUGIN", plugin_problem(plugin))
    # The new plugin needs the deep-agent-core that it is tested with first.
    answers: dict[str, Answer] = {"plugin": plugin, "deep_core": __version__}
    if distribution is not None:
        answers["distribution"] = distribution
    answers |= {name: text for name, text in options.items() if text is not None}
    for name in answers.keys() & CHECKS.keys():
        _refuse(f"--{name}", CHECKS[name](str(answers[name])))
    if sys.stdin.isatty() and not no_input:
        _ask(answers)
        kinds = _ask_kinds() if kinds is None else kinds
    answers.setdefault("author", _git_author())
    if kinds is not None:
        answers |= {kind: kind in kinds for kind in KINDS}
    full = complete(answers)
    for name, check in CHECKS.items():
        _refuse(f"--{name}", check(str(full[name])))
    if full["command"]:
        _refuse("PLUGIN", plugin_problem(plugin, BUILT_IN))
    _note_installed(plugin)
    folder = _write(output_dir, str(full["distribution"]), render(answers))
    _tell(folder, [kind for kind in KINDS if full[kind]], str(full["plugin"]))


def _refuse(what: str, problem: str) -> None:
    if problem:
        raise Failure(f"{what}: {problem}", USAGE)


def _git_author() -> str:
    from deep_core.plugin_api import find_program

    git = find_program("git")
    if git is not None:
        process = subprocess.run([git, "config", "user.name"], capture_output=True, encoding="utf-8", check=False)
        name = process.stdout.strip()
        if name and not text_problem(name):
            return name
    return str(questions().defaults["author"])


def _ask(answers: dict[str, Answer]) -> None:
    """Ask for missing options; Enter takes the default. Repeat a question after an invalid answer."""
    form = questions()
    for name, check in CHECKS.items():
        if name not in answers:
            default = _git_author() if name == "author" else str(complete(answers)[name])
            answers[name] = ask(form.prompts[name], default=default, parse=_as_value_proc(check))
    if "license" not in answers:
        answers["license"] = ask(form.prompts["license"], default=form.licenses[0], among=form.licenses)


def _as_value_proc(check: Callable[[str], str]) -> Callable[[str], str]:
    def convert(value: str) -> str:
        problem = check(value)
        if problem:
            raise click.UsageError(problem)
        return value

    return convert


def _ask_kinds() -> tuple[str, ...]:
    form = questions()
    say("What does it contribute?")
    for kind in KINDS:
        say(f"  {kind:18} {form.prompts[kind]}")
    default = ",".join(kind for kind in KINDS if form.defaults[kind])
    return ask("Names separated by commas, all, or none", default=default, parse=_kinds)


def _note_installed(plugin: str) -> None:
    from deep_core.plugin_api import find_plugins

    for record in find_plugins().records:
        if record.name == plugin:
            note = f"note: {record.distribution} already has a plugin {plugin}; if both are installed, neither is used"
            say(note, err=True)


def _write(parent: Path, name: str, files: dict[str, str]) -> Path:
    """Write all files or none, into a temporary folder that is renamed at the end."""
    target = parent / name
    try:
        parent.mkdir(parents=True, exist_ok=True)
        if target.exists() or target.is_symlink():
            raise Failure(f"{target} exists; move it away, or use --output-dir", USAGE)
        with TemporaryDirectory(prefix=".deep-new-", dir=parent) as beside:
            draft = Path(beside) / name
            for path, text in files.items():
                (draft / path).parent.mkdir(parents=True, exist_ok=True)
                (draft / path).write_text(text, encoding="utf-8", newline="\n")
            draft.rename(target)
    except OSError as error:
        raise Failure(f"{target}: {error.strerror or error}", FAILED) from error
    return target


def _tell(folder: Path, kinds: list[str], plugin: str) -> None:
    brings = ", ".join(kind.replace("_", " ") for kind in kinds) or "nothing yet"
    say(f"Made {folder}: the plugin {plugin} ({brings}).\n\nNext:")
    lines = [f"cd {shlex.quote(str(folder))}", "pip install -e '.[dev]'", "pytest", "deep explain"]
    say("\n".join(f"  {line}" for line in lines))
