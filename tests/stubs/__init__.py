"""Fake models for tests: one script, played by a FunctionModel or by a local HTTP stub of a provider.

Names load on first use, so that a stub started as a process does not wait for pydantic_ai.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .anthropic_stub import AnthropicStub
    from .models import ScriptedModel, anthropic_model, function_model, openai_model
    from .openai_stub import OpenAIStub
    from .script import (
        Call,
        Failure,
        Malformed,
        Message,
        Player,
        RequestView,
        Script,
        ScriptError,
        ScriptExhausted,
        Turn,
        Usage,
    )
    from .server import StubServer
    from .wire import WireDiff, assert_wire_prefix, assert_wire_prefixes, wire_prefix

_HOME = {
    "AnthropicStub": "anthropic_stub",
    "Call": "script",
    "Failure": "script",
    "Malformed": "script",
    "Message": "script",
    "OpenAIStub": "openai_stub",
    "Player": "script",
    "RequestView": "script",
    "Script": "script",
    "ScriptError": "script",
    "ScriptExhausted": "script",
    "ScriptedModel": "models",
    "StubServer": "server",
    "Turn": "script",
    "Usage": "script",
    "WireDiff": "wire",
    "anthropic_model": "models",
    "assert_wire_prefix": "wire",
    "assert_wire_prefixes": "wire",
    "function_model": "models",
    "openai_model": "models",
    "wire_prefix": "wire",
}

__all__ = [
    "AnthropicStub",
    "Call",
    "Failure",
    "Malformed",
    "Message",
    "OpenAIStub",
    "Player",
    "RequestView",
    "Script",
    "ScriptError",
    "ScriptExhausted",
    "ScriptedModel",
    "StubServer",
    "Turn",
    "Usage",
    "WireDiff",
    "anthropic_model",
    "assert_wire_prefix",
    "assert_wire_prefixes",
    "function_model",
    "openai_model",
    "wire_prefix",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)
