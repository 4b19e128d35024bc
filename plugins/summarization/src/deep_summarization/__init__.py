"""Long conversations for deep agents: summarize old messages, and store large tool results in the workspace.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

    from deep_core import AgentContext, DeepAgentDeps, Processor, StateSlot

    from .counting import TokenCounter, count_tokens_approximately
    from .eviction import StoreLargeResults
    from .failed import SummaryFailed
    from .frames import is_summary
    from .options import StoredLimits, SummarizationOptions
    from .pinning import pin
    from .processor import SummarizationProcessor, create_summarization_processor
    from .prompt import DEFAULT_SUMMARY_PROMPT
    from .sizes import ContextSize
    from .slot import LAST_FAILURE
    from .stored_files import StoredFiles

__all__ = [
    "DEFAULT_SUMMARY_PROMPT",
    "LAST_FAILURE",
    "ContextSize",
    "StoreLargeResults",
    "StoredFiles",
    "StoredLimits",
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
        "options": ["StoredLimits", "SummarizationOptions"],
        "pinning": ["pin"],
        "processor": ["SummarizationProcessor", "create_summarization_processor"],
        "prompt": ["DEFAULT_SUMMARY_PROMPT"],
        "sizes": ["ContextSize"],
        "slot": ["LAST_FAILURE"],
        "failed": ["SummaryFailed"],
        "stored_files": ["StoredFiles"],
    },
)


@hookimpl
def deep_options() -> type[SummarizationOptions]:
    """Return the options of this plugin."""
    from .options import SummarizationOptions

    return SummarizationOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slots that remember a failed summary and the stored files."""
    from .slot import LAST_FAILURE, STORED_FILES

    return [LAST_FAILURE, STORED_FILES]


@hookimpl
def deep_session_methods() -> dict[str, Callable[..., Any]]:
    """Add `deps.stored_files()` for tools that store, and `await deps.remove_stored_files()` for the session's end."""
    return {"stored_files": _stored_files, "remove_stored_files": _remove_stored_files}


# Hooks are called when a kernel loads, without Pydantic AI; these need it.
def _stored_files(deps: DeepAgentDeps[Any]) -> StoredFiles:
    from .stored_files import files_of

    return files_of(deps)


async def _remove_stored_files(deps: DeepAgentDeps[Any]) -> None:
    from .stored_files import remove_stored_files

    await remove_stored_files(deps)


@hookimpl
def deep_history_processors(context: AgentContext) -> list[Processor]:
    """Add the history processor, with the options of this agent, and the limits of `[agent.context]`."""
    from deep_core import Processor

    from .options import SummarizationOptions
    from .reducing import limiter, reducer

    options, limits = context.options(SummarizationOptions), context.config.context
    if options.max_input_tokens is None:
        most = limits.max_input_tokens if context.sets("context.max_input_tokens") else None
        sizes = [size for size in (context.config.model.context_window, most) if size is not None]
        options = options.model_copy(update={"max_input_tokens": min(sizes, default=None)})
    if (model := context.config.models.summary) is not None and options.model is None:
        options = options.model_copy(update={"model": model})
    found: list[Processor] = []
    if limits.enable_compaction:
        compact = reducer(options, context.logger)
        found.append(Processor("summarize", compact, phase="reduce", persist=True))
    if context.sets("context"):
        found.append(Processor("limit", limiter(context), "annotate", persist=False, on_error="stop"))
    return found


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
            stored_limits=options.stored_limits,
            logger=context.logger,
        )
    ]
