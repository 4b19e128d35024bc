"""The options of `[plugins.cli]`."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from deep_core import PluginOptions
from deep_core.plugin_api import as_expression, validate_options

if TYPE_CHECKING:
    from deep_core.plugin_api import Config

__all__ = ["CliOptions", "cli_options"]


class CliOptions(PluginOptions):
    """Options of the command line. Flags override them."""

    approve: Literal["ask", "allow", "deny"] = "ask"
    """How `deep run` and `deep chat` decide a call that needs approval."""

    max_requests: int = Field(default=200, ge=1, le=100_000, json_schema_extra={"project": "lower"})
    """Maximum requests to the model for one task, or for one message of a chat."""

    attach_chars: int = Field(default=200_000, ge=0, json_schema_extra={"project": "lower"})
    """Maximum characters that `--file` attaches, all files together."""

    plan_tools: str = "read"
    """The tools of plan mode: a tool expression. It narrows every other filter."""

    @field_validator("plan_tools")
    @classmethod
    def _is_expression(cls, text: str) -> str:
        as_expression(text)
        return text


def cli_options(config: "Config") -> CliOptions:
    """Return the options in effect. They come from the configuration, so they hold while the plugin is disabled too.

    Raises:
        ConfigError: an unknown option or a wrong value, with its location.
    """
    options, _ = validate_options("cli", CliOptions, config.plugin("cli"))
    return options
