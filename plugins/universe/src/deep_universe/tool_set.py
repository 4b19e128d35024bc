"""A selection of tools: a snapshot that can be rendered for any model, any number of times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from .driver import ToolDriver, WireTarget
from .negotiation import driver_for
from .targets import wire_target

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

    from deep_core import ToolExpression

    from .tools import UniverseTool

__all__ = ["ToolSet"]


@dataclass(frozen=True)
class ToolSet:
    """The tools that an expression selected, at that time. Tools and drivers that come later do not change it.

    Attributes:
        tools: in the order of registration, or of their names.
        expression: what selected them.
        drivers: those of the universe.
    """

    tools: tuple[UniverseTool, ...]
    expression: ToolExpression
    drivers: tuple[ToolDriver, ...]

    @property
    def definitions(self) -> list[ToolDefinition]:
        """What drivers render."""
        return [tool.definition for tool in self.tools]

    def render(self, target: str | WireTarget) -> Any:
        """Return the tools in a wire format: JSON data for an API, or text for a prompt.

        Args:
            target: a driver's name, which is used as it is; else a model's, with or without its provider, for which the
                driver with the highest score renders.

        Raises:
            NoDriverError: no driver can handle the model.
            DriverContractError: a driver's score is not an int from 0 to 100.
        """
        return self.driver_for(target).render(self.definitions)

    def driver_for(self, target: str | WireTarget) -> ToolDriver:
        """Return the driver that `render` uses.

        Raises:
            NoDriverError: no driver can handle the model.
            DriverContractError: a driver's score is not an int from 0 to 100.
        """
        if isinstance(target, str):
            named = next((driver for driver in self.drivers if driver.name == target), None)
            if named is not None:
                return named
            target = wire_target(target)
        return driver_for(self.drivers, target)

    def to_markdown(self) -> str:
        """Return documentation for people: a section for each tool."""
        return "\n".join(map(_section, self.tools)) if self.tools else f"No tool matches `{self.expression}`.\n"

    def __len__(self) -> int:
        return len(self.tools)

    def __iter__(self) -> Iterator[UniverseTool]:
        return iter(self.tools)

    def __contains__(self, tool: object) -> bool:
        return tool in self.tools


def _section(tool: UniverseTool) -> str:
    schema = tool.definition.parameters_json_schema
    required: Sequence[str] = schema.get("required", ())
    lines = [f"## {tool.name}", ""]
    if tool.definition.description:
        lines += [tool.definition.description, ""]
    lines += [f"Tags: {', '.join(tool.facts.tags)}", ""]
    properties: dict[str, dict[str, Any]] = schema.get("properties", {})
    for name, parameter in properties.items():
        about = parameter.get("description")
        kind = _kind(parameter) if name in required else f"{_kind(parameter)}, optional"
        lines.append(f"- `{name}` ({kind})" + (f": {about}" if about else ""))
    return "\n".join(lines + [""] * bool(properties))


def _kind(schema: dict[str, Any]) -> str:
    """Name a parameter's type in a word or two."""
    if "enum" in schema:
        return "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_kind, options)))
    if schema.get("type") == "array":
        return f"array of {_kind(schema.get('items', {}))}"
    kind = schema.get("type", "anything")
    return " or ".join(cast("list[str]", kind)) if isinstance(kind, list) else str(kind)
