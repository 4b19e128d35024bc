"""Explain an error in one line: the cause, where, and what to type."""

from __future__ import annotations

import os
import re
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from deep_sessions import PROVIDER_KEYS, provider_of

from deep_core import ConfigError, PluginError
from deep_core.plugin_api import error_message, suggest

from .failure import FAILED, USAGE
from .terminal.screen import one_line, redact

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError

__all__ = ["ErrorLine", "doubt", "explain_error", "no_model"]

EXAMPLE = "openai:gpt-5.2"
WIDTH = 400
"""Maximum characters shown of a foreign message; `--verbose` shows all."""
_VARIABLE = re.compile(r"Set the `([A-Z0-9_]+)`")
_GROUP = re.compile(r"pydantic-ai-slim\[([a-z0-9_,-]+)\]")


@dataclass(frozen=True)
class ErrorLine:
    """An error as shown on the terminal.

    Attributes:
        message: what is wrong, where, what to type; secrets of the environment are redacted.
        exit_code: 1, or 2 if the command line or the configuration is wrong.
    """

    message: str
    exit_code: int = FAILED


def no_model() -> ErrorLine:
    """The error for a run without a model."""
    return ErrorLine(
        f"no model: name one with --model {EXAMPLE}, DEEP_MODEL or [agent] model; its key is in the environment, "
        "or stored by: deep keys set openai. Without a key: deep demo",
        USAGE,
    )


def doubt(model: str) -> str:
    """Say that a model's name looks wrong: no known one of its provider begins with the same word. Else "".

    Only the provider knows all its models; Pydantic AI knows the latest of some providers.
    """
    from typing import get_args

    from pydantic_ai.models import KnownModelName

    known: tuple[str, ...] = get_args(getattr(KnownModelName, "__value__", KnownModelName))
    provider = model.partition(":")[0]
    names = [name for name in known if name.startswith(f"{provider}:")]
    word = re.match(r"[^:]*:[a-z]*", model.lower())
    if not names or word is None or any(name.startswith(word[0]) for name in names):
        return ""
    if f"{provider_of(model).upper()}_BASE_URL" in os.environ:  # a server of one's own has names of its own
        return ""
    return f"{one_line(model)} is no model that Pydantic AI knows.{suggest(model, names)}"


def explain_error(error: BaseException, model: str = "") -> ErrorLine:
    """Explain an error in one line.

    Args:
        error: any exception that ended a command.
        model: the model's id, for errors of its provider.
    """
    line = _explain(error, model)
    return ErrorLine(redact(line.message), line.exit_code)


def _explain(error: BaseException, model: str) -> ErrorLine:
    if isinstance(error, BaseExceptionGroup):
        return _explain(cast("BaseExceptionGroup[BaseException]", error).exceptions[0], model)
    if isinstance(error, ConfigError):
        return ErrorLine(str(error), USAGE)
    if isinstance(error, PluginError):
        return ErrorLine(str(error))
    if isinstance(error, ImportError):
        return _missing_package(error)
    # Only now: errors of Pydantic AI mean that it is loaded; the kinds above must not load it.
    from pydantic_ai import exceptions

    from deep_core.plugin_api import UnmatchedExpression

    if isinstance(error, UnmatchedExpression):
        return ErrorLine(str(error), USAGE)
    if isinstance(error, exceptions.UserError):
        return _user_error(error, model)
    if isinstance(error, exceptions.UsageLimitExceeded):
        return ErrorLine(f"stopped: {one_line(str(error), WIDTH)}; --max-requests N allows more requests")
    if isinstance(error, exceptions.ModelAPIError):
        return _provider_error(error, model)
    if isinstance(error, exceptions.UnexpectedModelBehavior):
        return ErrorLine(f"{model} gave an unusable answer: {_text(error)}; try again, or another --model")
    from deep_sessions import AgentError

    if isinstance(error, AgentError):
        return ErrorLine(one_line(error.message, WIDTH))
    if _from_metadata(error):
        return ErrorLine(f"the metadata of a package cannot be read ({_text(error)}); deep doctor says which one")
    return ErrorLine(f"{type(error).__name__}: {_text(error)}")


def _from_metadata(error: BaseException) -> bool:
    """Whether reading entry points raised it: pydantic reads those of every distribution."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(str(frame.f_globals.get("__name__")).startswith("importlib.metadata") for frame, _ in frames)


def _text(error: BaseException) -> str:
    return one_line(error_message(error), WIDTH) or "no message"


def _missing_package(error: ImportError) -> ErrorLine:
    group = _GROUP.search(str(error))
    if group:
        return ErrorLine(
            f"the provider's package is not installed: pip install 'pydantic-ai-slim[{group[1]}]' (or another --model)"
        )
    return ErrorLine(f"{type(error).__name__}: {_text(error)}")


def _user_error(error: Exception, model: str) -> ErrorLine:
    text = str(error)
    variable = _VARIABLE.search(text)
    if variable:
        return ErrorLine(
            f"no key for {model or 'the model'}: store it (deep keys set {variable[1]}), set {variable[1]}, or name "
            "another --model. Without a key: deep demo",
            USAGE,
        )
    if text.startswith("Unknown model"):
        provider = model.partition(":")[0]
        # Pydantic AI suggests the nearest of all models; suggest the provider if that is misspelled.
        near = suggest(provider, PROVIDER_KEYS) if provider not in PROVIDER_KEYS and ":" in model else ""
        text = f"Unknown model: {model}.{near}" if near else one_line(text, WIDTH)
        return ErrorLine(
            f"{text}{'' if text.endswith('?') else '.'} A model is named provider:name, as in --model {EXAMPLE}. "
            "Without a key: deep demo",
            USAGE,
        )
    return ErrorLine(one_line(text, WIDTH), USAGE if text.startswith("interrupt_on") else FAILED)


def _provider_error(error: ModelAPIError, model: str) -> ErrorLine:
    from deep_sessions import End, address_of_error, advice_on, end_of_error, words_of_error

    end = end_of_error(error) or End(kind="permanent")
    advice = advice_on(end.code, model, address=address_of_error(error), retry_after=end.retry_after)
    if end.code == "rejected":
        advice = "--verbose shows all of it"
    words = words_of_error(error, end) or _text(error)
    return ErrorLine(f"{model or error.model_name}: {words}" + (f"; {advice}" if advice else ""))
