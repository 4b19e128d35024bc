"""The base of every plugin's options model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["PluginOptions"]


class PluginOptions(BaseModel):
    """Subclass it, give every field a default and a description, and return the class from `deep_options`.

    Unknown keys are errors. A field whose `json_schema_extra` has `{"trusted": True}` is not taken from a project's
    configuration file, which the model may have written.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
