"""What a server offers: its tools as they were listed, cleaned, bounded, and with a digest of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

from .sanitize import clean_name, clean_schema, clean_text

__all__ = ["MOST_TOOLS", "ListedTool", "Listing", "RawTool", "make_listing"]

MOST_TOOLS = 1_000
"""Of one server; more are left out."""
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True)
class RawTool:
    """A tool as the server described it."""

    name: str
    description: str
    schema: Mapping[str, Any]
    hints: Mapping[str, Any]


@dataclass(frozen=True)
class ListedTool:
    """A tool that may be offered.

    Attributes:
        name: cleaned, without a prefix.
        original: what the server calls it.
        description: cleaned.
        schema: of its parameters, cleaned.
        hints: its annotations that are true or false, as the protocol spells them.
        digest: of all that the server said about it.
    """

    name: str
    original: str
    description: str
    schema: dict[str, Any]
    hints: dict[str, bool]
    digest: str


@dataclass(frozen=True)
class Listing:
    """What one server offers.

    Attributes:
        tools: in the server's order.
        left_out: tools that cannot be offered, each with its reason.
        resources: whether the server has resources.
    """

    tools: tuple[ListedTool, ...]
    left_out: tuple[str, ...] = ()
    resources: bool = False

    def to_json(self) -> str:
        """Write the listing as JSON."""
        tools = [[t.name, t.original, t.description, t.schema, t.hints, t.digest] for t in self.tools]
        return json.dumps({"version": 1, "tools": tools, "left_out": self.left_out, "resources": self.resources})

    @classmethod
    def from_json(cls, text: str) -> Listing | None:
        """Read what `to_json` wrote. None for anything else."""
        try:
            data: Any = json.loads(text)
            if data["version"] != 1:
                return None
            tools = tuple(ListedTool(*tool) for tool in data["tools"])
            return cls(tools, tuple(data["left_out"]), bool(data["resources"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


def make_listing(raw: Iterable[RawTool], *, resources: bool) -> Listing:
    """Clean what a server listed. A tool that cannot be offered is left out with its reason."""
    tools: dict[str, ListedTool] = {}
    left_out: list[str] = []
    for tool in raw:
        shown = clean_text(tool.name, 80) or "a tool without a name"
        name = clean_name(tool.name)
        if not name:
            left_out.append(f"{shown}: its name has no letter or digit")
        elif name in tools:
            left_out.append(f"{shown}: another tool is called {name} too")
        elif len(tools) >= MOST_TOOLS:
            left_out.append(f"{shown}: the server has more than {MOST_TOOLS:,} tools")
        else:
            try:
                schema = clean_schema(tool.schema)
            except ValueError as error:
                left_out.append(f"{shown}: {error}")
                continue
            hints = {hint: value for hint in HINTS if isinstance(value := tool.hints.get(hint), bool)}
            said = [tool.name, tool.description, cast("Any", tool.schema), hints]
            digest = sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]
            tools[name] = ListedTool(name, tool.name, clean_text(tool.description), schema, hints, digest)
    return Listing(tuple(tools.values()), tuple(left_out), resources)
