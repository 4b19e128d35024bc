"""Long conversations for deep agents: summarize old messages, and store large tool results in the workspace.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

    from deep_core import AgentContext, Processor, StateSlot

    from .counting import TokenCounter, count_tokens_approximately
    from .eviction import StoreLargeResults
    from .failed import SummaryFailed
    from .frames import is_summary
    from .options import SummarizationOptions
    from .pinning import pin
    from .processor import SummarizationProcessor, create_summarization_processor
    from .prompt import DEFAULT_SUMMARY_PROMPT
    from .sizes import ContextSize
    from .slot import LAST_FAILURE

__all__ = [
    "DEFAULT_SUMMARY_PROMPT",
    "LAST_FAILURE",
    "ContextSize",
    "StoreLargeResults",
    "SummarizationOptions",
    "SummarizationProcessor",
    "SummaryFailed",
    "TokenCounter",
    "count_tokens_approximately",
    "create_summarization_processor",
    "is_summary",
    "pin",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "counting": ["TokenCounter", "count_tokens_approximately"],
        "eviction": ["StoreLargeResults"],
        "frames": ["is_summary"],
        "options": ["SummarizationOptions"],
        "pinning": ["pin"],
        "processor": ["SummarizationProcessor", "create_summarization_processor"],
        "prompt": ["DEFAULT_SUMMARY_PROMPT"],
        "sizes": ["ContextSize"],
        "slot": ["LAST_FAILURE"],
        "failed": ["SummaryFailed"],
    },
)


@hookimpl
def deep_options() -> type[SummarizationOptions]:
    """Return the options of this plugin."""
    from .options import SummarizationOptions

    return SummarizationOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slot that remembers a failed summary."""
    from .slot import LAST_FAILURE

    return [LAST_FAILURE]


@hookimpl
def deep_history_processors(context: AgentContext) -> list[Processor]:
    """Add the history processor, with the options of this agent."""
    from deep_core import Processor

    from .options import SummarizationOptions
    from .reducing import reducer

    compact = reducer(context.options(SummarizationOptions), context.logger)
    return [Processor("summarize", compact, phase="reduce", persist=True)]


@hookimpl
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """Store large tool results, unless turned off."""
    from .eviction import StoreLargeResults
    from .options import SummarizationOptions

    options = context.options(SummarizationOptions)
    if options.large_result_chars is None:
        return []
    return [
        StoreLargeResults(
            options.large_result_chars,
            shown_chars=options.shown_result_chars,
            except_tools=options.whole_results_of,
            logger=context.logger,
        )
    ]
