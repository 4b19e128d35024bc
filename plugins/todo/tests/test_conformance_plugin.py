"""The plugin passes the suite for plugins."""

from __future__ import annotations

from typing import ClassVar

from pytest_deep import PluginConformance


class TestPlugin(PluginConformance):
    plugin = "todo"
    strict_import = True
    examples: ClassVar = {
        "write_todos": {"todos": [{"content": "{canary}", "status": "in_progress"}]},
        "read_todos": {},
    }
