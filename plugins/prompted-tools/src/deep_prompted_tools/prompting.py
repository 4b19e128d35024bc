"""What a dialect adds to a request: the tools as an instruction, and the answer to calls written wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from deep_universe import InvalidCall, TextDriver, default_drivers
from pydantic_ai.messages import InstructionPart, ModelMessage, ModelRequest, UserPromptPart

from deep_core import ConfigError
from deep_core.plugin_api import suggest

from .history import History, bounded

if TYPE_CHECKING:
    from deep_universe import ToolDriver
    from pydantic_ai.tools import ToolDefinition

Constrain: TypeAlias = Literal["retry", "always", "never"]

__all__ = ["Constrain", "Dialect", "correction", "find_driver"]


class Dialect:
    """A text driver at work for one agent, with what it wrote for the last request.

    Attributes:
        driver: the driver.
        retries: how often the model is asked again after a call written wrongly.
        constrain: when its server holds its reply to a schema; `never` once a server refused.
        history: writes earlier calls and results in the dialect.
    """

    def __init__(self, driver: TextDriver, retries: int, constrain: Constrain = "retry") -> None:
        self.driver, self.retries, self.constrain = driver, retries, constrain
        self.history = History(driver)
        self._tools: list[ToolDefinition] = []
        self._section = InstructionPart("")

    def section(self, tools: Sequence[ToolDefinition]) -> InstructionPart:
        """Return the instruction that describes the tools. The same tools always give the same text."""
        if self._tools != tools:
            self._tools, self._section = [*tools], InstructionPart(self.driver.render(tools))
        return self._section

    def instructions(
        self, messages: Sequence[ModelMessage], parts: Sequence[InstructionPart] | None, tools: Sequence[ToolDefinition]
    ) -> list[InstructionPart]:
        """Return a request's instructions with the tools behind those that never change.

        Args:
            messages: the request's messages.
            parts: its instructions; None where they are in the messages, as in a direct request to a model.
            tools: the tools.
        """
        if parts is None:
            text = next((m.instructions for m in reversed(messages) if isinstance(m, ModelRequest)), None)
            parts = [InstructionPart(text)] if text else []
        return InstructionPart.sorted([*parts, self.section(tools)])


def correction(invalid: Sequence[InvalidCall]) -> ModelRequest:
    """Return the request that tells the model what was wrong with its calls."""
    problems = "\n".join(f"- {call.name or 'a call'}: {call.problem}" for call in bounded(invalid))
    return ModelRequest(
        parts=[
            UserPromptPart(
                f"Your last message called tools, and none of the calls ran:\n{problems}\n"
                "Write the calls again, exactly in the format of your instructions, or answer without a call."
            )
        ]
    )


def find_driver(name: str, drivers: Callable[[], Mapping[str, ToolDriver]] | None) -> TextDriver:
    """Return the text driver of a name.

    Raises:
        ConfigError: there is none.
    """
    known = {driver.name: driver for driver in default_drivers()} if drivers is None else drivers()
    dialects = {key: driver for key, driver in known.items() if isinstance(driver, TextDriver)}
    if name in dialects:
        return dialects[name]
    what = "is a wire format, not a text dialect" if name in known else "is no tool driver"
    raise ConfigError(
        f"plugins.prompted_tools.options.dialect: {name!r} {what}.{suggest(name, dialects)} "
        f"There are: {', '.join(dialects)}"
    )
