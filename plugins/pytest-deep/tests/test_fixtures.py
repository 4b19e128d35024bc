"""The fixtures, used like an author does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import deep_todo
import pytest
from pytest_deep import Recorder, ScriptedModel, call
from pytest_deep.subject import find_subject

from deep_core import DeepAgentDeps, Kernel, PluginError, PluginWarning, hookimpl
from tests.authors_pytest import RunPytest

pytest_plugins = ["pytester"]

MakeKernel = Callable[..., Kernel]
MakeModel = Callable[..., ScriptedModel]
MakeDeps = Callable[..., DeepAgentDeps[Any]]


class Weather:
    def __init__(self) -> None:
        self.closed: list[str] = []

    @hookimpl
    def deep_toolsets(self, context: Any) -> list[Any]:
        from pydantic_ai import FunctionToolset

        toolset = FunctionToolset[Any](id="weather")

        def forecast(city: str) -> str:
            """Tomorrow's weather in a city."""
            return f"Sunny in {city}"

        toolset.add_function(forecast, metadata={"tags": ["read"]})
        context.on_close(lambda: self.closed.append(context.plugin))
        return [toolset]


# -- the kernel --------------------------------------------------------------------------------------------------------


def test_a_kernel_has_exactly_the_plugins_that_are_named(deep_kernel: MakeKernel) -> None:
    kernel = deep_kernel("todo", "deep_filesystem", Weather())
    assert set(kernel.active) == {"todo", "filesystem", "weather", "run_events"}


def test_a_plugin_has_its_entry_points_name_however_it_is_given(deep_kernel: MakeKernel) -> None:
    for given in ("todo", "deep_todo", deep_todo):
        assert "todo" in deep_kernel(given).active


def test_an_unknown_plugin_is_reported_with_the_nearest_name(deep_kernel: MakeKernel) -> None:
    with pytest.raises(LookupError, match=r"'tod'\. Did you mean 'todo'\?.*pip install -e"):
        deep_kernel("tod")


