"""The contract of a driver: what one wire format looks like, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .calls import InvalidCall, ToolCall, ToolResult

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

NONE: Final = 0
"""The driver does not know this target or response."""
FALLBACK: Final = 25
"""The driver can serve it if no other driver does: 1 to 50."""
GOOD: Final = 75
"""The driver fits, though nothing proves that the format is its own: 51 to 99."""
NATIVE: Final = 100
"""It is the driver's own format."""


@dataclass(frozen=True)
class WireTarget:
    """The model that tools are rendered for. Used to choose a driver, never to execute a call.

    Attributes:
        name: the model's name, without its provider.
        capabilities: what it can do, from its Pydantic AI profile: `tools` if it has native tool calls.
        protocol_hint: its native protocol: `openai`, `openai-responses`, `anthropic`, `google`, `bedrock`; None if
            unknown.
    """

    name: str
    capabilities: frozenset[str] = frozenset()
    protocol_hint: str | None = None


class ToolDriver(ABC):
    """One wire format: renders tools, recognises and parses replies, and writes history.

    A driver holds no state and does no I/O. `parse(encode_calls(calls))` returns equal calls, except for ids that the
    format cannot carry.

    Attributes:
        name: how users choose it: `[a-z][a-z0-9_-]*`.
        priority: among drivers with the same score, a higher one wins; then the one registered first.
    """

    name: ClassVar[str]
    priority: ClassVar[int] = 0

    @abstractmethod
    def can_handle(self, target: WireTarget) -> int:
        """Return how well the format fits the model: 0 not at all, 1-50 fallback, 51-99 good, 100 native."""

    @abstractmethod
    def can_handle_response(self, response: object) -> int:
        """Return how surely the response is in this format, on the same scale. Never raises.

        A response is a dict, list or string, an object with `model_dump`, or a Pydantic AI `ModelResponse`.
        """

    @abstractmethod
    def render(self, tools: Sequence[ToolDefinition]) -> Any:
        """Return the tools as the format wants them: JSON data for an API, or text for a prompt."""

    @abstractmethod
    def parse(self, response: object) -> list[ToolCall | InvalidCall]:
        """Return the calls in a response, in order. One malformed call does not lose the others.

        Raises:
            ValueError: the response is not in this format.
        """

    @abstractmethod
    def encode_calls(self, calls: Sequence[ToolCall]) -> Any:
        """Return the calls as the assistant's message of the format."""

    @abstractmethod
    def encode_results(self, results: Sequence[ToolResult]) -> Any:
        """Return the results as the message or messages that follow. `meta["tool"]` holds the tool's name."""
