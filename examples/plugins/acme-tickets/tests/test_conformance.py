"""The rules that every plugin follows. A failing test says what to change."""

import pytest
from pytest_deep import PluginConformance


class TestConformance(PluginConformance):
    plugin = "tickets"
    strict_import = True
    examples = {"tickets_list": {}, "tickets_create": {"title": "The lamp is out"}, "tickets_close": {"number": 1}}

    @pytest.fixture(autouse=True)
    def with_the_service(self, options):
        self.plugin_options = options
