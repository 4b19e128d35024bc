"""The plugin passes the suite for plugins, off and on."""

from __future__ import annotations

from typing import ClassVar

from pytest_deep import PluginConformance


class TestPlugin(PluginConformance):
    plugin = "ask"
    strict_import = True


class TestTurnedOn(PluginConformance):
    plugin = "ask"
    plugin_options: ClassVar = {"offer": True}
