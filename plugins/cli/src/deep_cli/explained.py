"""What went wrong in one line: the cause, where, and what to type. Providers' errors, the kernel's, the rest."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from deep_core import ConfigError, PluginError
from deep_core.plugin_api import error_message, suggest

from .failure import FAILED, USAGE
from .screen import one_line, redact

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError

__all__ = ["KEYS", "Explained", "explained", "key_variable", "no_model"]

KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "google": "GOOGLE_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "xai": "XAI_API_KEY",
    "cohere": "CO_API_KEY",
    "huggingface": "HF_TOKEN",
}
"""Provider -> the variable that its key is read from (pydantic_ai.providers, 2.62 to 2.68); the usual ones."""
EXAMPLE = "openai:gpt-5.2"
WIDTH = 400
"""Characters of somebody else's message that are shown; `--verbose` shows all of it."""

_VARIABLE = re.compile(r"Set the `([A-Z0-9_]+)`")
_GROUP = re.compile(r"pydantic-ai-slim\[([a-z0-9_,-]+)\]")


@dataclass(frozen=True)
class Explained:
    """An error as the terminal shows it.

    Attributes:
        message: what is wrong, where, what to type; no secret of the host's environment is in it.
        exit_code: 1, or 2 where the command line or the configuration is wrong.
    """

    message: str
    exit_code: int = FAILED


def no_model() -> Explained:
    """The error for a run without a model."""
    variables = ", ".join(list(KEYS.values())[:3])
    return Explained(
        f"no model: name one with --model {EXAMPLE}, DEEP_MODEL={EXAMPLE}, or [agent] model in the user's config.toml; "
        f"its provider's key is read from the environment ({variables}, …). Without a key: deep demo",
        USAGE,
    )


def key_variable(model: str) -> str | None:
    """The variable with the key for a model id, None where it is not one of the usual providers."""
    return KEYS.get(_provider(model))


def _provider(model: str) -> str:
    provider = model.partition(":")[0]
    return {"openai-chat": "openai", "openai-responses": "openai", "google-gla": "google"}.get(provider, provider)


def explained(error: BaseException, model: str = "") -> Explained:
    """One line for an error.

    Args:
        error: anything that stopped a command.
        model: the model's id, for errors of its provider.
    """
    found = _explained(error, model)
    return Explained(redact(found.message), found.exit_code)


def _explained(error: BaseException, model: str) -> Explained:
    if isinstance(error, BaseExceptionGroup):
        return _explained(cast("BaseExceptionGroup[BaseException]", error).exceptions[0], model)
    if isinstance(error, ConfigError):
        return Explained(str(error), USAGE)
    if isinstance(error, PluginError):
        return Explained(str(error))
    if isinstance(error, ImportError):
        return _missing_package(error)
    # Only now: what comes from Pydantic AI has loaded it; the kinds above must not.
    from pydantic_ai import exceptions

    from deep_core.plugin_api import UnmatchedExpression

    if isinstance(error, UnmatchedExpression):
        return Explained(str(error), USAGE)
    if isinstance(error, exceptions.UserError):
        return _user_error(error, model)
    if isinstance(error, exceptions.UsageLimitExceeded):
        return Explained(f"stopped: {one_line(str(error), WIDTH)}; --max-requests N allows more requests")
    if isinstance(error, exceptions.ModelAPIError):
        return _provider_error(error, model)
    if isinstance(error, exceptions.UnexpectedModelBehavior):
        return Explained(f"{model} answered with something unusable: {_text(error)}; try again, or another --model")
    if _from_metadata(error):
        return Explained(f"the metadata of a package cannot be read ({_text(error)}); deep doctor says which one")
    return Explained(f"{type(error).__name__}: {_text(error)}")


def _from_metadata(error: BaseException) -> bool:
    """Whether it was raised while entry points were read: pydantic asks every distribution for its own."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(str(frame.f_globals.get("__name__")).startswith("importlib.metadata") for frame, _ in frames)


def _text(error: BaseException) -> str:
    return one_line(error_message(error), WIDTH) or "no message"


def _missing_package(error: ImportError) -> Explained:
    group = _GROUP.search(str(error))
    if group:
        return Explained(
            f"the provider's package is not installed: pip install 'pydantic-ai-slim[{group[1]}]' (or another --model)"
        )
    return Explained(f"{type(error).__name__}: {_text(error)}")


def _user_error(error: Exception, model: str) -> Explained:
    text = str(error)
    variable = _VARIABLE.search(text)
    if variable:
        return Explained(
            f"no key for {model or 'the model'}: set {variable[1]} (export {variable[1]}=…), or name another model "
            "with --model. Without a key: deep demo",
            USAGE,
        )
    if text.startswith("Unknown model"):
        provider = model.partition(":")[0]
        # Pydantic AI suggests the nearest of all its models, whoever's: a misspelt provider is told as that.
        near = suggest(provider, KEYS) if provider not in KEYS and ":" in model else ""
        text = f"Unknown model: {model}.{near}" if near else one_line(text, WIDTH)
        return Explained(
            f"{text}{'' if text.endswith('?') else '.'} A model is named provider:name, as in --model {EXAMPLE}. "
            "Without a key: deep demo",
            USAGE,
        )
    return Explained(one_line(text, WIDTH), USAGE if text.startswith("interrupt_on") else FAILED)


def _provider_error(error: ModelAPIError, model: str) -> Explained:
    from pydantic_ai import exceptions

    status: int | None = getattr(error, "status_code", None)
    cause = _said(error)
    code = f" (HTTP {status})" if status else ""
    variable = key_variable(model) or "the provider's key"
    way: str
    if isinstance(error, exceptions.ModelAuthenticationError) or status in (401, 403):
        way = f"the key was refused{code}: check {variable}"
    elif isinstance(error, exceptions.ModelNotFoundError) or status == 404:
        way = f"there is no such model or address{code}: check --model and the provider's base URL"
    elif isinstance(error, exceptions.ModelContextWindowExceededError):
        way = f"the conversation no longer fits the model's window{code}: use a larger model, or a smaller task"
    elif isinstance(error, exceptions.ModelQuotaExceededError):
        way = f"the account's quota is used up{code}: check the provider's billing page"
    elif isinstance(error, exceptions.ModelRateLimitError) or status == 429:
        way = f"too many requests{code}: wait a little, then run it again"
    elif isinstance(error, exceptions.ModelConnectionError):
        way = f"the provider cannot be reached: check the network{_base_url(model)}"
        cause = _cause(error)
    elif status is not None and status >= 500:
        way = f"the provider failed{code}: run it again later, or use another --model"
    else:
        way = f"the provider refused the request{code}; --verbose shows all of it"
    return Explained(f"{model or error.model_name}: {way}" + (f" [{cause}]" if cause else ""))


def _base_url(model: str) -> str:
    variable = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}.get(_provider(model))
    return f", and {variable} where it is set" if variable else ""


def _said(error: ModelAPIError) -> str:
    """What the provider wrote, where its error has the usual shape: {"message": …} or {"error": {"message": …}}."""
    body: Any = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):  # pyright: ignore[reportUnknownMemberType]
        body = body["error"]  # pyright: ignore[reportUnknownVariableType]
    message: Any = body.get("message") if isinstance(body, dict) else body  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return one_line(str(message), 200) if message else ""  # pyright: ignore[reportUnknownArgumentType]


def _cause(error: BaseException) -> str:
    """The innermost cause: `Connection error.` says less than what the socket said."""
    while error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        error = error.__cause__ or error.__context__ or error
    return one_line(str(error), 200)
