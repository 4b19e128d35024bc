"""The catalog of an agent's tools: what the rules say of each, kept until a tool changes."""

from __future__ import annotations

import pytest
from pydantic_ai import ToolDefinition
from pydantic_ai.exceptions import UserError
from tool_expressions import ToolFacts

from deep_core.agent.policy.catalog import Catalog
from deep_core.agent.policy.rules import Rules


def tool(name: str, plugin: str = "app", *, asks: bool = False) -> ToolDefinition:
    return ToolDefinition(name=name, metadata=ToolFacts(name, name, plugin, asks=asks).as_metadata())


def test_a_tool_that_changed_is_looked_at_again() -> None:
    catalog = Catalog(Rules())
    assert catalog.of(tool("wipe")).how == "never"
    assert catalog.of(tool("wipe", asks=True)).how == "always"
    assert catalog.of(tool("wipe")).how == "never"


def test_a_replacing_tool_keeps_the_rules_for_the_one_that_it_replaces() -> None:
    catalog = Catalog(Rules({"read": True}))
    catalog.replacing("mine", "files", "read")
    catalog.seen(tool("read", "files"))
    assert catalog.of(tool("read", "mine")).how == "always"
    assert catalog.of(tool("list", "mine")).how == "never"


def test_a_rule_is_checked_until_it_has_passed_once_against_all_that_was_seen() -> None:
    catalog = Catalog(Rules({"later": True}))
    with pytest.raises(UserError, match="no tool 'later'"):
        catalog.check([tool("now")])
    assert not catalog.is_checked
    catalog.seen(tool("later"))
    catalog.check([tool("now")])
    assert catalog.is_checked
    catalog.check([])  # nothing to check any more
