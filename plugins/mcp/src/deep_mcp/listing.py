"""What a server offers: its tools as they were listed, cleaned, bounded, and with a digest of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

from .sanitize import clean_name, clean_schema, clean_text, hashed_name

__all__ = [
    "MOST_TOOLS",
    "ListedPrompt",
    "ListedTool",
    "Listing",
    "RawPrompt",
    "RawTool",
    "make_listing",
]

MOST_TOOLS = 1_000
"""Of one server; more are left out."""
MOST_PROMPTS = 100
VERSION = 2
"""Of what is stored. A listing of another version is asked for again."""
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
class RawPrompt:
    """A prompt as the server described it: each argument with whether it is needed."""

    name: str
    description: str
    arguments: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class ListedPrompt:
    """A prompt that a person may send.

    Attributes:
        name: cleaned.
        original: what the server calls it.
        description: cleaned, one line.
        arguments: the name of each, as the server says it, and whether it is needed.
    """

    name: str
    original: str
    description: str
    arguments: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Listing:
    """What one server offers.

    Attributes:
        tools: in the server's order.
        left_out: tools and prompts that cannot be offered, each with its reason.
        resources: whether the server has resources.
        prompts: in the server's order.
    """

    tools: tuple[ListedTool, ...]
    left_out: tuple[str, ...] = ()
    resources: bool = False
    prompts: tuple[ListedPrompt, ...] = ()

    def to_json(self) -> str:
        """Write the listing as JSON."""
        tools = [[t.name, t.original, t.description, t.schema, t.hints, t.digest] for t in self.tools]
        prompts = [[p.name, p.original, p.description, p.arguments] for p in self.prompts]
        offered = {"tools": tools, "left_out": self.left_out, "resources": self.resources, "prompts": prompts}
        return json.dumps({"version": VERSION, **offered})

    @classmethod
    def from_json(cls, text: str) -> Listing | None:
        """Read what `to_json` wrote. None for anything else."""
        try:
            data: Any = json.loads(text)
            if data["version"] != VERSION:
                return None
            tools = tuple(ListedTool(*tool) for tool in data["tools"])
            prompts = tuple(
                ListedPrompt(
                    name, original, about, tuple((str(argument), bool(needed)) for argument, needed in arguments)
                )
                for name, original, about, arguments in data["prompts"]
            )
            return cls(tools, tuple(data["left_out"]), bool(data["resources"]), prompts)
        except (ValueError, TypeError, KeyError, RecursionError):
            return None


def make_listing(
    raw: Iterable[RawTool], *, resources: bool, prompts: Sequence[RawPrompt] = (), odd: Sequence[str] = ()
) -> Listing:
    """Clean what a server listed. What cannot be offered is left out with its reason.

    Args:
        raw: the tools.
        resources: whether the server has resources.
        prompts: the prompts.
        odd: what could not be read, each with its reason.
    """
    tools: dict[str, ListedTool] = {}
    originals: set[str] = set()
    left_out = [clean_text(each, 300) for each in odd]
    for tool in raw:
        shown = clean_text(tool.name, 80) or "a tool without a name"
        name = clean_name(tool.name)
        if name in tools and tool.name not in originals:
            name = hashed_name(name, tool.name)
        if not name:
            left_out.append(f"{shown}: its name has no letter or digit")
        elif tool.name in originals:
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
            originals.add(tool.name)
            tools[name] = ListedTool(name, tool.name, clean_text(tool.description), schema, hints, digest)
    return Listing(tuple(tools.values()), tuple(left_out), resources, tuple(_clean_prompts(prompts, left_out)))


def _clean_prompts(raw: Sequence[RawPrompt], left_out: list[str]) -> Iterator[ListedPrompt]:
    for prompt in raw[:MOST_PROMPTS]:
        if name := clean_name(prompt.name):
            about = clean_text(prompt.description, 200).partition("\n")[0]
            yield ListedPrompt(name, prompt.name, about, prompt.arguments)
        else:
            left_out.append(
                f"prompt {clean_text(prompt.name, 80) or 'without a name'}: its name has no letter or digit"
            )
    if len(raw) > MOST_PROMPTS:
        left_out.append(f"{len(raw) - MOST_PROMPTS:,} prompts: the server has more than {MOST_PROMPTS}")
