"""Facts about one tool: its names, plugin and tags, and the standard tags with what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, Protocol, cast


class StandardTag(NamedTuple):
    """A tag with a fixed meaning: what its tools do, and the equivalent annotation of MCP tools."""

    meaning: str
    mcp_hint: str | None = None


STANDARD_TAGS: Mapping[str, StandardTag] = {
    "read": StandardTag("only reads", "readOnlyHint"),
    "write": StandardTag("changes something"),
    "execute": StandardTag("runs commands or code; asks by itself"),
    "network": StandardTag("reaches other machines", "openWorldHint"),
    "destructive": StandardTag("may not be reversible", "destructiveHint"),
}
"""The tags that mean the same everywhere, with their meanings."""
DEFAULT_TAG = "write"
"""The tag of a tool without tags: its author did not say that it only reads."""


class ToolLike(Protocol):
    """A tool as its agent's framework defines it: a `ToolDefinition` of Pydantic AI, or a record of your own."""

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """What is known of it, by key: its `tags`, and the `annotations` of a tool from an MCP server."""
        ...


class ToolFacts(NamedTuple):
    """What is known of one tool.

    Attributes:
        name: the name the model calls it by.
        original: the name that its author gave it.
        plugin: its plugin; `app` for the application's own tools.
        tags: its tags, the default included.
        asks: whether it asks for approval by itself, or by its plugin's `require_approval`.
        searches: whether it is the search for tools on demand.
    """

    name: str
    original: str
    plugin: str = "app"
    tags: tuple[str, ...] = (DEFAULT_TAG,)
    asks: bool = False
    searches: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The final name, and the original one if it differs."""
        return (self.name,) if self.name == self.original else (self.name, self.original)

    @property
    def key(self) -> str:
        """`plugin:tool`, with the original name."""
        return f"{self.plugin}:{self.original}"

    def as_metadata(self) -> dict[str, Any]:
        """Return the metadata of the tool: this record, and the keys that other packages read."""
        return {"plugin": self.plugin, "original": self.original, "tags": self.tags, _KEY: self}


_KEY = "deep"


def tool_facts(definition: ToolLike) -> ToolFacts:
    """Return the facts about a tool: its name and tags if it was not attributed to a plugin.

    Raises:
        TypeError: its tags are not a list of strings; a tool with unreadable tags must not pass `~network`.
    """
    return attributed_facts(definition) or ToolFacts(definition.name, definition.name, tags=tags_of(definition))


def asking_facts(definition: ToolLike) -> ToolFacts:
    """Return the facts for rules of approval: `asking_tags` of the metadata in place of the tags, if it has them.

    A tool that lets others act has their tags too, so that a filter knows what may happen. Their calls ask for
    themselves: it asks only for what it does itself.
    """
    known = tool_facts(definition)
    own = cast("Sequence[str]", (definition.metadata or {}).get("asking_tags") or ())
    return known._replace(tags=tuple(own)) if own else known


def attributed_facts(definition: ToolLike) -> ToolFacts | None:
    """Return the record that `as_metadata` left in the tool, or None."""
    found = (definition.metadata or {}).get(_KEY)
    return found if isinstance(found, ToolFacts) else None


def tags_of(definition: ToolLike) -> tuple[str, ...]:
    """Return a tool's own tags, else those of its MCP annotations, else the default. Raises TypeError."""
    metadata = definition.metadata or {}
    given: object = metadata.get("tags") or ()
    tags = list(cast("Sequence[object]", given if isinstance(given, list | tuple | AbstractSet) else (None,)))
    if not all(isinstance(tag, str) for tag in tags):
        raise TypeError(f"tool {definition.name!r}: tags are a list of strings, not {given!r}")
    hints = cast("Mapping[str, Any]", metadata.get("annotations") or {})
    if not tags:
        tags = [tag for tag, known in STANDARD_TAGS.items() if known.mcp_hint and hints.get(known.mcp_hint)]
        if "read" not in tags:
            tags.insert(0, DEFAULT_TAG)
    return tuple(dict.fromkeys(cast("list[str]", tags)))
