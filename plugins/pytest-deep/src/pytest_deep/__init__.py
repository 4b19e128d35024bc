"""Test plugins of deep: fixtures, and conformance suites to subclass in one line.

Importing this package loads neither pydantic nor Pydantic AI, because every run of pytest loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import lazy_exports

if TYPE_CHECKING:
    from .backend_suite import BackendConformance
    from .plugin_suite import PluginConformance
    from .recorder import Recorder
    from .script import Call, Request, ScriptedModel, call
    from .session_store_suite import SessionStoreConformance
    from .shell import HookCall
    from .skill_loader_suite import SkillLoaderConformance
    from .solving import assert_solves
    from .tool_driver_suite import ToolDriverConformance

__all__ = [
    "BackendConformance",
    "Call",
    "HookCall",
    "PluginConformance",
    "Recorder",
    "Request",
    "ScriptedModel",
    "SessionStoreConformance",
    "SkillLoaderConformance",
    "ToolDriverConformance",
    "assert_solves",
    "call",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "backend_suite": ["BackendConformance"],
        "plugin_suite": ["PluginConformance"],
        "recorder": ["Recorder"],
        "script": ["Call", "Request", "ScriptedModel", "call"],
        "session_store_suite": ["SessionStoreConformance"],
        "shell": ["HookCall"],
        "skill_loader_suite": ["SkillLoaderConformance"],
        "solving": ["assert_solves"],
        "tool_driver_suite": ["ToolDriverConformance"],
    },
)
