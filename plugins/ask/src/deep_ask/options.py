"""The options of questions to the user."""

from pydantic import Field

from deep_core import PluginOptions

__all__ = ["AskOptions"]


class AskOptions(PluginOptions):
    """Options of the plugin `ask`."""

    # A project's file cannot say that a person is there: only the interface or the user knows.
    offer: bool = Field(default=False, json_schema_extra={"project": "off"})
    """Offer `ask_user`: a person answers. `deep chat`, and `deep run` on a terminal, turn it on by themselves."""
