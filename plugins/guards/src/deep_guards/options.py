"""The options of the guards."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from pydantic import Field, JsonValue, field_validator

from deep_core import PluginOptions

__all__ = ["GuardsOptions"]

# A project's file, which the model may have written, cannot loosen the user's guards.
_LOWER: dict[str, JsonValue] = {"project": "lower"}


class GuardsOptions(PluginOptions):
    """Options of the plugin `guards`."""

    warn_after: int = Field(default=3, ge=2, le=1_000, json_schema_extra=_LOWER)
    """The model reads a warning when a call has returned the same result this often."""
    stop_after: int = Field(default=5, ge=2, le=1_000, json_schema_extra=_LOWER)
    """The run ends when a call has returned the same result this often."""
    window: int = Field(default=20, ge=2, le=1_000)
    """Count only the last calls."""
    may_repeat: str | None = None
    """A tool expression: tools that may return the same again and again, such as one that waits."""
    budget_share: float = Field(default=0.8, gt=0, le=1, json_schema_extra=_LOWER)
    """The model reads a warning when this share of a run's limit is used. 1 turns it off."""
    deny_commands: list[str] = Field(default_factory=list[str], json_schema_extra={"project": "superset"})
    """Commands that are refused: `"git push"`, `"rm -r"`. Not a sandbox."""

    @field_validator("deny_commands")
    @classmethod
    def _readable(cls, commands: list[str]) -> list[str]:
        from .commands import words_of

        for command in commands:
            if not (words := words_of(command)) or len(words) != 1:
                raise ValueError(f"{command!r} is not one command with its words, such as 'git push'")
        return commands
