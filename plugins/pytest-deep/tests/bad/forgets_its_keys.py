"""A slot whose keys are numbers before storing, and text after."""

from typing import Any

from deep_core import StateSlot, hookimpl

FORECASTS: StateSlot[dict[Any, Any]] = StateSlot("forecasts", dict, lambda: {1: "sunny"})


@hookimpl
def deep_state() -> list[Any]:
    return [FORECASTS]
