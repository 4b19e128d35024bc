"""`kernel.trace()` and DEEP_TRACE=1: whose code ran, how long it took, what came of it, nested; nothing while off."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import FunctionToolset, ModelRetry
from pydantic_ai.models.instrumented import InstrumentationSettings

from deep_core import Deny, Kernel, PluginError, PromptSection, create_default_deps
from deep_core.tracing import Trace, Traced, Tracer
from tests import another_process
from tests.plugins_by_hand import kernel_of, plugin, run, scripted
from tests.stubs import Call


def outcomes(steps: list[Any]) -> dict[tuple[str, str, str], str]:
    return {(step.plugin, step.kind, step.name): step.outcome for step in steps}


def weather() -> Any:
    toolset = FunctionToolset[Any](id="weather")

    @toolset.tool_plain
    def forecast(city: str) -> str:
        if city == "Atlantis":
            raise ModelRetry("no such city")
        return f"Sunny in {city}"

    return plugin(
        "weather",
        toolsets=[toolset],
        sections=[PromptSection.live("now", lambda ctx: "It is noon.")],
    )


def test_a_trace_tells_whose_code_ran_and_what_came_of_it() -> None:
    kernel = kernel_of(weather(), plugin("guard", check_call=lambda call, context: None))
    with kernel.trace() as trace:
        agent = kernel.create_agent(
            scripted(Call("forecast", {"city": "Atlantis"}), Call("forecast", {"city": "Oslo"}))
        )
        run(agent, deps=create_default_deps(kernel=kernel))
    told = [(step.plugin, step.kind, step.name, step.outcome) for step in trace.steps]
    assert ("weather", "hook", "deep_toolsets", "ok") in told
    assert ("weather", "section", "now", "ok") in told
    assert ("guard", "hook", "deep_check_call", "ok") in told
    tools = [outcome for plugin_, kind, name, outcome in told if (kind, name) == ("tool", "forecast")]
    assert tools == ["ModelRetry: no such city", "ok"]
    assert set(trace.by_plugin()) == {"weather", "guard"}
    assert json.loads(json.dumps(trace.to_json()))["schema"] == 1
    assert "ms  weather: tool forecast  ModelRetry: no such city" in str(trace)


def test_what_one_plugin_calls_of_another_is_nested() -> None:
    toolset = FunctionToolset[Any](id="outer")

    @toolset.tool_plain
    async def outer() -> str:
        with kernel.tracer.step("inner", "tool", "inner"):
            return "done"

    kernel = kernel_of(plugin("a", toolsets=[toolset]))
    agent = kernel.create_agent(scripted(Call("outer")))
    with kernel.trace() as trace:
        run(agent, deps=create_default_deps(kernel=kernel))
    (step,) = [step for step in trace.steps if step.kind == "tool"]
    assert [(inner.plugin, inner.name) for inner in step.steps] == [("inner", "inner")]
    assert step.milliseconds >= step.steps[0].milliseconds
    first, second = list(step.lines())
    assert first.index("a: tool outer") + 2 == second.index("inner: tool inner")


def test_nothing_is_recorded_outside_the_block() -> None:
    kernel = kernel_of(weather())
    with kernel.trace() as trace:
        pass
    kernel.create_agent(scripted())
    assert trace.steps == []
    with kernel.trace() as one, kernel.trace() as other:
        kernel.create_agent(scripted())
    assert [str(step.name) for step in one.steps] == [str(step.name) for step in other.steps] != []


def test_what_raises_and_what_never_ran_can_be_distinguished() -> None:
    def broken(context: Any) -> list[Any]:
        raise RuntimeError("no")

    kernel = kernel_of(plugin("broken", toolsets=broken))
    with kernel.trace() as trace, pytest.raises(PluginError):
        kernel.create_agent(scripted())
    assert outcomes(trace.steps)["broken", "hook", "deep_toolsets"] == "RuntimeError: no"

    kernel = kernel_of(plugin("guard", check_call=lambda call, context: Deny("never")), weather())
    agent = kernel.create_agent(scripted(Call("forecast", {"city": "Oslo"})))
    with kernel.trace() as trace:
        run(agent, deps=create_default_deps(kernel=kernel))
    assert ("weather", "tool", "forecast") not in outcomes(trace.steps)


def spans_of(kernel: Kernel, city: str = "Oslo") -> list[ReadableSpan]:
    """The spans of a run with one call, in the order in which they ended."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    agent = kernel.create_agent(scripted(Call("forecast", {"city": city})))
    agent.instrument = InstrumentationSettings(tracer_provider=provider)
    deps = create_default_deps(kernel=kernel)
    deps.session_id = "session-1"
    run(agent, deps=deps, run_id="run-1", conversation_id="conversation-1")
    return list(exporter.get_finished_spans())


def ours_of(kernel: Kernel) -> set[str]:
    return {span.name for span in spans_of(kernel) if "deep.plugin" in (span.attributes or {})}


def test_spans_of_opentelemetry_carry_the_plugins_name_and_the_ids_of_run_and_session() -> None:
    spans = {span.name: span for span in spans_of(kernel_of(weather()))}
    ours = spans["weather: tool forecast"]
    assert dict(ours.attributes or {}) == {
        "deep.plugin": "weather",
        "deep.kind": "tool",
        "deep.name": "forecast",
        "gen_ai.agent.call.id": "run-1",
        "gen_ai.conversation.id": "conversation-1",
        "deep.session": "session-1",
    }
    parent = {span.context.span_id: span.name for span in spans.values() if span.context}
    assert ours.parent is not None
    assert "forecast" in parent[ours.parent.span_id]
    assert "weather: section now" in spans


