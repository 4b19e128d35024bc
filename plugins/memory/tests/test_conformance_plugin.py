"""The plugin passes the suite for plugins, off and on."""

from __future__ import annotations

from typing import ClassVar

from pytest_deep import PluginConformance


class TestPlugin(PluginConformance):
    plugin = "memory"
    strict_import = True


class TestTurnedOn(PluginConformance):
    plugin = "memory"
    # A memory is shared by sessions of one owner, and by no others.
    plugin_options: ClassVar = {"enabled": True, "project": "x", "owner": lambda deps: deps.session_id}
