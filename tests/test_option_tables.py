"""The tables of plugins' options are complete, and their defaults are true."""

from __future__ import annotations

import re
import tomllib

import pytest
from deep_backends import BackendsOptions
from deep_filesystem import FilesystemOptions

from deep_core import PluginOptions
from deep_core.plugin_api import project_mark
from tests.docs_pages import ROOT, generator

MODELS: dict[str, type[PluginOptions]] = generator().options_models()
REFERENCE = ROOT / "docs" / "reference" / "options.md"
READMES: dict[str, type[PluginOptions]] = {"backends": BackendsOptions, "filesystem": FilesystemOptions}
"""Plugins whose README has the table; a row may have several options."""


def rows(plugin: str) -> list[tuple[str, str, str]]:
    """Name, default and effect of a project's file, of each row of a plugin's table."""
    section = REFERENCE.read_text(encoding="utf-8").split(f"\n## {plugin}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| (.*?) \| .* \| (.*?) \|$", section, re.M)


@pytest.mark.parametrize("plugin", MODELS)
def test_the_reference_has_every_option_in_the_models_order(plugin: str) -> None:
    assert [name for name, _, _ in rows(plugin)] == list(MODELS[plugin].model_fields)


@pytest.mark.parametrize("plugin", MODELS)
def test_a_default_is_what_the_model_has(plugin: str) -> None:
    model = MODELS[plugin]
    for name, shown, _ in rows(plugin):
        if shown == "none":
            assert model.model_fields[name].get_default() is None, name
        else:  # in TOML, as a user would write it
            value = tomllib.loads(f"{name} = {shown.strip('`')}")
            assert model.model_validate(value).model_dump(mode="json") == model().model_dump(mode="json"), name


@pytest.mark.parametrize("plugin", MODELS)
def test_what_a_projects_file_may_not_say_is_ignored(plugin: str) -> None:
    assert {name for name, _, effect in rows(plugin) if effect == "ignored"} == trusted(MODELS[plugin])


def test_pages_with_options_link_to_the_plugins_table() -> None:
    linked = dict[str, list[str]]()
    for page in sorted((ROOT / "docs").glob("*.md")):
        parts = page.read_text(encoding="utf-8").split("\n## Options\n")
        if len(parts) == 2:
            linked[page.name] = re.findall(r"\(reference/options\.md#(\w+)\)", parts[1].split("\n## ")[0])
    assert len(linked) > 10
    assert all(linked.values()), linked
    assert {plugin for plugins in linked.values() for plugin in plugins} <= set(MODELS)


@pytest.mark.parametrize("plugin", READMES)
def test_a_readme_has_every_option_and_marks_those_that_need_trust(plugin: str) -> None:
    text = (ROOT / "plugins" / plugin / "README.md").read_text(encoding="utf-8")
    section = text.split("\n## Options\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.M)
    found = [pair for cell in cells for pair in re.findall(r"`(\w+)`( \*)?", cell)]
    assert [name for name, _ in found] == list(READMES[plugin].model_fields)
    assert {name for name, mark in found if mark} == trusted(READMES[plugin])


def trusted(model: type[PluginOptions]) -> set[str]:
    """The options that a project's own file cannot set."""
    return {name for name, field in model.model_fields.items() if project_mark(field) is None}
