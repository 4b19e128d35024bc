"""Questions of deep agents to the user: the tool `ask_user`, and the questions that wait.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset

    from deep_core import AgentContext

    from .options import AskOptions
    from .questions import NO_ANSWER, UserQuestion, open_questions

__all__ = ["NO_ANSWER", "AskOptions", "UserQuestion", "open_questions"]

__getattr__, __dir__ = lazy_exports(
    __name__, {"options": ["AskOptions"], "questions": ["NO_ANSWER", "UserQuestion", "open_questions"]}
)


@hookimpl
def deep_options() -> type[AskOptions]:
    """Return the options of this plugin."""
    from .options import AskOptions

    return AskOptions


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """Add ask_user, if the interface or the configuration says that a person answers, and calls can wait."""
    from .options import AskOptions

    if not (context.options(AskOptions).offer and context.asks):
        return []
    from .toolset import build_toolset

    return [build_toolset()]
