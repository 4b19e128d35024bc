"""The options for summaries and for large tool results."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, JsonValue, ValidationInfo, field_validator

from deep_core import PluginOptions

from .sizes import DEFAULT_KEEP, DEFAULT_TRIGGER, checked_size, checked_triggers

__all__ = ["StoredLimits", "SummarizationOptions"]

# A project's file, which the model may have written, cannot raise the user's limits.
_LOWER: dict[str, JsonValue] = {"project": "lower"}


def _size(value: object) -> object:
    return checked_size(value, "keep")


def _triggers(value: Any) -> object:
    # One size, or several: TOML has no tuples, so ["tokens", 1000] and [["tokens", 1000]] both arrive as lists.
    return checked_triggers(value)


Size = tuple[Literal["messages", "tokens", "fraction"], int | float]


class StoredLimits(NamedTuple):
    """Limits of what a session stores in its workspace.

    Attributes:
        bytes: maximum of all files together.
        days: another session removes the folder of one that stored nothing for so long.
    """

    bytes: int = 64 * 1024 * 1024
    days: int = 30


class SummarizationOptions(PluginOptions):
    """Options of the plugin `summarization`."""

    trigger: Annotated[tuple[Size, ...], BeforeValidator(_triggers)] = (DEFAULT_TRIGGER,)
    """When to summarize: `["messages", n]`, `["tokens", n]`, `["fraction", f]` of the window, or a list of these, any
    of which is enough."""
    keep: Annotated[Size, BeforeValidator(_size)] = DEFAULT_KEEP
    """How much of the end of the conversation to keep, in the same terms. At most half of a trigger in tokens
    is kept, so that a summary lasts."""
    model: str | None = None
    """The model that writes the summary; None means the run's model."""
    max_input_tokens: int | None = Field(default=None, ge=100, json_schema_extra=_LOWER)
    """The window of the run's model, in tokens; None means its profile's, else 128,000."""
    summary_prompt: str | None = None
    """The prompt of the summary; `{messages}` in it becomes the conversation, other braces are unchanged."""
    summary_seconds: float = Field(default=120, gt=0, json_schema_extra=_LOWER)
    """Time limit of a summary in seconds; after it the history is unchanged."""
    trim_tokens_to_summarize: int | None = Field(default=None, ge=100, json_schema_extra=_LOWER)
    """Maximum tokens of the conversation for the summary's model; None means three quarters of its window."""
    store_history: bool = Field(default=True, json_schema_extra={"project": "off"})
    """Store the replaced messages as `.deep/sessions/<session>/<time>-messages-….json` in the workspace."""
    stored_bytes: int = Field(default=StoredLimits().bytes, ge=1, json_schema_extra=_LOWER)
    """Maximum bytes that a session stores in the workspace; the oldest files go first."""
    stored_days: int = Field(default=StoredLimits().days, ge=1, json_schema_extra=_LOWER)
    """Days after its last stored file when another session removes a session's files."""
    large_result_chars: int | None = Field(default=20_000, ge=2_000, json_schema_extra=_LOWER)
    """Maximum characters of a tool result that is not stored in the workspace; None means no limit."""
    shown_result_chars: int = Field(default=2_000, ge=500, le=20_000, json_schema_extra=_LOWER)
    """Characters that the model sees of a stored result: head, tail and note together."""
    whole_results_of: tuple[str, ...] = ("read_file", "load_skill")
    """Tools, by original or final name, whose results are never stored: tools that read a stored result, and
    instructions, which are useless in part. A tool can set this itself: `metadata={"whole_result": True}`."""

    @field_validator("shown_result_chars")
    @classmethod
    def _no_more_than_is_stored(cls, shown: int, info: ValidationInfo) -> int:
        large: int | None = info.data.get("large_result_chars")
        if large is not None and shown > large:
            raise ValueError(f"at most large_result_chars, which is {large}")
        return shown

    @property
    def stored_limits(self) -> StoredLimits:
        """The limits of what a session stores."""
        return StoredLimits(self.stored_bytes, self.stored_days)
