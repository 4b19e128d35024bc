"""What a model's name says about it: its profile in Pydantic AI, and the protocol of its API."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from .driver import WireTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai.profiles import ModelProfile

__all__ = ["wire_target"]


class _Family(NamedTuple):
    """Models of one maker: how their names begin, their profile function, and the protocol of the maker's own API."""

    names: str
    profile: str
    protocol: str = "openai"


# Pydantic AI has a profile function for each family, and no public way from a bare name to its family. Servers of open
# models speak OpenAI's chat protocol; which driver is chosen is up to the drivers' scores.
_FAMILIES: Final = (
    _Family(r"claude", "anthropic", "anthropic"),
    _Family(r"gemini|learnlm", "google", "google"),
    _Family(r"gemma", "google"),
    _Family(r"gpt-oss", "harmony"),
    _Family(r"(chat)?gpt-|o\d+(-|$)|codex-|computer-use", "openai"),
    _Family(r"mi(s|x)tral|(mini|magi)stral|(code|dev|vox)stral|codestral|pixtral", "mistral"),
    _Family(r"qwen|qwq", "qwen"),
    _Family(r"(meta-)?llama", "meta"),
    _Family(r"deepseek", "deepseek"),
    _Family(r"command|c4ai", "cohere"),
    _Family(r"grok", "grok"),
    _Family(r"kimi|moonshot", "moonshotai"),
    _Family(r"glm", "zai"),
)
_PROTOCOLS: Final = {
    "anthropic": "anthropic",
    "azure-responses": "openai-responses",
    "bedrock": "bedrock",
    "converse": "bedrock",  # of `gateway/…`
    "google": "google",
    "google-cloud": "google",
    "openai-chatgpt": "openai-responses",
    "openai-codex": "openai-responses",
    "openai-responses": "openai-responses",
    "responses": "openai-responses",  # of `gateway/…`
}
"""Provider -> protocol of its API, where it is not OpenAI's chat protocol."""


@lru_cache(maxsize=256)
def wire_target(model: str) -> WireTarget:
    """Return what drivers are asked about: `gpt-5.2`, `openai:gpt-5.2`, `openrouter:qwen/qwen3-32b`.

    `openai:` means the chat protocol here, `openai-responses:` the other one. A name that no family and no provider of
    Pydantic AI knows has no capabilities and no protocol.
    """
    provider, name = _split(model)
    family = _family(name)
    if provider is None:
        if family is None:
            return WireTarget(name)
        return WireTarget(name, _capabilities(_family_profile(family, name)), family.protocol)
    protocol = _PROTOCOLS.get(provider.rpartition("/")[2], "openai")
    return WireTarget(name, _capabilities(_provider_profile(provider, name, family)), protocol)


def _split(model: str) -> tuple[str | None, str]:
    """Return Pydantic AI's provider, None if there is none, and the model's name."""
    from pydantic_ai.models import parse_model_id
    from pydantic_ai.providers import infer_provider_class

    provider, name = parse_model_id(model)
    if provider is None:
        return None, model
    try:
        infer_provider_class(provider)
    except ImportError:  # a provider whose SDK is not installed
        return provider, name
    except ValueError:  # the colon belongs to the name, as in `gemma3:4b`, or an older name of a provider precedes it
        return None, model if _family(model) else name
    return provider, name


def _family(name: str) -> _Family | None:
    own = name.lower().rpartition("/")[2]  # `meta-llama/Llama-3.3-70B-Instruct`
    return next((family for family in _FAMILIES if re.match(family.names, own)), None)


def _provider_profile(provider: str, name: str, family: _Family | None) -> ModelProfile | None:
    from pydantic_ai.models import infer_model_profile

    try:
        return infer_model_profile(f"{provider}:{name}")
    except ImportError:  # the profile of the provider needs its SDK, that of the family does not
        return None if family is None else _family_profile(family, name)


def _family_profile(family: _Family, name: str) -> ModelProfile | None:
    module = import_module(f"pydantic_ai.profiles.{family.profile}")
    profile = cast("Callable[[str], ModelProfile | None]", getattr(module, f"{family.profile}_model_profile"))
    return profile(name.lower().rpartition("/")[2])


def _capabilities(profile: ModelProfile | None) -> frozenset[str]:
    """Return the names of what a profile supports; Pydantic AI's default is that a model has tools."""
    flags: dict[str, object] = {"supports_tools": True, **(profile or {})}
    return frozenset(
        name.removeprefix("supports_") for name, on in flags.items() if name.startswith("supports_") and on is True
    )
