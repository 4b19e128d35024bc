"""What a kernel reads: everything; installed plugins and nothing else; nothing at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deep_core import Kernel
from deep_core.plugin_api import ConfigFile, user_file
from tests.plugins_by_hand import Site, run, scripted, site

__all__ = ["site"]

SUN = """
from deep_core import PluginOptions, PromptSection, hookimpl

class SunOptions(PluginOptions):
    text: str = "default"

@hookimpl
def deep_options():
    return SunOptions

@hookimpl
def deep_prompt_sections(context):
    return [PromptSection.static("sun", context.options(SunOptions).text)]
"""
SOURCES = ("the project's file", "the user's file", "the environment")


@pytest.fixture
def said(site: Site, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs the plugin and writes its option to a source."""
    site.install("sun", SUN)

    def say(source: str) -> None:
        text = '[plugins.sun.options]\ntext = "configured"\n'
        if source == "the environment":
            monkeypatch.setenv("DEEP_PLUGINS__SUN__OPTIONS__TEXT", "configured")
            monkeypatch.setenv("DEEP_TRACE", "1")
        elif source == "the user's file":
            user_file().parent.mkdir(parents=True)
            user_file().write_text(text)
        else:
            Path("deep.toml").write_text(text)
            ConfigFile.read(Path("deep.toml")).trust()

    return say


def prompt_of(kernel: Kernel) -> str:
    """What the plugin of the kernel says."""
    model = scripted()
    run(kernel.create_agent(model))
    return model.player.views[0].system


@pytest.mark.parametrize("source", SOURCES)
def test_a_kernel_reads_files_and_the_environment(said: Any, source: str) -> None:
    said(source)
    assert prompt_of(Kernel()) == "configured"


@pytest.mark.parametrize("source", SOURCES)
def test_with_read_config_false_a_kernel_has_the_installed_plugins_and_reads_nothing(
    said: Any, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said(source)
    kernel = Kernel(read_config=False)
    assert kernel.active == ("sun",)
    assert prompt_of(kernel) == "default"
    assert kernel.config.layers == ()
    assert capsys.readouterr().err == ""  # no DEEP_TRACE either


def test_with_read_config_false_a_kernel_takes_what_code_says(said: Any) -> None:
    said("the environment")
    kernel = Kernel(read_config=False, config={"plugins": {"sun": {"options": {"text": "from code"}}}})
    assert prompt_of(kernel) == "from code"


def test_with_read_config_false_lists_in_the_environment_are_not_read(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.install("sun", SUN)
    monkeypatch.setenv("DEEP_PLUGINS_DISABLE", "sun")
    assert Kernel().active == ()
    assert Kernel(read_config=False).active == ("sun",)


@pytest.mark.parametrize("source", SOURCES)
def test_with_discover_false_a_kernel_has_no_installed_plugin_and_reads_nothing(said: Any, source: str) -> None:
    said(source)
    kernel = Kernel(discover=False)
    assert kernel.records == ()
    assert kernel.config.layers == ()
