"""When `execute` asks: always, unless the option says that it need not; then where a rule does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deep_backends
import deep_filesystem
import pytest
from deep_backends import local_backend
from pydantic_ai import DeferredToolRequests
from pydantic_ai.models.test import TestModel

from deep_core import Ask, Kernel, PluginWarning, create_default_deps, hookimpl
from deep_core.plugin_api import ConfigFile

PLUGINS = [deep_backends, deep_filesystem]
UNASKED = {"plugins": {"filesystem": {"options": {"require_execute_approval": False}}}}


class Execute(TestModel):
    """Calls `execute` once."""

    def __init__(self) -> None:
        super().__init__(call_tools=["execute"])

    def gen_tool_args(self, tool_def: Any) -> Any:
        return {"command": "echo ran > witness"}


def asks(kernel: Kernel, root: Path, **settings: Any) -> bool:
    """Whether a run ends by asking about `execute`, and the command has not run."""
    agent = kernel.create_agent(Execute(), backend=local_backend(root), **settings)
    output = asyncio.run(agent.run("go", deps=create_default_deps(kernel=kernel))).output
    asked = isinstance(output, DeferredToolRequests)
    assert (root / "witness").exists() is not asked
    return asked


@pytest.mark.parametrize(("config", "asked"), [({}, True), (UNASKED, False)])
def test_the_option_decides_whether_execute_asks(root: Path, config: dict[str, Any], asked: bool) -> None:
    with Kernel(plugins=PLUGINS, discover=False, config=config) as kernel:
        assert asks(kernel, root) is asked
        (tool,) = [
            tool
            for tool in kernel.explain(kernel.create_agent(Execute(), backend=local_backend(root))).tools
            if tool.name == "execute"
        ]
    assert tool.approval == ("always" if asked else "never")
    assert tool.tags == ("execute", "write", "network", "destructive")


@hookimpl
def deep_check_call(call: Any) -> Ask:
    return Ask("a plugin asks")


@pytest.mark.parametrize(
    ("plugin", "agent", "settings", "more"),
    [
        ({"require_approval": "execute"}, {}, {}, []),
        ({"require_approval": True}, {}, {}, []),
        ({}, {"tools_policy": {"require_approval_by_default": True}}, {}, []),
        ({}, {"interrupt_on": {"execute": True}}, {}, []),
        ({}, {}, {"interrupt_on": "destructive"}, []),
        ({}, {}, {"interrupt_on": {"execute": lambda call: "ran" in call.args["command"]}}, []),
        ({}, {}, {}, [SimpleNamespace(__name__="careful", deep_check_call=deep_check_call)]),
    ],
)
def test_a_rule_asks_though_the_option_does_not(
    root: Path, plugin: dict[str, Any], agent: dict[str, Any], settings: dict[str, Any], more: list[Any]
) -> None:
    config = {"plugins": {"filesystem": {**UNASKED["plugins"]["filesystem"], **plugin}}, "agent": agent}
    with Kernel(plugins=[*PLUGINS, *more], discover=False, config=config) as kernel:
        assert asks(kernel, root, **settings)


def test_a_projects_file_decides_only_once_it_is_trusted(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(key, str(tmp_path / "home"))
    monkeypatch.setenv("DEEP_PLUGINS_ALLOW", "backends,filesystem")
    monkeypatch.chdir(root)
    (root / "deep.toml").write_text("[plugins.filesystem]\noptions = { require_execute_approval = false }\n")
    with (
        Kernel() as kernel,
        pytest.warns(PluginWarning, match="ignored plugins.filesystem.options.require_execute_approval"),
    ):
        assert asks(kernel, root)
    ConfigFile.read(root / "deep.toml").trust()
    with Kernel() as kernel:
        assert not asks(kernel, root)
