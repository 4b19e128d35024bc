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

__all__ = ["NO_ANSWER", "Choice", "Said", "read_choice", "show_choice", "with_person"]

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

    @property
    def asks_for(self) -> str:
        """The prompt for the answer."""
        count = len(self.options)
        numbers = f"1-{count}, or " if count > 1 else "1, or " if count else ""
        return f"    your answer ({numbers}in your own words): "

    def answer(self, line: str) -> Said | None:
        """Return the answer that was typed: a number's option, or the words; None for no words."""
        said = visible(line.strip())
        if said.isdecimal() and 0 < int(said[:6]) <= len(self.options):
            return Said(self.options[int(said) - 1])
        return Said(said[:CHARS]) if said else None


@dataclass(frozen=True)
class Said:
    """The user's answer to a question.

    Attributes:
        text: an option, or the user's own words.
    """

    text: str


def with_person(kernel: Kernel, *, edits: bool) -> Mapping[str, Any]:
    """Return the configuration of an agent whose user answers: deep-ask offers questions, and edits ask.

    Options that the user has set stay. In the configuration and not as a parameter: an agent works without these
    plugins, also if one fails.

    Args:
        kernel: its plugins.
        edits: whether the file tools ask before they change a file.
    """
    wanted = {"ask": "offer", **({"filesystem": "require_write_approval"} if edits else {})}
    options = {name: {"options": {key: True}} for name, key in wanted.items() if _is_unset(kernel, name, key)}
    return {"plugins": options} if options else {}


def _is_unset(kernel: Kernel, plugin: str, option: str) -> bool:
    return plugin in kernel.active and option not in kernel.config.plugin(plugin).options


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
        show_choice(choice, about, show)
    while True:
        try:
            with defer_interrupts():
                out.line(choice.asks_for, end="")
            line = replies.readline()
        except KeyboardInterrupt:
            show("")  # start the next output on a new line
            raise
        if not line:
            show("")
            return None
        said = choice.answer(line)
        if said is not None:
            return said


def show_choice(choice: Choice, about: str, show: Callable[..., None]) -> None:
    """Show a question with its options, line by line; arguments as for `read_choice`."""
    for line in visible(choice.body).split("\n") if choice.body else ():
        show(f"  {line}")
    first, *rest = middle(visible(choice.text), CHARS).split("\n")
    show(("  ? ", "yellow"), (first, "bold"), (f"  [{label(about)}]", "dim"))
    for line in rest:
        show(f"    {line}")
    for number, option in enumerate(choice.options, 1):
        show((f"    {number}  ", "bold"), label(option))
