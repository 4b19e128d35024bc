"""The drivers of this package, one module each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..driver import ToolDriver

__all__ = ["DRIVERS", "default_drivers"]

DRIVERS: dict[str, str] = {
    "openai": "OpenAIDriver",
    "openai_responses": "OpenAIResponsesDriver",
    "anthropic": "AnthropicDriver",
    "gemini": "GeminiDriver",
    "bedrock": "BedrockDriver",
    "mcp": "McpDriver",
    "hermes": "HermesDriver",
    "qwen_coder": "QwenCoderDriver",
    "llama": "LlamaDriver",
    "mistral": "MistralDriver",
    "deepseek": "DeepSeekDriver",
    "glm": "GlmDriver",
    "react": "ReactDriver",
    "markdown": "MarkdownDriver",
    "xml": "XmlDriver",
}
"""Module -> class, in the order of registration: the first of equal drivers wins."""


def default_drivers() -> list[ToolDriver]:
    """Return a new driver of every class, in the order of `DRIVERS`."""
    return [getattr(import_module(f".{module}", __name__), name)() for module, name in DRIVERS.items()]
