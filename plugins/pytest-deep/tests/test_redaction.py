"""The suite reports where a redactor leaves a secret that it hides elsewhere."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pytest_deep import PluginConformance
from pytest_deep.bench import Bench
from pytest_deep.redaction import KINDS, Conversation, Redaction, examine

from deep_core import Kernel, Processor, create_default_deps, hookimpl
from tests.authors_pytest import RunPytest
from tests.drawn import sample

pytest_plugins = ["pytester"]

ADDRESS = re.compile(r"bob@example\.org")
Redact = Callable[[list[ModelMessage]], list[ModelMessage]]


class Masks:
    """A plugin with one redactor."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact

    @hookimpl
    def deep_history_processors(self, context: Any) -> list[Processor]:
        return [Processor("mask", self._redact, phase="redact")]


def everywhere(hide: Callable[[str], str]) -> Redact:
    """Return a redactor that changes every text."""

    def hidden(value: Any) -> Any:
        if isinstance(value, str):
            return hide(value)
        if isinstance(value, bytes):
            return hide(value.decode()).encode()
        if isinstance(value, dict):
            return {hidden(key): hidden(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [hidden(item) for item in value]
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{f.name: hidden(getattr(value, f.name)) for f in fields(value) if f.init})
        return value

    return lambda messages: [replace(message, parts=hidden(list(message.parts))) for message in messages]


def prompts_only(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Redact like a first draft."""
    return [
        replace(
            message,
            parts=[
                replace(part, content=ADDRESS.sub("***", part.content))
                if part.part_kind == "user-prompt" and isinstance(part.content, str)
                else part
                for part in message.parts
            ],
        )
        for message in messages
    ]


def told(
    folder: Path, redact: Redact | None, *, secrets: Sequence[str] = (), unredacted: Sequence[str] = ()
) -> Redaction:
    class Suite(PluginConformance):
        plugin = Masks(redact) if redact is not None else Nothing()

    Suite.secrets, Suite.unredacted = secrets, unredacted
    bench = Bench(Suite(), folder)
    try:
        return examine(bench)
    finally:
        bench.close()


class Nothing:
    """A plugin without a redactor."""

    @hookimpl
    def deep_history_processors(self, context: Any) -> list[Processor]:
        return [Processor("same", lambda messages: messages, phase="annotate")]


def test_a_first_draft_gets_a_warning_for_every_kind_of_part_that_it_leaves(tmp_path: Path) -> None:
    found = told(tmp_path, prompts_only)
    assert found.mistakes == []
    (gap,) = found.gaps
    assert (gap.where, gap.what) == (
        "processor mask",
        "leaves 'bob@example.org' in system-prompt, user-prompt (item of a list, TextContent), file, tool-call, "
        "tool-return, retry-feedback, text, thinking",
    )
    assert 'unredacted = ["system-prompt", "user-prompt", "file", "tool-call", "tool-return", ' in gap.change


def test_a_redactor_that_hides_everywhere_gets_no_warning(tmp_path: Path) -> None:
    assert told(tmp_path, everywhere(lambda text: ADDRESS.sub("***", text))) == Redaction()


def test_a_plugin_without_a_redactor_gets_no_warning(tmp_path: Path) -> None:
    assert told(tmp_path, None) == Redaction()


@pytest.mark.slow
@pytest.mark.parametrize("number", sample(range(len(Conversation("x").places)), 0, 7, 13))
def test_each_place_that_is_left_is_reported(tmp_path: Path, number: int) -> None:
    def hide(text: str) -> str:
        return text if f"[{number}]" in text else ADDRESS.sub("***", text)

    kind, form = Conversation("x").places[number]
    (gap,) = told(tmp_path, everywhere(hide)).gaps
    shown = [kind, f"{kind} ({form})"]
    assert gap.what in [f"leaves 'bob@example.org' in {each}" for each in shown]
    assert kind in KINDS
    assert told(tmp_path, everywhere(hide), unredacted=[kind]) == Redaction()


def test_every_kind_that_can_be_named_is_tried() -> None:
    assert {place.kind for place in Conversation("x").places} == set(KINDS)


def test_a_kind_that_is_not_there_is_a_mistake_with_a_suggestion(tmp_path: Path) -> None:
    (mistake,) = told(tmp_path, prompts_only, unredacted=["thinkin"]).mistakes
    assert mistake.what == "names 'thinkin', which is not a kind of part. Did you mean 'thinking'?"


@pytest.mark.slow
@pytest.mark.parametrize("secret", ["K-42", 'say "42"', "a\\b", "π-42", "[1] (2)"])
def test_the_author_may_name_what_is_hidden(tmp_path: Path, secret: str) -> None:
    def hide(text: str) -> str:
        return text.replace(secret, "***")

    (gap,) = told(tmp_path, everywhere(hide)).gaps
    assert gap.what.startswith("hides none of the suite's secrets")
    if '"' not in secret and "\\" not in secret:  # the JSON text of a call escapes them
        assert told(tmp_path, everywhere(hide), secrets=[secret]) == Redaction()
    else:
        (gap,) = told(tmp_path, everywhere(hide), secrets=[secret]).gaps
        assert gap.what == f"leaves {secret!r} in tool-call (arguments as JSON text)"


def test_a_secret_that_is_hidden_nowhere_is_a_mistake(tmp_path: Path) -> None:
    found = told(tmp_path, prompts_only, secrets=["bob@example.org", "K-42"])
    assert [mistake.what for mistake in found.mistakes] == ["has 'K-42', which processor mask never hides"]
    assert len(found.gaps) == 1


def test_a_redactor_that_does_not_expect_a_part_is_a_mistake(tmp_path: Path) -> None:
    def redact(messages: list[ModelMessage]) -> list[ModelMessage]:
        for message in messages:
            for part in message.parts:
                part.content.strip()  # a call has no content
        return messages

    (mistake,) = told(tmp_path, redact).mistakes
    assert "fails a run that has every kind of part in its history: AttributeError: " in mistake.what


AUTHOR = """
from deep_core import Processor, hookimpl
from pytest_deep import PluginConformance


def redact(messages):
    for message in messages:
        for part in message.parts:
            if part.part_kind == "text":
                part.content = part.content.replace("bob@example.org", "***")
    return messages


class Plugin:
    @hookimpl
    def deep_history_processors(self, context):
        return [Processor("mask", redact, phase="redact")]


class TestConformance(PluginConformance):
    plugin = Plugin()
"""


@pytest.mark.slow
def test_what_is_left_is_a_warning(pytester: pytest.Pytester, run_pytest: RunPytest) -> None:
    pytester.makepyfile(AUTHOR)
    result = run_pytest("-k", "redactors", "-p", "no:asyncio")
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*processor mask: leaves 'bob@example.org' in system-prompt, user-prompt, *"])


def test_no_processor_reaches_the_instructions() -> None:
    """The suite says so beside every gap."""
    seen: list[str | None] = []

    def redact(messages: list[ModelMessage]) -> list[ModelMessage]:
        return [replace(m, instructions="***") if isinstance(m, ModelRequest) else m for m in messages]

    def answer(messages: list[ModelMessage], info: Any) -> ModelResponse:
        seen.append(info.instructions)
        return ModelResponse([TextPart("done")])

    with Kernel(plugins=[Masks(redact)], discover=False) as kernel:
        agent = kernel.create_agent(FunctionModel(answer), instructions="Write to bob@example.org.")
        asyncio.run(agent.run("Go", deps=create_default_deps(kernel=kernel)))
    assert seen == ["Write to bob@example.org."]