def test_a_module_that_fails_at_import_is_not_taken_for_a_missing_one(
    deep_kernel: MakeKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_more.py").write_text("import not_installed_anywhere\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        deep_kernel("needs_more")


def test_all_of_a_package_is_the_plugins_own_and_a_namespace_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "acme_namespace" / "weather"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "hooks.py").write_text("class Weather:\n    pass\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    subject = find_subject("acme_namespace.weather.hooks")
    assert subject.wrote(str(package / "toolset.py"))
    assert not subject.wrote(str(tmp_path / "acme_namespace" / "other" / "toolset.py"))


def test_configuration_and_environment_are_not_looked_at(
    deep_kernel: MakeKernel, deep_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "deep.toml").write_text("[plugins]\ndisable = ['todo']\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEEP_PLUGINS_DISABLE", "todo")
    assert "todo" in deep_kernel("todo").active


def test_what_fails_raises(deep_kernel: MakeKernel) -> None:
    class Misspelt:
        @hookimpl
        def deep_toolset(self) -> list[Any]:
            return []

    with pytest.raises(PluginError, match="Did you mean 'deep_toolsets'"):
        deep_kernel(Misspelt())


def test_a_tools_exception_ends_the_run_unless_the_kernel_is_not_strict(
    deep_kernel: MakeKernel, scripted_model: MakeModel, deep_deps: MakeDeps, deep_recorder: Recorder
) -> None:
    class Broken:
        @hookimpl
        def deep_toolsets(self) -> list[Any]:
            from pydantic_ai import FunctionToolset

            def forecast() -> str:
                raise ConnectionError("no answer")

            return [FunctionToolset[Any]([forecast], id="broken")]

    strict = deep_kernel(Broken())
    with pytest.raises(ConnectionError, match="no answer"):
        asyncio.run(strict.create_agent(scripted_model(call("forecast"))).run("Oslo?", deps=deep_deps(strict)))
    lenient = deep_kernel(Broken(), strict=False)
    asyncio.run(lenient.create_agent(scripted_model(call("forecast"))).run("Oslo?", deps=deep_deps(lenient)))
    assert [incident.where for incident in deep_recorder.incidents] == ["tool forecast"]


@pytest.mark.slow
def test_kernels_are_closed_and_warnings_are_errors(pytester: pytest.Pytester, run_pytest: RunPytest) -> None:
    pytester.makepyfile("""
        import warnings
        from deep_core import PluginWarning, hookimpl

        closed = []

        class Weather:
            @hookimpl
            def deep_prompt_sections(self, context):
                context.on_close(lambda: closed.append(context.plugin))
                return []

        def test_one(deep_kernel):
            deep_kernel(Weather()).create_agent("test")
            assert closed == []

        def test_two(deep_kernel):
            assert closed == ["weather"]
            warnings.warn("left out", PluginWarning)
    """)
    result = run_pytest()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*PluginWarning: left out"])


# -- the model ---------------------------------------------------------------------------------------------------------


async def run_streamed(agent: Any, deps: Any) -> str:
    async with agent.run_stream("Oslo?", deps=deps) as result:
        return await result.get_output()


@pytest.mark.anyio
@pytest.mark.parametrize("streamed", [False, True])
async def test_one_script_is_played_streamed_and_not(
    deep_kernel: MakeKernel, scripted_model: MakeModel, deep_deps: MakeDeps, streamed: bool
) -> None:
    kernel = deep_kernel(Weather())
    model = scripted_model(
        call("forecast", city="Oslo"),
        [call("forecast", city="Rome"), call("forecast", city="Kyiv")],
        lambda messages, info: f"{len(messages)} messages, {len(info.function_tools)} tool.\nSunny.",
    )
    agent, deps = kernel.create_agent(model, interrupt_on=False), deep_deps(kernel)
    output = await run_streamed(agent, deps) if streamed else (await agent.run("Oslo?", deps=deps)).output
    assert output == "5 messages, 1 tool.\nSunny."
    assert [request.streamed for request in model.requests] == [streamed] * 3
    assert [request.tool_names for request in model.requests] == [["forecast"]] * 3
    results = [[part.content for part in request.results] for request in model.requests]
    assert results == [[], ["Sunny in Oslo"], ["Sunny in Rome", "Sunny in Kyiv"]]
    assert "Sunny in Kyiv" in model.requests[2].text
    assert "Sunny in Kyiv" not in model.requests[1].text


def test_after_its_script_a_model_says_done(
    deep_kernel: MakeKernel, scripted_model: MakeModel, deep_deps: MakeDeps
) -> None:
    kernel = deep_kernel(Weather())
    agent = kernel.create_agent(scripted_model("first", then="nothing more"))
    said = [asyncio.run(agent.run("…", deps=deep_deps(kernel))).output for _ in range(3)]
    assert said == ["first", "nothing more", "nothing more"]


def test_what_the_model_read_includes_the_prompt(
    deep_kernel: MakeKernel, scripted_model: MakeModel, deep_deps: MakeDeps
) -> None:
    kernel = deep_kernel("todo", Weather())
    model = scripted_model()
    asyncio.run(kernel.create_agent(model, instructions="Be brief.").run("…", deps=deep_deps(kernel)))
    assert "Be brief." in model.requests[0].instructions
    assert "Be brief." in model.requests[0].text


# -- the session -------------------------------------------------------------------------------------------------------


def test_a_session_works_in_a_temporary_directory(
    deep_kernel: MakeKernel, scripted_model: MakeModel, deep_deps: MakeDeps, tmp_path: Path
) -> None:
    kernel = deep_kernel("filesystem")
    model = scripted_model(call("read_file", path="notes/a.txt"), call("write_file", path="b.txt", content="two"))
    deps = deep_deps(kernel, files={"notes/a.txt": "one", "c.bin": b"\x00"})
    asyncio.run(kernel.create_agent(model, interrupt_on=False).run("…", deps=deps))
    assert "one" in str(model.requests[1].results[0].content)
    written = {path.name: path.read_bytes() for path in (tmp_path / "workspace").rglob("*") if path.is_file()}
    assert written == {"a.txt": b"one", "b.txt": b"two", "c.bin": b"\x00"}


def test_a_session_knows_the_slots_of_its_kernel(deep_kernel: MakeKernel, deep_deps: MakeDeps) -> None:
    assert deep_deps(deep_kernel("todo")).todos == []
    app = object()
    assert deep_deps(app=app).app is app


# -- the recorder ------------------------------------------------------------------------------------------------------


def test_the_recorder_has_requests_events_and_hook_calls(
    deep_kernel: MakeKernel, scripted_model: MakeModel, deep_deps: MakeDeps, deep_recorder: Recorder
) -> None:
    kernel = deep_kernel(Weather())
    model = scripted_model(call("forecast", city="Oslo"))
    asyncio.run(kernel.create_agent(model).run("Oslo?", deps=deep_deps(kernel)))
    assert deep_recorder.requests == model.requests
    kinds = [type(event).__name__ for event in deep_recorder.events]
    assert kinds == ["RunStartEvent", "RequestEvent", "ToolEvent", "ToolEvent", "RequestEvent", "RunEndEvent"]
    assert [(c.plugin, c.hook) for c in deep_recorder.hook_calls] == [("weather", "deep_toolsets")]
    assert [toolset.id for toolset in deep_recorder.calls_of("deep_toolsets")[0]] == ["weather"]


def test_a_hook_that_raises_is_recorded_and_raises(deep_kernel: MakeKernel, deep_recorder: Recorder) -> None:
    class Broken:
        @hookimpl
        def deep_toolsets(self) -> list[Any]:
            raise ValueError("no key")

    kernel = deep_kernel(Broken())
    with pytest.raises(PluginError, match="no key"):
        kernel.create_agent("test")
    assert [repr(c.error) for c in deep_recorder.hook_calls] == ["ValueError('no key')"]
    assert deep_recorder.calls_of("deep_toolsets") == []


# -- the plugin of pytest ----------------------------------------------------------------------------------------------


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.mark.slow
def test_loading_the_plugin_of_pytest_loads_neither_pydantic_nor_pydantic_ai() -> None:
    assert not loaded_by("import pytest_deep.plugin") & {"pydantic", "pydantic_ai", "pydantic_core", "anyio", "asyncio"}


@pytest.mark.slow
def test_a_run_of_pytest_without_these_fixtures_loads_no_framework(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys
        def test_light():
            assert not {"pydantic", "pydantic_ai"} & sys.modules.keys()
    """)
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_public_names_are_sorted_and_all_there() -> None:
    import pytest_deep

    assert list(pytest_deep.__all__) == sorted(pytest_deep.__all__)
    assert isinstance(pytest_deep, ModuleType)
    assert [name for name in pytest_deep.__all__ if getattr(pytest_deep, name) is None] == []


def test_the_home_of_a_test_is_its_own(deep_home: Path) -> None:
    from platformdirs import user_config_path

    assert user_config_path("deep").is_relative_to(deep_home)
    assert not [key for key in os.environ if key.startswith("DEEP_")]
    assert issubclass(PluginWarning, UserWarning)
