"""Questions of the model to the user: show one as a choice, and read the answer.

A question is an external call whose metadata has `question`: {"text": …, "options": […]}. deep-ask makes such calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from deep_core.plugin_api import visible

from .interrupts import defer_interrupts
from .screen import label, middle

if TYPE_CHECKING:
    from deep_core import Kernel

    from .output import Lines

__all__ = ["NO_ANSWER", "Choice", "Said", "offers_questions", "read_choice"]

NO_ANSWER = "No user is here to answer. Do not ask again: decide yourself, and say what you assumed."
CHARS = 4_000
"""Characters of a question that are shown, and of an answer that the model gets."""


@dataclass(frozen=True)
class Choice:
    """What the user is asked.

    Attributes:
        text: the question.
        options: the proposed answers; any other words are an answer too.
        body: what the question is about, shown before it, complete.
    """

    text: str
    options: tuple[str, ...] = ()
    body: str = ""

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Choice | None:
        """Read the metadata of a call that waits; None if it is no question."""
        asked: Any = facts.get("question")
        if not isinstance(asked, Mapping):
            return None
        return cls(str(asked.get("text", "")), tuple(map(str, asked.get("options") or ())))  # pyright: ignore


@dataclass(frozen=True)
class Said:
    """The user's answer to a question.

    Attributes:
        text: an option, or the user's own words.
    """

    text: str


def offers_questions(kernel: Kernel) -> Mapping[str, Any]:
    """Return the configuration of an agent whose user answers questions: deep-ask offers them, unless it is off.

    In the configuration and not as a parameter: an agent works without deep-ask, also if that fails.
    """
    record = kernel.plugins.get("ask")
    if record is None or record.status != "active" or "offer" in kernel.config.plugin("ask").options:
        return {}
    return {"plugins": {"ask": {"options": {"offer": True}}}}


def read_choice(choice: Choice, about: str, *, show: Callable[..., None], out: Lines, replies: TextIO) -> Said | None:
    """Show a question and read its answer.

    Args:
        choice: the question.
        about: who asks.
        show: shows one line of (text, style) parts.
        out: where the prompt for the answer goes.
        replies: where the answer comes from.

    Returns:
        The answer; None if the input ended.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    with defer_interrupts():
        for line in visible(choice.body).split("\n") if choice.body else ():
            show(f"  {line}")
        first, *rest = middle(visible(choice.text), CHARS).split("\n")
        show(("  ? ", "yellow"), (first, "bold"), (f"  [{label(about)}]", "dim"))
        for line in rest:
            show(f"    {line}")
        for number, option in enumerate(choice.options, 1):
            show((f"    {number}  ", "bold"), label(option))
    numbers = f"1-{len(choice.options)}, or " if len(choice.options) > 1 else "1, or " if choice.options else ""
    while True:
        try:
            with defer_interrupts():
                out.line(f"    your answer ({numbers}in your own words): ", end="")
            line = replies.readline()
        except KeyboardInterrupt:
            show("")  # start the next output on a new line
            raise
        if not line:
            show("")
            return None
        said = visible(line.strip())
        if said.isdecimal() and 0 < int(said[:6]) <= len(choice.options):
            return Said(choice.options[int(said) - 1])
        if said:
            return Said(said[:CHARS])
