"""The options of `[plugins.cli]`."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue, ValidationError

from deep_core import ConfigError, PluginOptions

if TYPE_CHECKING:
    from deep_core.plugin_api import Config

__all__ = ["CliOptions", "cli_options"]

# Never from a project's file, which the model may have written.
_TRUSTED: dict[str, JsonValue] = {"trusted": True}


class CliOptions(PluginOptions):
    """Options of the command line. Flags override them."""

    approve: Literal["ask", "allow", "deny"] = Field(default="ask", json_schema_extra=_TRUSTED)
    """How `deep run` and `deep chat` decide a call that needs approval."""

    max_requests: int = Field(default=200, ge=1, le=100_000, json_schema_extra=_TRUSTED)
    """Maximum requests to the model for one task, or for one message of a chat."""

    attach_chars: int = Field(default=200_000, ge=0, json_schema_extra=_TRUSTED)
    """Maximum characters that `--file` attaches, all files together."""


def cli_options(config: "Config") -> CliOptions:
    """Return the options in effect. They come from the configuration, so they hold while the plugin is disabled too.

    Raises:
        ConfigError: an unknown option or a wrong value, with its location.
    """
    # All of these options are trusted, so drop those of an untrusted file.
    settings = config.plugin("cli").believing(lambda option: True)
    try:
        return CliOptions.model_validate(settings.options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        where = settings.sources.get(f"options.{first['loc'][0]}", "code") if first["loc"] else "code"
        message = (
            f"unknown option. Known: {', '.join(CliOptions.model_fields)}"
            if first["type"] == "extra_forbidden"
            else first["msg"]
        )
        raise ConfigError(f"{where}: plugins.cli.options.{path}: {message}", plugin="cli") from None
