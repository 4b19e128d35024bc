"""Options whose default is not a valid value."""

from typing import Any, Literal

from deep_core import hookimpl


@hookimpl
def deep_options() -> Any:
    from deep_core import PluginOptions

    class WeatherOptions(PluginOptions):
        unit: Literal["celsius", "fahrenheit"] = "kelvin"  # type: ignore[assignment]  # pyright: ignore

    return WeatherOptions
