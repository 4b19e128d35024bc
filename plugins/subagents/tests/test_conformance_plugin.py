"""The plugin passes the suite for plugins."""

from __future__ import annotations

from typing import ClassVar

from pytest_deep import PluginConformance


class TestPlugin(PluginConformance):
    plugin = "subagents"
    strict_import = True
    examples: ClassVar = {"task": {"description": "Find {canary}.", "subagent_type": "general-purpose"}}
