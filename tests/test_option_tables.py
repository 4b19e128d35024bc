"""The options tables of the feature pages are complete, and their defaults are true."""

from __future__ import annotations

import re
import tomllib

import pytest
from deep_acp import AcpOptions
from deep_ask import AskOptions
from deep_backends import BackendsOptions
from deep_capabilities import CapabilitiesOptions
from deep_filesystem import FilesystemOptions
from deep_folders import FoldersOptions
from deep_guards import GuardsOptions
from deep_mcp import McpOptions
from deep_memories import MemoryOptions
from deep_prompted_tools import PromptedToolsOptions
from deep_skills import SkillsOptions
from deep_subagents import SubagentsOptions
from deep_summarization import SummarizationOptions
from deep_todo import TodoOptions
from deep_uploads import UploadsOptions
from deep_web import WebOptions
from deep_web_tools import WebToolsOptions

from deep_core import PluginOptions
from deep_core.plugin_api import project_mark
from tests.docs_pages import ROOT

PAGES: dict[str, type[PluginOptions]] = {
    "todos.md": TodoOptions,
    "subagents.md": SubagentsOptions,
    "skills.md": SkillsOptions,
    "summarization.md": SummarizationOptions,
    "uploads.md": UploadsOptions,
    "memory.md": MemoryOptions,
    "asking.md": AskOptions,
    "browser.md": WebOptions,
    "editors.md": AcpOptions,
    "folders.md": FoldersOptions,
    "models-without-tools.md": PromptedToolsOptions,
    "mcp.md": McpOptions,
    "web.md": WebToolsOptions,
    "capabilities.md": CapabilitiesOptions,
    "guards.md": GuardsOptions,
}

READMES: dict[str, type[PluginOptions]] = {"backends": BackendsOptions, "filesystem": FilesystemOptions}
"""Plugins whose README has the table; a row may have several options."""


def rows(page: str) -> list[tuple[str, str, str]]:
    """Name, mark and default of each row of the page's table of options."""
    section = (ROOT / "docs" / page).read_text(encoding="utf-8").split("\n## Options\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)`( \*)? \| (.*?) \|", section, re.M)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_every_option_in_the_models_order(page: str) -> None:
    assert [name for name, _, _ in rows(page)] == list(PAGES[page].model_fields)


@pytest.mark.parametrize("page", PAGES)
def test_a_default_is_what_the_model_has(page: str) -> None:
    model = PAGES[page]
    for name, _, shown in rows(page):
        if shown == "none":
            assert model.model_fields[name].get_default() is None, name
        else:  # in TOML, as a user would write it
            value = tomllib.loads(f"{name} = {shown.strip('`')}")
            assert model.model_validate(value).model_dump(mode="json") == model().model_dump(mode="json"), name


@pytest.mark.parametrize("page", PAGES)
def test_what_a_projects_file_may_not_say_is_marked(page: str) -> None:
    assert {name for name, mark, _ in rows(page) if mark} == trusted(PAGES[page])


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
