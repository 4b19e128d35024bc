"""Tools whose schemas have what providers disagree about, for the tests of wire drivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Annotated, Any, Literal

from deep_universe import ToolDriver
from deep_universe.drivers import default_drivers
from deep_universe.drivers.wire import WireDriver
from pydantic import BaseModel, Field
from pydantic_ai.tools import Tool, ToolDefinition


class Unit(Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


class Place(BaseModel):
    """Where it is."""

    city: Annotated[str, Field(min_length=1, max_length=80, description="The city's name.")]
    country: Annotated[str, Field(pattern="^[A-Z]{2}$")] = "NO"


class Node(BaseModel):
    """A node of a tree."""

    name: str
    children: list[Node] = []
    parent: Node | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=0, le=9)] = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


def get_balance(account: str, currency: Literal["EUR", "NOK"] = "EUR") -> float:
    """Return the balance of an account.

    Args:
        account: The account's number.
        currency: The currency of the answer.
    """
    return len(account) + len(currency)


def list_files() -> list[str]:
    """List the files."""
    return []


def weather(place: Place, unit: Unit = Unit.CELSIUS, days: Annotated[int, Field(ge=1, le=14)] = 1) -> str:
    """Return the weather of a place."""
    return f"{place.city} {unit} {days}"


def plant(tree: Node) -> str:
    """Plant a tree: a recursive argument, whose schema is the root."""
    return tree.name


def graft(tree: Node, branch: Node | None, title: str | int | None = None) -> str:
    """Graft one tree onto another."""
    return f"{tree.name} {branch} {title}"


def adopt(pet: Annotated[Cat | Dog, Field(discriminator="kind")], tags: dict[str, int] | None = None) -> str:
    """Adopt a pet."""
    return f"{pet.kind} {tags}"


def move(points: list[tuple[float, float]], extra: Any = None) -> str:
    """Move along points."""
    return f"{points} {extra}"


def definition(function: Callable[..., Any], **settings: Any) -> ToolDefinition:
    return Tool(function, **settings).tool_def


FUNCTIONS: Sequence[Callable[..., Any]] = (get_balance, list_files, weather, plant, graft, adopt, move)
TOOLS: Sequence[ToolDefinition] = tuple(definition(function) for function in FUNCTIONS)
STRICT: Sequence[ToolDefinition] = tuple(
    definition(function, strict=True) for function in (get_balance, list_files, weather, graft)
)
"""Tools that a provider can enforce."""
WIRE: Sequence[ToolDriver] = [driver for driver in default_drivers() if isinstance(driver, WireDriver)]
BY_NAME = {driver.name: driver for driver in WIRE}
