"""OpenTelemetry for one agent: `observability.enable_trace` and `enable_metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider
from pydantic_ai.capabilities import Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

if TYPE_CHECKING:
    from deep_core import AgentConfig

__all__ = ["instrumentation"]


def instrumentation(config: AgentConfig) -> Instrumentation:
    """Return Pydantic AI's own capability, with what is off sent nowhere."""
    observability = config.observability
    return Instrumentation(
        InstrumentationSettings(
            tracer_provider=None if observability.enable_trace else NoOpTracerProvider(),
            meter_provider=None if observability.enable_metrics else NoOpMeterProvider(),
        )
    )
