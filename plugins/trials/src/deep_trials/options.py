"""The options of `[plugins.trials]`."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from typing import Annotated

from pydantic import Field, JsonValue

from deep_core import PluginOptions

__all__ = ["TrialsOptions"]


class TrialsOptions(PluginOptions):
    """Options of `deep eval`."""

    agents: Annotated[dict[str, dict[str, JsonValue]], Field(default_factory=dict)]
    """Named configurations for `--agent NAME`: each has the tables of a configuration file, `agent` and `plugins`."""
