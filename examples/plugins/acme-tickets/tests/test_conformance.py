"""The rules that every plugin follows. A failing test says what to change."""

from pytest_deep import PluginConformance


class TestConformance(PluginConformance):
    plugin = "tickets"
    strict_import = True
