"""OpenTelemetry for one agent: `observability.enable_trace` and `enable_metrics`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NonRecordingSpan, NoOpTracerProvider, SpanContext, TraceFlags, use_span
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

if TYPE_CHECKING:
    from deep_core import AgentConfig

__all__ = ["instrumentation", "untraced"]


def instrumentation(config: AgentConfig) -> Instrumentation:
    """Return Pydantic AI's own capability, with what is off sent nowhere."""
    observability = config.observability
    return Instrumentation(
        InstrumentationSettings(
            tracer_provider=None if observability.enable_trace else NoOpTracerProvider(),
            meter_provider=None if observability.enable_metrics else NoOpMeterProvider(),
        )
    )


@contextmanager
def untraced() -> Generator[None]:
    """Record no spans in this block: the default sampler follows the parent, and this one is not sampled."""
    with use_span(NonRecordingSpan(SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.DEFAULT)))):
        yield
