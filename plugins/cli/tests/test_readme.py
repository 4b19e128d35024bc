"""The README's commands can be typed, and its JSON is JSON."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from deep_cli.built_in import BUILT_IN
from deep_cli.main import deep

README = (Path(__file__).resolve().parent.parent / "README.md").read_text("utf-8")
TYPED = re.findall(r"^\$ deep (.+)$", README, re.M)
JSON = re.findall(r"^```json\n(.*?)^```", README, re.M | re.S)


def parsed(words: list[str]) -> None:
    """Find the command and parse its arguments, without requiring files."""
    command: Any = deep
    context = click.Context(deep)
    while isinstance(command, click.Group):
        name = words.pop(0)
        command = command.get_command(context, name)
        assert command is not None, name
    known: dict[str, click.Parameter] = {option: p for p in command.params for option in (*p.opts, *p.secondary_opts)}
    positional = [p for p in command.params if isinstance(p, click.Argument)]
    given: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":  # what follows is another program's
            break
        if not word.startswith("-"):
            given.append(word)
            continue
        option = known[word]
        if not getattr(option, "is_flag", False):
            value = words.pop(0)
            if isinstance(option.type, click.Choice):
                option.type.convert(value, option, context)
    if not words:
        assert len(given) <= len(positional) or any(p.nargs == -1 for p in positional)
        assert len(given) >= sum(p.required for p in positional)


@pytest.mark.slow
@pytest.mark.parametrize("line", TYPED)
def test_every_command_of_the_readme_can_be_typed(line: str) -> None:
    parsed(shlex.split(line))


def test_every_command_is_in_the_readme() -> None:
    shown = {tuple(word for word in shlex.split(line)[:2] if re.fullmatch("[a-z-]+", word)) for line in TYPED}
    for name in BUILT_IN:
        command = deep.get_command(click.Context(deep), name)
        if isinstance(command, click.Group):
            for sub in command.list_commands(click.Context(command)):
                assert (name, sub) in shown
        else:
            assert any(words[0] == name for words in shown)


@pytest.mark.parametrize("text", JSON)
def test_every_json_of_the_readme_is_json_of_schema_1(text: str) -> None:
    assert json.loads(text)["schema"] == 1


def test_the_report_of_the_readme_has_the_keys_of_a_report() -> None:
    from deep_cli import RunReport
    from deep_cli.run.report import Decision, Denial, PromptCost, Step

    step, decision = Step("t", "p", {}, "success", 1.0), Decision("t", "p", {}, True, "you")
    from deep_cli import FileChange

    report = RunReport(
        status="done", output="", error=None, model="m", backend="b", requests=1, input_tokens=1, output_tokens=1,
        steps=(step,), decisions=(decision,), files=(FileChange("a", "added"),), files_by="folder", session="s",
        prompt=PromptCost(1, {}), denials=(Denial("t", "p", "policy", "no", 0),),
    )  # fmt: skip
    shown = next(json.loads(text) for text in JSON if '"exit_code"' in text)
    real = report.to_json()
    assert set(shown) == set(real)
    for key in ("steps", "approvals", "denials", "files"):
        assert set(shown[key][0]) == set(real[key][0])
    assert set(shown["prompt"]) == set(real["prompt"] or {})


def test_the_options_of_the_readme_are_the_options() -> None:
    from deep_cli import CliOptions

    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", README, re.M))
    assert {name: json.loads(default) for name, default in rows.items()} == CliOptions().model_dump()
