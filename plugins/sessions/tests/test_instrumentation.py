"""`observability.enable_trace` and `enable_metrics`."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from plugins.sessions.tests.scripted import Scripted, call, create, put

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(("trace", "metrics"), [(True, False), (False, True), (False, False)])
async def test_observability_reports_what_is_enabled(
    trace: bool, metrics: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr("pydantic_ai.models.instrumented.get_tracer_provider", lambda: tracers)
    monkeypatch.setattr("pydantic_ai.models.instrumented.get_meter_provider", lambda: meters)
    config = {"observability": {"enable_trace": trace, "enable_metrics": metrics}}
    agent = await create(Scripted([call("put")], "end"), put, config=config)
    assert (await agent.run("go")).status == "completed"
    assert bool(spans.get_finished_spans()) == trace
    assert bool(reader.get_metrics_data()) == metrics
