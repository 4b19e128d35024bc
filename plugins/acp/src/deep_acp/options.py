"""The options of `[plugins.acp]`."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from deep_core import PluginOptions
from deep_core.plugin_api import as_expression, validate_options

if TYPE_CHECKING:
    from deep_core.plugin_api import Config

__all__ = ["AcpOptions", "acp_options"]


class AcpOptions(PluginOptions):
    """Options of `deep acp`."""

    models: list[str] = Field(default_factory=list)
    """Models that the editor offers beside the configured one, such as `openai:gpt-5.2`."""

    plan_tools: str = "read"
    """The tools of plan mode: a tool expression. It narrows every other filter."""

    @field_validator("plan_tools")
    @classmethod
    def _is_expression(cls, text: str) -> str:
        as_expression(text)
        return text


def acp_options(config: "Config") -> AcpOptions:
    """Return the options in effect.

    Raises:
        ConfigError: an unknown option or a wrong value, with its location.
    """
    options, _ = validate_options("acp", AcpOptions, config.plugin("acp"))
    return options
