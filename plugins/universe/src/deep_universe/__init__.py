"""Tools chosen by expression, rendered for any model, executed from any model's answer.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from types import ModuleType

    from .agents import AgentTools, CallOutcome, ToolSession, WaitingCall, agent_tools
    from .calls import ErrorCode, InvalidCall, ToolCall, ToolResult
    from .contributed import drivers_of
    from .driver import FALLBACK, GOOD, NATIVE, NONE, ToolDriver, WireTarget
    from .drivers import default_drivers
    from .drivers.scanner import ReasoningTag, Scanner, UnopenedTag
    from .drivers.text import TextDriver
    from .errors import (
        CallDenied,
        DriverContractError,
        DriverNotFoundError,
        DuplicateToolError,
        InvalidArguments,
        MiddlewareError,
        MissingContextKey,
        NoDriverError,
        ToolNameError,
        ToolNotFoundError,
        ToolSchemaError,
        UniverseError,
    )
    from .expressions import Diagnosis, diagnose, simplify
    from .injection import Injected
    from .mcp_server import make_mcp_server
    from .middleware import Layer, Middleware, Next
    from .policies import IsolatedContexts, Middlewares, ToolErrorsAsResults
    from .targets import wire_target
    from .tool_set import ToolSet
    from .tools import FunctionTool, UniverseTool
    from .universe import Universe

__all__ = [
    "FALLBACK",
    "GOOD",
    "NATIVE",
    "NONE",
    "AgentTools",
    "CallDenied",
    "CallOutcome",
    "Diagnosis",
    "DriverContractError",
    "DriverNotFoundError",
    "DuplicateToolError",
    "ErrorCode",
    "FunctionTool",
    "Injected",
    "InvalidArguments",
    "InvalidCall",
    "IsolatedContexts",
    "Layer",
    "Middleware",
    "MiddlewareError",
    "Middlewares",
    "MissingContextKey",
    "Next",
    "NoDriverError",
    "ReasoningTag",
    "Scanner",
    "TextDriver",
    "ToolCall",
    "ToolDriver",
    "ToolErrorsAsResults",
    "ToolNameError",
    "ToolNotFoundError",
    "ToolResult",
    "ToolSchemaError",
    "ToolSession",
    "ToolSet",
    "Universe",
    "UniverseError",
    "UniverseTool",
    "UnopenedTag",
    "WaitingCall",
    "WireTarget",
    "agent_tools",
    "default_drivers",
    "diagnose",
    "drivers_of",
    "make_mcp_server",
    "simplify",
    "wire_target",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "agents": ["AgentTools", "CallOutcome", "ToolSession", "WaitingCall", "agent_tools"],
        "calls": ["ErrorCode", "InvalidCall", "ToolCall", "ToolResult"],
        "contributed": ["drivers_of"],
        "driver": ["FALLBACK", "GOOD", "NATIVE", "NONE", "ToolDriver", "WireTarget"],
        "drivers": ["default_drivers"],
        "drivers.scanner": ["ReasoningTag", "Scanner", "UnopenedTag"],
        "drivers.text": ["TextDriver"],
        "errors": [
            "CallDenied",
            "DriverContractError",
            "DriverNotFoundError",
            "DuplicateToolError",
            "InvalidArguments",
            "MiddlewareError",
            "MissingContextKey",
            "NoDriverError",
            "ToolNameError",
            "ToolNotFoundError",
            "ToolSchemaError",
            "UniverseError",
        ],
        "expressions": ["Diagnosis", "diagnose", "simplify"],
        "injection": ["Injected"],
        "mcp_server": ["make_mcp_server"],
        "middleware": ["Layer", "Middleware", "Next"],
        "policies": ["IsolatedContexts", "Middlewares", "ToolErrorsAsResults"],
        "targets": ["wire_target"],
        "tool_set": ["ToolSet"],
        "tools": ["FunctionTool", "UniverseTool"],
        "universe": ["Universe"],
    },
)


@hookimpl
def deep_hookspecs() -> list[ModuleType]:
    """Add the hook `deep_tool_drivers`."""
    from . import hookspecs

    return [hookspecs]
