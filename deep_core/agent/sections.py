"""Prompt sections: what plugins tell the model besides their tools. Frozen; they check themselves when created."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..names import check_name

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from .run.session import DeepAgentDeps

LiveText: TypeAlias = "Callable[[RunContext[DeepAgentDeps[Any]]], str | None | Awaitable[str | None]]"


@dataclass(frozen=True)
class PromptSection:
    """A part of the prompt. Make one with `PromptSection.static` or `PromptSection.live`.

    Attributes:
        name: unique within its plugin.
        text: the fixed text, or a function that returns it (called once an agent); None for a live section.
        fn: makes the live text, or None for a static section.
        order: lower first among the sections; ties by plugin order, then name.
        locked: kept when the application's base prompt is replaced.
        needs: tools (by original or final name) without which the section is left out.
    """

    name: str
    text: str | Callable[[], str] | None = None
    fn: LiveText | None = None
    order: int = 100
    locked: bool = False
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name("section", self.name)
        if (self.text is None) == (self.fn is None):
            raise ValueError(f"section {self.name!r} needs a text or a function, not both")

    @classmethod
    def static(
        cls,
        name: str,
        text: str | Callable[[], str],
        *,
        order: int = 100,
        locked: bool = False,
        needs: Sequence[str] = (),
    ) -> PromptSection:
        """Create a section whose text never changes. `{tool:NAME}` in it becomes that tool's final name.

        `text` may be a function: it is called once, when an agent is made; if it raises, the section is left out.
        """
        return cls(name, text=text, order=order, locked=locked, needs=tuple(needs))

    @classmethod
    def live(
        cls, name: str, fn: LiveText, *, order: int = 100, locked: bool = False, needs: Sequence[str] = ()
    ) -> PromptSection:
        """Create a section that may change during a conversation.

        `fn(ctx)`, plain or async, returns the current text, or None for nothing to say. The text is appended to the
        conversation when it differs from what was last sent; what was sent is never rewritten.
        """
        return cls(name, fn=fn, order=order, locked=locked, needs=tuple(needs))
