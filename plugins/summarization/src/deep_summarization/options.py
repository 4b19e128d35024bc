"""What can be set for summaries and for large tool results."""

# No postponed annotations: pydantic would compile and evaluate the text of each while the class is made.
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from deep_core import PluginOptions

from .sizes import DEFAULT_KEEP, DEFAULT_TRIGGER, checked_size, checked_triggers

__all__ = ["SummarizationOptions"]


def _size(value: object) -> object:
    return checked_size(value, "keep")


def _triggers(value: Any) -> object:
    # One size, or several: TOML has no tuples, so ["tokens", 1000] and [["tokens", 1000]] both come as lists.
    return checked_triggers(value)


Size = tuple[Literal["messages", "tokens", "fraction"], int | float]


class SummarizationOptions(PluginOptions):
    """Options of the plugin `summarization`."""

    trigger: Annotated[tuple[Size, ...], BeforeValidator(_triggers)] = (DEFAULT_TRIGGER,)
    """When to summarise: `["messages", n]`, `["tokens", n]`, `["fraction", f]` of the window, or a list of these, any
    of which is enough."""
    keep: Annotated[Size, BeforeValidator(_size)] = DEFAULT_KEEP
    """How much of the end of the conversation stays as it is, in the same terms. At most half of a trigger in tokens
    is kept, so that a summary lasts."""
    model: str | None = Field(default=None, json_schema_extra={"trusted": True})
    """The model that writes the summary; None means the run's own."""
    max_input_tokens: int | None = Field(default=None, ge=100)
    """The window of the run's model, in tokens; None means what its profile says, else 128,000."""
    summary_prompt: str | None = None
    """What the model is told; `{messages}` in it becomes the conversation, any other brace stays as it is."""
    summary_seconds: float = Field(default=120, gt=0)
    """Seconds that a summary may take; after that the history stays as it was."""
    trim_tokens_to_summarize: int | None = Field(default=None, ge=100)
    """Tokens of the conversation shown to the summarising model; None means what fits three quarters of its window."""
    store_history: bool = True
    """Keep what was cut as `.deep/history/<conversation>/NNN.json` in the workspace."""
    large_result_chars: int | None = Field(default=20_000, ge=2_000)
    """Characters of a tool result above which it is stored in the workspace; None means never."""
    shown_result_chars: int = Field(default=2_000, ge=500, le=20_000)
    """Characters that the model sees of a stored result: head, tail and pointer together."""
    whole_results_of: tuple[str, ...] = ("read_file", "load_skill")
    """Tools, by original or final name, whose results are never stored: what reads a stored result must not be stored
    again, and instructions are of no use in part. A tool may say so itself: `metadata={"whole_result": True}`."""

    @field_validator("shown_result_chars")
    @classmethod
    def _no_more_than_is_stored(cls, shown: int, info: ValidationInfo) -> int:
        large: int | None = info.data.get("large_result_chars")
        if large is not None and shown > large:
            raise ValueError(f"at most large_result_chars, which is {large}")
        return shown
