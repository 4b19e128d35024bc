"""The options of the plugin."""

from __future__ import annotations

from deep_core import PluginOptions

__all__ = ["ObjectsOptions"]


class ObjectsOptions(PluginOptions):
    """Options of the plugin `objects`."""

    url: str = "http://127.0.0.1:9000/deep"
    """The address of the bucket."""
    token_env: str = "OBJECTS_TOKEN"
    """The environment variable with the token; without it, requests have none."""
    seconds: float = 30.0
    """How long a request may take."""
