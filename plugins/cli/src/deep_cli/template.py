"""The template of a plugin, rendered as cookiecutter renders it: its questions, and the files for given answers.

cookiecutter itself (2.7) would bring fifteen distributions to every user of `deep` and 290 ms to this command; Jinja2
brings two, and 60 ms. That both make the same files is tested.
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
    """What the template asks.

    Attributes:
        defaults: question -> default: a text (maybe made from earlier answers), a list of choices, or yes or no. Names
            with two underscores are no questions; they are made from the answers.
        prompts: question -> how it is asked.
        syntax: settings of the template language.
    """

    defaults: Mapping[str, str | list[str] | bool]
    prompts: Mapping[str, str]
    syntax: Mapping[str, Any]

    @property
    def contributions(self) -> tuple[str, ...]:
        """The kinds of contribution that can be chosen."""
        return tuple(name for name, default in self.defaults.items() if isinstance(default, bool))

    @property
    def licences(self) -> tuple[str, ...]:
        """The licences that can be chosen, the default first."""
        choices = self.defaults["licence"]
        return tuple(choices) if isinstance(choices, list) else ()


def template() -> Traversable:
    """The folder of the template.

    In a wheel it is package data, put there by hatch_build.py. In a checkout there is only the original.

    Raises:
        FileNotFoundError: it is in neither place, so the installation is not complete.
    """
    packaged = files("deep_cli").joinpath(FOLDER)
    if packaged.joinpath("cookiecutter.json").is_file():
        return packaged
    # plugins/cli/src/deep_cli/template.py: the checkout is four directories up.
    original = Path(__file__).resolve().parents[4] / FOLDER
    if (original / "cookiecutter.json").is_file():
        return original
    raise FileNotFoundError(
        f"the template of deep new is neither at {packaged} nor at {original}; "
        "mend it with: pip install --force-reinstall --no-deps deep-cli"
    )


@cache
def questions() -> Questions:
    """What the template asks, from its cookiecutter.json."""
    data: dict[str, Any] = json.loads(template().joinpath("cookiecutter.json").read_text(encoding="utf-8"))
    prompts, syntax = data.pop("__prompts__"), data.pop("_jinja2_env_vars")
    return Questions(data, prompts, syntax)


def complete(answers: Mapping[str, Answer]) -> dict[str, Answer]:
    """The answers, with the default of every question that has none, and with what is made from them.

    Raises:
        KeyError: an answer to something that is not asked.
    """
    asked = questions()
    for name in answers:
        asked.defaults[name]
    full: dict[str, Answer] = {}
    for name, default in asked.defaults.items():
        if name in answers:
            full[name] = answers[name]
        elif isinstance(default, bool):
            full[name] = default
        else:
            text = default if isinstance(default, str) else default[0]
            full[name] = _parsed(text).render(cookiecutter=full)
    return full


def render(answers: Mapping[str, Answer]) -> dict[str, str]:
    """The files of a plugin: path, with `/`, below the plugin's own folder -> text. Nothing is written.

    Raises:
        KeyError: an answer to something that is not asked.
    """
    full = complete(answers)
    (root,) = (entry for entry in template().iterdir() if entry.is_dir() and "{{" in entry.name)

    def expand(text: str) -> str:
        return _parsed(text).render(cookiecutter=full)

    def walk(folder: Traversable, above: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            name = expand(entry.name)
            if not name or entry.name in CACHES:
                continue
            if entry.is_dir():
                found |= walk(entry, f"{above}{name}/")
            else:
                found[above + name] = expand(entry.read_text(encoding="utf-8"))
        return found

    return walk(root, "")


@cache
def _parsed(text: str) -> Template:
    from jinja2 import Environment, StrictUndefined

    # What is rendered is source code, not HTML.
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, **questions().syntax)  # noqa: S701
    return environment.from_string(text)
