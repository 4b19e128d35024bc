"""The rules that every plugin follows. A failing test says what to change."""

from pytest_deep import PluginConformance


class TestConformance(PluginConformance):
    plugin = "redactor"
    strict_import = True
    # The redactor leaves these kinds of part on purpose.
    unredacted = ["file", "thinking"]
