"""The plugin passes the suite for plugins."""

from __future__ import annotations

from typing import ClassVar

from pytest_deep import PluginConformance


class TestPlugin(PluginConformance):
    plugin = "repo_map"
    strict_import = True
    beside = ("backends",)


class TestPluginOn(PluginConformance):
    plugin = "repo_map"
    strict_import = True
    beside = ("backends",)
    plugin_options: ClassVar = {"enabled": True}
    examples: ClassVar = {"repo_map": [{}, {"path": "shop", "focus": ["total"], "tokens": 200}]}
    files: ClassVar = {"shop/prices.py": "def total(prices):\n    return sum(prices)\n"}
