"""What our programs tell people to type, read from the texts in their source: commands, slash commands, keys."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

import click
from deep_cli.chat.slash_commands import COMMANDS
from deep_cli.main import deep

from deep_core import AgentConfig
from tests.environments import REPOSITORY

__all__ = ["PLACE", "Hint", "canonical", "hints", "hints_of", "texts"]

PLACE = "…"
"""Stands for what a text takes from elsewhere, and in a hint for the value of an option and for an argument."""
_BEGIN = re.compile(r"(?<![\w/.-])(?P<tick>`?)deep (?=[a-z`-])")
_WORD = re.compile(r'"[^"]*"|\'[^\']*\'|[^\s"\']+')
_END = re.compile(r"[.,;:)\]]+$")
_SLASH = re.compile(r"(?:(?<=[\s(`])|^)(/[a-z]+)(?![\w/.…-])")
_TABLE = re.compile(r"\[(agent|plugins)((?:\.[\w.]+)?)\] ([a-z_]+(?:\.[a-z_]+)*)")
_DOTTED = re.compile(r"(?<![\w.])agent(?:\.[a-z_]+){1,4}(?![\w.(])")


class Hint(NamedTuple):
    """What a text tells a person to type.

    Attributes:
        words: `deep keys set …`, `/retry`, or a key such as `agent.model.context_window`.
        where: the file and the line.
    """

    words: str
    where: str


def hints() -> Iterator[Hint]:
    """Yield the hints of the kernel and of our plugins."""
    for file in sorted([*REPOSITORY.glob("deep_core/**/*.py"), *REPOSITORY.glob("plugins/*/src/**/*.py")]):
        if "suites_of_ours" in file.parts:  # what a task is about: one has a conflict
            continue
        for line, text in texts(file.read_text("utf-8")):
            for words in hints_of(text):
                yield Hint(words, f"{file.relative_to(REPOSITORY)}:{line}")


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines and the texts of a program, without its docstrings."""
    tree = ast.parse(source)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in ast.walk(node) if part is not node and isinstance(part, ast.Constant))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else PLACE for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def hints_of(text: str) -> Iterator[str]:
    """Yield what a text tells to type."""
    text = re.sub(r"\{[^{}]*\}|%s", PLACE, text)
    for found in _BEGIN.finditer(text):
        rest = text[found.end() :].partition("\n")[0]
        exact = bool(found["tick"])
        command = canonical(_WORD.findall(rest.partition("`")[0] if exact else rest), exact=exact)
        if command is not None:
            yield command
    yield from (found[1] for found in _SLASH.finditer(text) if found[1] in COMMANDS)
    keys = [f"{found[1]}{found[2]}.{found[3]}" for found in _TABLE.finditer(text)] + _DOTTED.findall(text)
    yield from (key for key in keys if key.split(".")[1] in AgentConfig.model_fields or key.startswith("plugins."))


def canonical(words: list[str], *, exact: bool) -> str | None:
    """Return the command that words begin with, with `…` for values; None if they begin with none.

    Args:
        words: what follows `deep`.
        exact: whether the command ends with the words; else it ends before the prose.
    """
    command: click.Command = deep
    found: list[str] = []
    ctx = click.Context(deep)
    at, over = 0, False
    while isinstance(command, click.Group) and at < len(words) and not over:
        name, over = _clean(words[at])
        inner = command.get_command(ctx, name) if name else None
        if inner is None:
            break
        ctx = click.Context(inner, parent=ctx)
        command, at = inner, at + 1
        found.append(name)
    if not found:
        return None
    options = {name: param for param in command.params for name in [*param.opts, *param.secondary_opts]}
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    required, takes = any(param.required for param in arguments), bool(arguments)
    while at < len(words) and not over:
        word, over = _clean(words[at])
        at += 1
        if word.startswith("-"):
            found.append(word)
            option = options.get(word)
            if isinstance(option, click.Option) and _takes(option, words[at : at + 1]) and not over:
                _, over = _clean(words[at])
                at += 1
                found.append(PLACE)
        elif takes and word and word != "<" and (exact or required or _is_value(word) or found[-1] == PLACE):
            found += [PLACE] if found[-1] != PLACE or found[-2][:2] == "--" != found[-2] else []
        else:
            break
    return " ".join(["deep", *found])


def _clean(word: str) -> tuple[str, bool]:
    """Return a word without the punctuation behind it, and whether it had any."""
    return _END.sub("", word), _END.search(word) is not None


def _takes(option: click.Option, following: list[str]) -> bool:
    """Whether an option takes the next word as its value."""
    if option.is_flag or option.count or not following:
        return False
    return _is_value(following[0]) if option.to_info_dict()["flag_value"] is not None else True


def _is_value(word: str) -> bool:
    return PLACE in word or word[0] in "\"'" or _clean(word)[0].isupper()