def test_spans_are_chosen_by_kind() -> None:
    kernel = kernel_of(weather())
    everything = ours_of(kernel)
    assert {"weather: tool forecast", "weather: section now"} <= everything
    kernel.tracer.choose_spans("tool")
    assert ours_of(kernel) == {"weather: tool forecast"}
    kernel.tracer.choose_spans("section", "processor")
    assert ours_of(kernel) == {"weather: section now"}
    kernel.tracer.choose_spans()
    assert ours_of(kernel) == everything


def test_the_choice_of_spans_leaves_the_trace_whole() -> None:
    kernel = kernel_of(weather())
    kernel.tracer.choose_spans("section", min_ms=1e9)
    with kernel.trace() as trace:
        assert ours_of(kernel) == set()
    assert ("weather", "tool", "forecast") in outcomes(trace.steps)


def test_a_misspelt_kind_is_an_error_with_a_suggestion_and_changes_nothing() -> None:
    kernel = kernel_of(weather())
    with pytest.raises(ValueError, match=r"no kind of step 'tols'\. Did you mean 'tool'\? Kinds: import"):
        kernel.tracer.choose_spans("section", "tols")
    assert "weather: tool forecast" in ours_of(kernel)


def test_spans_are_chosen_by_their_duration_and_keep_their_times_parents_and_failures() -> None:
    kernel = kernel_of(weather())
    everything = ours_of(kernel)
    kernel.tracer.choose_spans(min_ms=1e9)  # eleven days
    assert ours_of(kernel) == set()
    kernel.tracer.choose_spans(min_ms=1e-6)
    spans = spans_of(kernel)
    assert {span.name for span in spans if "deep.plugin" in (span.attributes or {})} == everything
    by_id = {span.context.span_id: span for span in spans}
    (tool,) = [span for span in spans if span.name == "weather: tool forecast"]
    assert tool.parent is not None
    around = by_id[tool.parent.span_id]
    assert "forecast" in around.name
    assert (around.start_time or 0) <= (tool.start_time or 0) <= (tool.end_time or 0) <= (around.end_time or 0)
    failed = next(span for span in spans_of(kernel, "Atlantis") if span.name == "weather: tool forecast")
    assert [(span.attributes or {})["deep.outcome"] for span in (tool, failed)] == ["ok", "ModelRetry: no such city"]


@pytest.mark.slow
def test_deep_trace_prints_to_stderr(tmp_path: Path) -> None:
    program = "from deep_core import Kernel; Kernel().create_agent('test'); print('made')"

    def started(value: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "DEEP_TRACE": value, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
        return another_process.run(program, env=env, cwd=tmp_path)

    traced = started("1")
    assert traced.stdout == "made\n"
    assert "ms  todo: import deep_todo" in traced.stderr
    assert "ms  filesystem: hook deep_toolsets" in traced.stderr
    for off in ("", "0"):
        assert started(off).stderr == ""


@pytest.mark.slow
def test_what_is_printed_is_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    tracer = Tracer(to_stderr=True)
    for _ in range(100):
        with tracer.step("forgetful", "tool", "forecast"):
            pass
    assert capsys.readouterr().err.count("forgetful: tool forecast") == 100
    gc.collect()
    assert not [found for found in gc.get_objects() if isinstance(found, Traced) and found.plugin == "forgetful"]


def test_a_trace_has_what_ran_inside_a_step_that_it_does_not_know() -> None:
    asked = kernel_of(plugin("clock", sections=[PromptSection.live("now", lambda ctx: "It is noon.")]))
    agent = asked.create_agent("test")
    begun_inside: list[Trace] = []
    toolset = FunctionToolset[Any](id="asking")

    @toolset.tool_plain
    async def ask() -> str:
        with asked.trace() as trace:
            await agent.run("time?", model=scripted(), deps=create_default_deps(kernel=asked))
        begun_inside.append(trace)
        return "noon"

    kernel = kernel_of(plugin("asking", toolsets=[toolset]))
    outer = kernel.create_agent(scripted(Call("ask", {})))
    with asked.trace() as of_the_asked, kernel.trace() as of_the_asking:
        run(outer, deps=create_default_deps(kernel=kernel))
    section = ("clock", "section", "now")
    (tool,) = [step for step in of_the_asking.steps if step.kind == "tool"]
    assert list(outcomes(tool.steps)) == [section]
    assert section in outcomes(of_the_asked.steps)
    assert section in outcomes(begun_inside[0].steps)


def test_what_a_step_left_running_is_outermost_when_the_step_has_ended() -> None:
    async def scene() -> list[Traced]:
        tracer, go_on = Tracer(), asyncio.Event()

        async def later() -> None:
            with tracer.step("weather", "tool", "across"):
                await go_on.wait()
            with tracer.step("weather", "section", "after"):
                pass

        with tracer.trace() as trace:
            with tracer.step("weather", "tool", "starts"):
                task = asyncio.create_task(later())
                await asyncio.sleep(0)
            go_on.set()
            await task
        return trace.steps

    steps = asyncio.run(scene())
    assert [(step.name, step.steps) for step in steps] == [("starts", []), ("across", []), ("after", [])]


def test_traces_that_begin_and_end_in_many_threads_are_all_kept_and_all_end() -> None:
    tracer, interval = Tracer(), sys.getswitchinterval()

    def record() -> None:
        for _ in range(3_000):
            with tracer.trace() as trace, tracer.step("weather", "tool", "forecast"):
                pass
            assert any(step.name == "forecast" for step in trace.steps)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(record) for _ in range(4)]:
                done.result()
    finally:
        sys.setswitchinterval(interval)
    assert tracer.step("weather", "tool", "untraced") is tracer.step("weather", "tool", "another")  # off again
