"""The options of prompted tools."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from typing import Literal

from pydantic import Field

from deep_core import PluginOptions

__all__ = ["PromptedToolsOptions"]


class PromptedToolsOptions(PluginOptions):
    """Options of the plugin `prompted_tools`."""

    mode: Literal["auto", "always", "never"] = "auto"
    """Which models get their tools as text: `auto` those that have no tool calls, `always` all, `never` none."""
    dialect: str = "hermes"
    """How the model writes a call: the name of a text driver, a plugin's too."""
    retries: int = Field(default=2, ge=0, le=2, json_schema_extra={"project": "lower"})
    """How often the model is asked again if it wrote a call wrongly, 0 to 2; after that, its reply stands as text."""
    constrain: Literal["retry", "always", "never"] = "retry"
    """Whether the server holds the reply to a JSON schema of the tools, if it can: `retry` after a reply that cannot be
    read, or where a call was required; `always`, for models that write no call otherwise; `never`."""
    recover: bool = Field(default=False, json_schema_extra={"project": "off"})
    """Execute calls that a model with tool calls wrote as text."""
