"""The tool `ask_user` for the model."""

from __future__ import annotations

from typing import Any, NoReturn, cast

from pydantic_ai import FunctionToolset, ModelRetry, Tool
from pydantic_ai.exceptions import CallDeferred
from pydantic_core import SchemaValidator, core_schema

from deep_core.plugin_api import visible

__all__ = ["build_toolset"]

QUESTION_CHARS = 2_000
OPTION_CHARS = 200
MOST_OPTIONS = 10
DESCRIPTION = "Ask the user what only they can decide. They choose an option or use their own words."
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "options": {"type": "array", "items": {"type": "string"}}},
    "required": ["question"],
}


def build_toolset(*, id: str = "ask") -> FunctionToolset[Any]:
    """Build the toolset with `ask_user`.

    Its tag is `read`: to ask changes nothing, so an agent that may only read may ask too.
    """
    tool = Tool[Any].from_schema(_ask_user, "ask_user", DESCRIPTION, SCHEMA)
    # Accept any object: our answer to a mistake in it says more.
    tool.function_schema.validator = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
    tool.metadata = {"tags": ["read"]}
    return FunctionToolset([tool], id=id)


async def _ask_user(**arguments: Any) -> NoReturn:
    """Let the call wait for the user's answer, which is its result.

    Raises:
        CallDeferred: always, for a proper question.
        ModelRetry: the question or an option is empty, too long, or not text.
    """
    options: object = arguments.get("options") or []
    if not isinstance(options, list) or len(cast("list[object]", options)) > MOST_OPTIONS:
        raise ModelRetry(f"options is a list of at most {MOST_OPTIONS} texts.")
    asked = {
        "text": _text("question", arguments.get("question"), QUESTION_CHARS),
        "options": [*dict.fromkeys(_line(option) for option in cast("list[object]", options))],
    }
    raise CallDeferred(metadata={"plugin": "ask", "question": asked})


def _line(option: object) -> str:
    return " ".join(_text("an option", option, OPTION_CHARS).split())


def _text(what: str, value: object, most: int) -> str:
    """Return what a person would see of a text: what is shown is what was asked."""
    text = visible(value).strip() if isinstance(value, str) else ""
    if not text:
        raise ModelRetry(f"{what} is empty: say it in words.")
    if len(text) > most:
        raise ModelRetry(f"{what} has {len(text):,} characters; at most {most:,} are shown. Shorten it.")
    return text
