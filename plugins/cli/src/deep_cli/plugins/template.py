"""Render the plugin template as cookiecutter does: its questions, and the files for given answers.

cookiecutter itself (2.7) would add fifteen distributions for every user of `deep`, and 290 ms to this command; Jinja2
adds two, and 60 ms. A test shows that both render the same files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["Answer", "Questions", "complete", "questions", "render", "template"]

FOLDER = "cookiecutter-plugin"
CACHES = ("__pycache__", ".ruff_cache", ".pytest_cache")
Answer: TypeAlias = "str | bool"


@dataclass(frozen=True)
class Questions:
    """The template's questions.

    Attributes:
        defaults: question -> default: a text (possibly built from earlier answers), a list of choices, or yes or no.
            Names with two underscores are no questions; answers determine them.
        prompts: question -> its text.
        syntax: settings of Jinja2.
    """

    defaults: Mapping[str, str | list[str] | bool]
    prompts: Mapping[str, str]
    syntax: Mapping[str, Any]

    @property
    def contributions(self) -> tuple[str, ...]:
        """The kinds of contribution to choose from."""
        return tuple(name for name, default in self.defaults.items() if isinstance(default, bool))

    @property
    def licenses(self) -> tuple[str, ...]:
        """The licenses to choose from, the default first."""
        choices = self.defaults["license"]
        return tuple(choices) if isinstance(choices, list) else ()


def template() -> Traversable:
    """The template's folder.

    A wheel has it as package data, added by hatch_build.py. A checkout has only the original.

    Raises:
        FileNotFoundError: it is in neither place, so the installation is incomplete.
    """
    package_data = files("deep_cli").joinpath(FOLDER)
    if package_data.joinpath("cookiecutter.json").is_file():
        return package_data
    # plugins/cli/src/deep_cli/plugins/template.py: the checkout is five directories up.
    original = Path(__file__).resolve().parents[5] / FOLDER
    if (original / "cookiecutter.json").is_file():
        return original
    raise FileNotFoundError(
        f"`deep new NAME` finds its template neither at {package_data} nor at {original}; "
        "reinstall deep-cli: pip install --force-reinstall --no-deps deep-cli"
    )


@cache
def questions() -> Questions:
    """Read the template's questions from its cookiecutter.json."""
    data: dict[str, Any] = json.loads(template().joinpath("cookiecutter.json").read_text(encoding="utf-8"))
    prompts, syntax = data.pop("__prompts__"), data.pop("_jinja2_env_vars")
    return Questions(data, prompts, syntax)


def complete(answers: Mapping[str, Answer]) -> dict[str, Answer]:
    """Complete the answers with the defaults, and with the values that they determine.

    Raises:
        KeyError: an answer to an unknown question.
    """
    form = questions()
    for name in answers:
        form.defaults[name]
    full: dict[str, Answer] = {}
    for name, default in form.defaults.items():
        if name in answers:
            full[name] = answers[name]
        elif isinstance(default, bool):
            full[name] = default
        else:
            text = default if isinstance(default, str) else default[0]
            full[name] = _parse(text).render(cookiecutter=full)
    return full


def render(answers: Mapping[str, Answer]) -> dict[str, str]:
    """Render a plugin's files: path, with `/`, below the plugin's folder -> text. Writes nothing.

    Raises:
        KeyError: an answer to an unknown question.
    """
    full = complete(answers)
    (root,) = (entry for entry in template().iterdir() if entry.is_dir() and "{{" in entry.name)

    def expand(text: str) -> str:
        return _parse(text).render(cookiecutter=full)

    def walk(folder: Traversable, above: str) -> dict[str, str]:
        texts: dict[str, str] = {}
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            name = expand(entry.name)
            if not name or entry.name in CACHES:
                continue
            if entry.is_dir():
                texts |= walk(entry, f"{above}{name}/")
            else:
                texts[above + name] = expand(entry.read_text(encoding="utf-8"))
        return texts

    return walk(root, "")


@cache
def _parse(text: str) -> Template:
    from jinja2 import Environment, StrictUndefined

    # The output is source code, not HTML.
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, **questions().syntax)  # noqa: S701
    return environment.from_string(text)
