"""The keys of `[plugins.<name>]`: the annotated fields of `PluginSettings` are the only list of them.

A key's check, its error, its JSON schema, its line in the docs and an untrusted project's rights over it all follow
from the field and the docstring below it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

from ..errors import ConfigError, suggest
from ..tables import is_list, is_texts

_TYPES = {"boolean": bool, "integer": int, "string": str, "array": list, "object": dict}


class Setting(NamedTuple):
    """One key of `[plugins.<name>]`.

    Attributes:
        types: the JSON types of a correct value.
        expected: a correct value in words, for the error and the docs.
        project: the key's effect in an untrusted project's file. `ignored`: none; `taken`: as in any other file;
            `added`: the value is joined with other layers' values, and `false` is ignored.
        schema: further keywords of the JSON schema.
    """

    types: tuple[str, ...]
    expected: str
    project: Literal["ignored", "taken", "added"] = "ignored"
    schema: Mapping[str, Any] = MappingProxyType({})

    def accepts(self, value: object) -> bool:
        """Whether a value has one of the types and matches the schema's pattern."""
        if isinstance(value, bool):
            return "boolean" in self.types
        if isinstance(value, str) and "pattern" in self.schema:
            return re.fullmatch(self.schema["pattern"], value) is not None
        if is_list(value) and not is_texts(value):
            return False
        return isinstance(value, tuple(_TYPES[name] for name in self.types))


_RULE, _RULE_IN_WORDS = ("boolean", "string"), "true, false or a tool expression"
_WORD = {"pattern": r"^([A-Za-z][A-Za-z0-9_-]*)?$"}
_NUMBERS = {"additionalProperties": {"type": "integer"}}
_TEXTS = {"items": {"type": "string"}}


class PluginSettings(NamedTuple):
    """`[plugins.<name>]`, merged from every layer; `sources` maps each key to its source.

    `options` are those of trusted layers. `project_options` are those of untrusted layers that no stronger layer sets,
    each with its value and source: see `options.validate_options`.
    """

    enabled: Annotated[bool, Setting(("boolean",), "true or false")] = True
    """`false` leaves the plugin out, before import."""
    order: Annotated[
        int | Mapping[str, int],
        Setting(("integer", "object"), "a number or a table of hook = number", schema=_NUMBERS),
    ] = 0
    """The plugin's place among plugins: lower first, 0 by default. `order.history_processors = 10` sets it for one
    hook."""
    prefix: Annotated[str, Setting(("string",), "text: letters, digits, _ and -, a letter first", schema=_WORD)] = ""
    """The kernel adds it to the plugin's tool names: `prefix = "my"` makes `my_forecast`."""
    tools: Annotated[str | None, Setting(("string",), "a tool expression")] = None
    """The agent has only these tools of the plugin."""
    require_approval: Annotated[str | bool | None, Setting(_RULE, _RULE_IN_WORDS, "added")] = None
    """These tools ask. With `false`, the plugin's tools no longer ask by themselves."""
    defer: Annotated[str | bool | None, Setting(_RULE, _RULE_IN_WORDS, "taken")] = None
    """The model finds these tools with tool search, and the prompt does not contain them."""
    replaces: Annotated[
        tuple[str, ...],
        Setting(("array",), 'a list like ["filesystem:read_file"]', schema=_TEXTS),
    ] = ()
    """The plugin's tools of these names replace those tools and keep their approvals."""
    options: Annotated[Mapping[str, Any], Setting(("object",), "a table", "taken")] = MappingProxyType({})
    """The plugin's own options. Unknown keys are errors."""
    project_options: Mapping[str, tuple[Any, str]] = MappingProxyType({})
    sources: Mapping[str, str] = MappingProxyType({})

    def order_in(self, hook: str) -> int:
        """Return the order for one hook: `order = 10`, or `order.history_processors = 10`; 0 by default."""
        if isinstance(self.order, int):
            return self.order
        return self.order.get(hook.removeprefix("deep_"), 0)


SETTINGS: Mapping[str, Setting] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(PluginSettings, include_extras=True).items()
    if hasattr(hint, "__metadata__")
}
"""The keys of `[plugins.<name>]`."""


def check_setting(where: str, key: str, value: object) -> Setting:
    """Return the key's record.

    Raises:
        ConfigError: there is no such key, or the value has a wrong type.
    """
    if key not in SETTINGS:
        raise ConfigError(f"{where}: unknown key.{suggest(key, SETTINGS)} Known: {', '.join(SETTINGS)}")
    setting = SETTINGS[key]
    if not setting.accepts(value):
        raise ConfigError(f"{where}: must be {setting.expected}, not {value!r}")
    return setting


def join_rules(rules: Sequence[str | bool | None]) -> str | bool:
    """Join the rules of several layers: the result matches what any of them matches."""
    if True in rules:
        return True
    return " | ".join(f"({rule})" for rule in rules if isinstance(rule, str))
