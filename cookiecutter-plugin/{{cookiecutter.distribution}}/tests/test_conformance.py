"""The rules that every plugin follows. A failing test says what to change."""

from pytest_deep import PluginConformance


class TestConformance(PluginConformance):
    plugin = "{{ cookiecutter.plugin }}"
    strict_import = True
{% if cookiecutter.toolset %}
    examples = {"{{ cookiecutter.plugin }}_lookup": {"term": "example"}}
{% endif %}
{% if cookiecutter.history_processor %}
    # The redactor leaves these kinds of part on purpose.
    unredacted = ["file", "thinking"]
{% endif %}
