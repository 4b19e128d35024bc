"""Long conversations for deep agents: old messages become a summary, and large tool results a file in the workspace.

Importing this module loads neither pydantic nor Pydantic AI: public names come on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

    from deep_core import AgentContext, Processor, StateSlot

    from .counting import TokenCounter, count_tokens_approximately
    from .eviction import StoreLargeResults
    from .frames import is_summary
    from .options import SummarizationOptions
    from .pinning import pin
    from .processor import SummarizationProcessor, create_summarization_processor
    from .prompt import DEFAULT_SUMMARY_PROMPT
    from .sizes import ContextSize
    from .slot import LAST_FAILURE
    from .summarize import SummaryFailed

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

_HOME = {
    "ContextSize": "sizes",
    "DEFAULT_SUMMARY_PROMPT": "prompt",
    "LAST_FAILURE": "slot",
    "StoreLargeResults": "eviction",
    "SummarizationOptions": "options",
    "SummarizationProcessor": "processor",
    "SummaryFailed": "summarize",
    "TokenCounter": "counting",
    "count_tokens_approximately": "counting",
    "create_summarization_processor": "processor",
    "is_summary": "frames",
    "pin": "pinning",
}


@hookimpl
def deep_options() -> type[SummarizationOptions]:
    """The options model of this plugin."""
    from .options import SummarizationOptions

    return SummarizationOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """The slot that remembers a summary that failed."""
    from .slot import LAST_FAILURE

    return [LAST_FAILURE]


@hookimpl
def deep_history_processors(context: AgentContext) -> list[Processor]:
    """The reducer, with the options of this agent."""
    from deep_core import Processor

    from .options import SummarizationOptions
    from .processor import from_options

    # `compact` raises where the processor itself would log: so the kernel records a failure under the plugin's name.
    processor = from_options(context.options(SummarizationOptions), context.logger)
    return [Processor("summarize", processor.compact, phase="reduce", persist=True)]


@hookimpl
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """What stores large tool results, unless it is turned off."""
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


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
