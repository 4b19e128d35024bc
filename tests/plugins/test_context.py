"""A plugin's options and folders outside any agent, and a folder for each session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deep_core import Kernel, PluginContext, PluginError, PluginOptions, PluginWarning, create_default_deps
from tests.plugins_by_hand import Site, kernel_of, plugin, scripted, site

__all__ = ["site"]


class WeatherOptions(PluginOptions):
    unit: str = "celsius"


def test_a_context_outside_any_agent_has_the_plugins_options_folders_and_logger(own_home: Path) -> None:
    closed: list[str] = []
    config = {"plugins": {"weather": {"options": {"unit": "kelvin"}}}}
    with kernel_of(plugin("weather", options=WeatherOptions), config=config) as kernel:
        context = kernel.context("weather")
        assert type(context) is PluginContext
        assert context.plugin == "weather"
        assert context.options(WeatherOptions).unit == "kelvin"
        assert context.logger.name == "deep.weather"
        assert context.data_dir.is_dir()
        assert context.data_dir.is_relative_to(own_home)
        assert context.cache_dir.is_dir()
        context.on_close(lambda: closed.append("weather"))
    assert closed == ["weather"]
    with pytest.raises(PluginError, match="this kernel is closed"):
        kernel.context("weather")


def test_a_context_outside_any_agent_has_the_same_folders_as_one_of_an_agent() -> None:
    seen: list[Any] = []
    kernel = kernel_of(plugin("weather", toolsets=lambda context: seen.append(context) or []))
    kernel.create_agent(scripted())
    context = kernel.context("weather")
    assert (context.data_dir, context.cache_dir) == (seen[0].data_dir, seen[0].cache_dir)


def test_a_plugin_without_options_has_the_defaults() -> None:
    assert kernel_of(plugin("weather", toolsets=[])).context("weather").options(WeatherOptions).unit == "celsius"


def test_options_by_another_model_are_an_error_outside_an_agent_too() -> None:
    class Strange(PluginOptions):
        pass

    with pytest.raises(PluginError, match=r"Strange.*WeatherOptions"):
        kernel_of(plugin("weather", options=WeatherOptions)).context("weather").options(Strange)


def test_there_is_no_context_of_a_plugin_that_is_not_active(site: Site) -> None:
    source = "from deep_core import hookimpl\n@hookimpl\ndef deep_toolsets(context): return []\n"
    site.install("sun", source)
    site.install("ice", "1 / 0")
    with pytest.warns(PluginWarning):
        kernel = Kernel(disable=["sun"])
    with pytest.raises(PluginError, match=r"plugin sun 1\.0 \(acme-sun\) is disabled: disabled in code"):
        kernel.context("sun")
    with pytest.raises(PluginError, match=r"plugin ice 1\.0 \(acme-ice\) is failed: ZeroDivisionError"):
        kernel.context("ice")
    with pytest.raises(PluginError, match=r"this kernel has no plugin 'suns'\. Did you mean 'sun'\?"):
        kernel.context("suns")


def test_the_data_of_all_plugins_is_where_the_kernel_says(tmp_path: Path) -> None:
    kernel = kernel_of(plugin("sun", toolsets=[]), plugin("rain", toolsets=[]), data_dir=tmp_path / "data")
    folders = [kernel.context(name).data_dir for name in ("sun", "rain")]
    assert folders == [tmp_path / "data/plugins/sun", tmp_path / "data/plugins/rain"]
    assert kernel.data_dir == tmp_path / "data"
    assert not kernel.context("sun").cache_dir.is_relative_to(tmp_path / "data")


# -- a folder for each session -----------------------------------------------------------------------------------------

IDS = ["", ".", "..", "../x", "a/b", "a\\b", "/etc/passwd", "x" * 5000, "Ann", "ann", "ANN", "Änn", "ä", "con", "NUL",
       "a\0b", "\ud800", "🙂", " ", "ann.", "a:b", "~", "-", "session"]  # fmt: skip


def test_any_session_id_has_a_folder_of_its_own(tmp_path: Path) -> None:
    context = kernel_of(plugin("archive", toolsets=[]), data_dir=tmp_path).context("archive")
    for session_id in IDS:
        (context.session_dir(session_id) / "id").write_text(ascii(session_id))
    for session_id in IDS:
        assert (context.session_dir(session_id) / "id").read_text() == ascii(session_id)
    home = tmp_path / "plugins/archive/sessions"
    assert len(list(home.iterdir())) == len(IDS)
    assert [path.name for path in tmp_path.iterdir()] == ["plugins"]


def test_a_session_has_the_folder_of_its_id(tmp_path: Path) -> None:
    context = kernel_of(plugin("archive", toolsets=[]), data_dir=tmp_path).context("archive")
    deps = create_default_deps()
    assert context.session_dir(deps) == context.session_dir(deps.session_id)
    assert context.session_dir(deps).is_dir()
