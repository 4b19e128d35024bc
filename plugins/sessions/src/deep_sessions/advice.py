"""What to do about a request to a model that failed: one sentence, in every interface of a person's own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

__all__ = ["PROVIDER_KEYS", "advice_on", "advice_on_stored", "key_variable", "provider_of"]

PROVIDER_KEYS = {
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
"""Provider -> the environment variable of its key (pydantic_ai.providers, 2.62 to 2.68); the common providers."""
DAY = 86_400
"""Seconds."""
BASE_URLS = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}
OF_REQUESTS = frozenset(
    {
        "unauthorized",
        "unknown_model",
        "no_credit",
        "unreachable",
        "rate_limited",
        "overloaded",
        "unavailable",
        "server_error",
        "conflict",
        "timed_out",
        "stalled",
        "cut",
        "garbled",
    }
)
"""The codes of requests that failed and of which something can be done."""
_OWN = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?=[/:\s]|$)")


def provider_of(model: str) -> str:
    """Return the provider of a model's id, as `PROVIDER_KEYS` names it."""
    provider = model.partition(":")[0]
    return {"openai-chat": "openai", "openai-responses": "openai", "google-gla": "google"}.get(provider, provider)


def key_variable(model: str) -> str | None:
    """Return the variable with the key for a model id; None for an uncommon provider."""
    return PROVIDER_KEYS.get(provider_of(model))


def advice_on(code: str, model: str, *, address: str = "", retry_after: float | None = None) -> str:
    """Return what to do about a request that failed; "" where its words say it.

    Args:
        code: as `End.code`.
        model: the model's id.
        address: the server that it went to; "" if nothing says it.
        retry_after: seconds until it can succeed, where the provider says so.
    """
    host = urlsplit(address).hostname or ""
    match code:
        case "unauthorized":
            # A server at agent.model.base_url never gets the provider's own key.
            of_its_own = "" if provider_of(model) in host else ", or agent.model.api_key_env of a base_url"
            return f"check {key_variable(model) or 'the key of the provider'}{of_its_own if host else ''}"
        case "unknown_model":
            return "check the model's name and the base URL of the provider"
        case "no_credit":
            return "check the billing page of the provider"
        case "unreachable" if host in ("localhost", "127.0.0.1", "::1"):
            variable = BASE_URLS.get(provider_of(model), "")
            return (
                f"start the server there, or correct {variable if variable in os.environ else 'agent.model.base_url'}"
            )
        case "unreachable":
            variable = BASE_URLS.get(provider_of(model))
            way = f"check the network to {address}" if address else "check the network"
            return f"{way}{f', and {variable} if it is set' if variable else ''}"
        case "window_full" | "rejected":
            return ""
        case "rate_limited":
            return _when(retry_after)
        case _:
            return f"{_when(retry_after)}, or use another model"


def advice_on_stored(error: Mapping[str, Any] | None, model: str) -> str:
    """Return the same for the error of a run, as the journal has it; "" for one that is no request's.

    Args:
        error: `code`, `message`, `retry_after`. The message names a server of this machine only.
        model: the model's id.
    """
    if error is None or error.get("code") not in OF_REQUESTS:
        return ""
    found = _OWN.search(str(error.get("message", ""))) if error["code"] == "unreachable" else None
    address = found[0] if found is not None else ""
    return advice_on(error["code"], model, address=address, retry_after=error.get("retry_after"))


def _when(seconds: float | None) -> str:
    """Return when to try again, as far as the provider says it."""
    if not seconds:
        return "wait, then try again"
    at = datetime.now().astimezone() + timedelta(seconds=seconds)
    return f"try again after {at:%H:%M:%S}" if seconds < DAY else f"try again after {at:%Y-%m-%d %H:%M}"
