"""Servers that are nearly OpenAI: what each one takes, and how it is recognized."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from pydantic_ai.exceptions import UserError

if TYPE_CHECKING:
    from pydantic_ai.profiles import ModelProfile

__all__ = ["OPENAI", "SERVERS", "UNKNOWN", "Facts", "Server", "profile_of", "server_of"]

REASONING: Final = (
    r"qwen-?3(?!.*(instruct|coder))|qwq|deepseek-(r|v[34])|gpt-oss|magistral|glm-?[45]|reason|think|kimi-k2|minimax"
)
"""Models that think: servers refuse to be asked for thinking with others. Compiled at its first use."""

CAUTIOUS: Final[Mapping[str, Any]] = {
    # Chat templates refuse a system message that is not the first (vllm-project/vllm#41114: Qwen).
    "supports_inline_system_prompts": False,
    "openai_chat_supports_multiple_system_messages": False,
    "openai_system_prompt_role": "system",
    "openai_supports_strict_tool_definition": False,
    "openai_chat_supports_max_completion_tokens": False,
    "openai_chat_supports_file_urls": False,
    "openai_chat_supports_document_input": False,
    "openai_chat_supports_web_search": False,
    "openai_supports_encrypted_reasoning_content": False,
    "openai_supports_prompt_cache_breakpoints": False,
    "supports_tool_return_schema": False,
    "supports_image_output": False,
    "supported_native_tools": frozenset[Any](),
    "supports_json_schema_output": True,
    "supports_json_object_output": True,
}
"""What holds for every server that is not known to do more."""


@dataclass(frozen=True)
class Server:
    """A kind of server.

    Attributes:
        kind: its name, as `agent.model.provider` has it.
        owners: what its `/v1/models` says in `owned_by`.
        hosts: where it is hosted; a pattern.
        family: the provider of Pydantic AI whose profile fits its models; "" for OpenAI's own.
        differs: how its profile differs from the cautious one.
    """

    kind: str
    owners: tuple[str, ...] = ()
    hosts: str = ""
    family: str = "ollama:OllamaProvider"
    differs: Mapping[str, Any] = field(default_factory=dict[str, Any])


UNKNOWN: Final = Server("unknown")
OPENAI: Final = Server("openai", hosts=r"(^|\.)openai\.com$", family="")
SERVERS: Final = (
    OPENAI,
    Server("azure", hosts=r"\.azure\.com$", family=""),
    Server("openrouter", hosts=r"(^|\.)openrouter\.ai$", family="openrouter:OpenRouterProvider"),
    Server("vllm", ("vllm",), family="vllm:VLLMProvider", differs={"openai_chat_supports_max_completion_tokens": True}),
    Server("sglang", ("sglang",), family="vllm:VLLMProvider"),
    Server("llama.cpp", ("llamacpp", "llama.cpp")),
    Server("ollama", ("library", "ollama")),
    Server("lmstudio", ("organization_owner",)),
    Server("litellm", ("litellm",), family="litellm:LiteLLMProvider"),
    UNKNOWN,
)
"""The kinds. OpenAI's and Azure's models keep Pydantic AI's own profile."""
SAME: Final = {"llama_cpp": "llama.cpp", "llamacpp": "llama.cpp", "lm_studio": "lmstudio", "lm-studio": "lmstudio"}


@dataclass(frozen=True)
class Facts:
    """What a server says of itself and of a model.

    Attributes:
        server: its kind.
        window: tokens that fit; None if it does not say.
        has_tools: whether the model gets tools; None if it does not say.
        cuts: whether it drops what does not fit, and says nothing.
    """

    server: Server
    window: int | None = None
    has_tools: bool | None = None
    cuts: bool = False


def server_of(provider: str | None, base_url: str, owner: str = "") -> Server:
    """Return the kind of a server: by its host, by what it calls itself, else by what the configuration calls it.

    Args:
        provider: `agent.model.provider`.
        base_url: its address.
        owner: `owned_by` of its `/v1/models`; empty before it is asked.
    """
    host = urlsplit(base_url).hostname or ""
    for server in SERVERS:
        if (server.hosts and re.search(server.hosts, host)) or owner.lower() in server.owners:
            return server
    name = SAME.get(provider or "", provider or "")
    # `provider = "openai"` with an address of one's own says the protocol, not the server.
    return next((server for server in SERVERS[1:] if server.kind == name), UNKNOWN)


def profile_of(server: Server, model_name: str, own: ModelProfile) -> ModelProfile:
    """Return the profile of a model on a server.

    Args:
        server: its kind.
        model_name: the model.
        own: what Pydantic AI makes of the name at OpenAI.
    """
    if not server.family:
        return own
    module, _, provider = server.family.partition(":")
    try:
        found = getattr(import_module(f"pydantic_ai.providers.{module}"), provider).model_profile(model_name)
    except (ImportError, UserError):  # an older Pydantic AI; a name that OpenRouter itself would not have
        found = None
    fits = cast("dict[str, Any]", found or {})
    thinks = bool(re.search(REASONING, model_name, re.I)) or bool(fits.get("supports_thinking"))
    base = {**own, "openai_supports_reasoning": False, **fits}
    made = {**base, **CAUTIOUS, **server.differs, "supports_thinking": thinks}
    if not made["openai_chat_supports_document_input"]:
        from ..door.leaving import TEXT_DOCUMENTS

        made["supported_document_media_types"] = TEXT_DOCUMENTS  # written into the prompt
    return cast("ModelProfile", made)
