"""The plugin passes the suite for plugins."""

from __future__ import annotations

from pytest_deep import PluginConformance


class TestPlugin(PluginConformance):
    plugin = "openapi"
    strict_import = True
