"""What the text dialects share: one scanner, and which models and replies are theirs."""

from __future__ import annotations

import re
import sys
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ..calls import InvalidCall, ToolCall, ToolResult
from ..driver import FALLBACK, GOOD, NATIVE, NONE, ToolDriver, WireTarget
from .bare_json import bare_forms
from .json_body import json_value
from .offered import OfferedTools
from .scanner import Form, Grammar, Scanner, UnopenedTag

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["REASONING", "TextDriver", "function_of", "outcome_of", "text_of"]

REASONING: Final = (("<think>", "</think>"), ("<thinking>", "</thinking>"))
"""The tags between which models think."""
FAMILY: Final = FALLBACK + 15
"""A model of the dialect's family that also has native tool calls: before other fallbacks."""


def text_of(response: object) -> str | None:
    """Return the text of a reply: a string, or the text parts of a Pydantic AI `ModelResponse`; None for others."""
    if isinstance(response, str):
        return response
    if "pydantic_ai.messages" in sys.modules:  # else nobody can have made one
        from pydantic_ai.messages import ModelResponse, TextPart

        if isinstance(response, ModelResponse):
            return "".join(part.content for part in response.parts if isinstance(part, TextPart))
    return None


def function_of(tool: ToolDefinition) -> dict[str, Any]:
    """A tool as JSON data: name, description and parameters."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    return {**function, "parameters": tool.parameters_json_schema}


def outcome_of(result: ToolResult) -> dict[str, Any]:
    """A result as JSON data: the tool's name, then `content` or `error`."""
    name = result.meta.get("tool", "")
    if result.error is not None:
        return {"name": name, "error": result.error}
    return {"name": name, "content": json_value(result.result)}


class TextDriver(ToolDriver):
    """A dialect in which calls are part of the text.

    Attributes:
        families: matches names of models that were trained on the dialect.
        default: serve every model without native tool calls.
        untyped: values have no type in the dialect, so that the tools' schemas decide what is text.
        bare: a JSON object with `name` and `parameters` is the dialect's own form of a call.
        reasoning: the tags between which the model thinks; nothing there is a call.
    """

    families: ClassVar[re.Pattern[str]]
    default: ClassVar[bool] = False
    untyped: ClassVar[bool] = False
    bare: ClassVar[bool] = False
    reasoning: ClassVar[Sequence[tuple[str, str]]] = REASONING

    @abstractmethod
    def forms(self, tools: Sequence[ToolDefinition] = ()) -> Sequence[Form]:
        """The ways to write a call.

        Arguments:
            tools: what was offered, if the driver is `untyped`.
        """

    @abstractmethod
    def render(self, tools: Sequence[ToolDefinition]) -> str:
        """Return the section of the prompt that explains how to call and lists the tools; empty without tools."""

    @abstractmethod
    def encode_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return the calls as the model would have written them."""

    @abstractmethod
    def encode_results(self, results: Sequence[ToolResult]) -> str:
        """Return the results as the text of the user's next message."""

    @cached_property
    def _grammar(self) -> Grammar:
        return self._grammar_of(self.forms())

    def _grammar_of(self, forms: Sequence[Form]) -> Grammar:
        return Grammar([*forms, *bare_forms(self.bare)], self.reasoning)

    def scanner(self, tools: Sequence[ToolDefinition] = ()) -> Scanner:
        """Return a scanner for one reply.

        Arguments:
            tools: what was offered. With it, JSON without markers that names one of them is a call, and an input of
                one value is the argument of a tool with one parameter. Dialects whose values have no type
                (`qwen-coder`, `glm`, `xml`) read a value as text if the tool's schema wants a string; without tools,
                they read what looks like JSON as JSON.
        """
        offered = OfferedTools(tools) if tools else None
        return Scanner(self._grammar_of(self.forms(tools)) if self.untyped and tools else self._grammar, offered)

    def can_handle(self, target: WireTarget) -> int:
        """GOOD for a model of the family without native tool calls, a fallback for others."""
        family = self.families.search(target.name.lower()) is not None
        native = "tools" in target.capabilities
        if family:
            return FAMILY if native else GOOD
        unknown = not native or target.protocol_hint is None
        return FALLBACK if self.default and unknown else NONE

    def can_handle_response(self, response: object) -> int:
        """NATIVE if the dialect's markup stands in the text unquoted, FALLBACK if it is quoted or another dialect's."""
        text = text_of(response)
        if text is None:
            return NONE
        marked = self._may_have_markup(text)
        if not marked and not (self.bare and text.lstrip()[:1] in ("{", "[")):
            return NONE
        scanner = self.scanner()
        scanner.feed(text)
        scanner.finish()
        return NATIVE if scanner.native else FALLBACK if marked else NONE

    def _may_have_markup(self, text: str) -> bool:
        return any(lead in text for lead in self._grammar.inline) or any(
            head.found_in(text) for head, form in self._grammar.heads if not form.bare
        )

    def parse(self, response: object) -> list[ToolCall | InvalidCall]:
        """Return the calls in a reply.

        Raises:
            ValueError: the response is neither a string nor a Pydantic AI `ModelResponse`.
        """
        text = text_of(response)
        if text is None:
            raise ValueError(f"the {self.name} driver reads text, not {type(response).__name__}")
        scanner, found = self.scanner(), list[ToolCall | InvalidCall]()
        for item in [*scanner.feed(text), *scanner.finish()]:
            if isinstance(item, UnopenedTag):
                found.clear()
            elif not isinstance(item, str):
                found.append(item)
        return found
