"""Facts about one tool: its names, plugin and tags, and the standard tags with what they mean."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast


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


Effect: TypeAlias = Literal["command", "write", "tool"]
"""What every call of a tool does, as a person decides about it: runs a command, changes files, or something else."""


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


class DescribedTool(ToolLike, Protocol):
    """A tool with all that the model reads of it."""

    @property
    def description(self) -> str | None:
        """What it says of itself."""
        ...

    @property
    def parameters_json_schema(self) -> Mapping[str, Any]:
        """The schema of its arguments."""
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
        source: what else the tool depends on besides its plugin: the configuration of a server, the digest of a folder.
            "" for a tool of the plugin's own code.
        changed: why it is not the tool that was trusted; "" if it is.
        writes: whether its author says that it writes, and does nothing else, and it is of its plugin's own code.
        distribution: what installs its plugin; "" for the application.
    """

    name: str
    original: str
    plugin: str = "app"
    tags: tuple[str, ...] = (DEFAULT_TAG,)
    asks: bool = False
    searches: bool = False
    source: str = ""
    changed: str = ""
    writes: bool = False
    distribution: str = ""

    @classmethod
    def of(cls, plugin: str, definition: ToolLike, name: str, *, searches: bool = False) -> ToolFacts:
        """Return the facts about a plugin's tool, before its settings say whether it asks.

        Args:
            plugin: the plugin.
            definition: the tool as its author defines it. In its metadata, `identity` is its `source`, and `changed`
                why it is not what was trusted.
            name: its final name.
            searches: whether it is the search for tools on demand.

        Raises:
            TypeError: its tags are not a list of strings.
        """
        metadata = definition.metadata or {}
        tags, source = ("read",) if searches else tags_of(definition), str(metadata.get("identity") or "")
        writes = tags == ("write",) and bool(metadata.get("tags")) and not source
        changed = str(metadata.get("changed") or "")
        return cls(
            name, definition.name, plugin, tags, searches=searches, source=source, changed=changed, writes=writes
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The final name, and the original one if it differs."""
        return (self.name,) if self.name == self.original else (self.name, self.original)

    @property
    def effect(self) -> Effect:
        """What every call does: `command` with the tag `execute`, `write` if the tool only writes, else `tool`."""
        return "command" if "execute" in self.tags else "write" if self.writes else "tool"

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


def identity_of(definition: DescribedTool) -> str:
    """Return what a person decides about when a tool asks: `plugin:tool@` and a digest.

    The digest is of the distribution that contributes the tool, of its source, and of all that the model reads of it:
    its name, description and schema. A tool of the same name with another digest is another tool.
    """
    from hashlib import sha256  # 3 ms, only where a call asks

    known = tool_facts(definition)
    said = [definition.name, definition.description, definition.parameters_json_schema]
    text = json.dumps([known.distribution, known.source, *said], sort_keys=True, default=repr)
    return f"{known.key}@{sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"


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
