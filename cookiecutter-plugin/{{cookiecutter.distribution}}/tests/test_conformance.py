"""The rules that every plugin keeps. Where one is broken, the test says what to change."""

from pytest_deep import PluginConformance


class TestConformance(PluginConformance):
    plugin = "{{ cookiecutter.plugin }}"
    strict_import = True
{% if cookiecutter.toolset %}
    examples = {"{{ cookiecutter.plugin }}_lookup": {"term": "example"}}
{% endif %}
{% if cookiecutter.history_processor %}
    # What the redactor leaves on purpose.
    unredacted = ["file", "thinking"]
{% endif %}
