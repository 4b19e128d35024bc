"""The options of `[plugins.web]`."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from typing import TYPE_CHECKING

from pydantic import Field

from deep_core import PluginOptions
from deep_core.plugin_api import validate_options

if TYPE_CHECKING:
    from deep_core.plugin_api import Config

__all__ = ["WebOptions", "web_options"]

EXAMPLES = [
    "Explain what this project does.",
    "Find a bug, and tell me how you would fix it.",
    "Write tests for the file that changed last.",
]


class WebOptions(PluginOptions):
    """Options of `deep web`."""

    models: list[str] = Field(default_factory=list)
    """Models that the page offers beside the configured one, such as `openai:gpt-5.2`."""

    examples: list[str] = EXAMPLES
    """Messages that an empty conversation offers."""

    max_upload_bytes: int = Field(default=50 * 1024**2, gt=0)
    """Most bytes of one upload."""

    max_file_bytes: int = Field(default=50 * 1024**2, gt=0)
    """Most bytes of a file that the page downloads."""


def web_options(config: "Config") -> WebOptions:
    """Return the options in effect.

    Raises:
        ConfigError: an unknown option or a wrong value, with its location.
    """
    options, _ = validate_options("web", WebOptions, config.plugin("web"))
    return options
