"""What the plugin loads and costs where no server is configured: nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import deep_mcp
import pytest

from deep_core import Kernel

from .conftest import Servers

HEAVY = "sorted({'pydantic', 'pydantic_ai', 'mcp', 'fastmcp', 'pydantic_ai.mcp'} & set(sys.modules))"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_plugin_loads_no_framework() -> None:
    assert run(f"import sys, deep_mcp; deep_mcp.__all__; print({HEAVY})") == "[]"


def test_every_public_name_is_there() -> None:
    assert {*deep_mcp.__all__} <= {*dir(deep_mcp)}
    assert all(getattr(deep_mcp, name) is not None for name in deep_mcp.__all__)


@pytest.mark.slow
def test_without_a_server_an_agent_loads_nothing_of_mcp_and_costs_nothing(make_kernel: Callable[..., Kernel]) -> None:
    code = """
import sys
import deep_backends, deep_mcp
from deep_core import Kernel
with Kernel(plugins=[deep_mcp, deep_backends], discover=False) as kernel:
    explanation = kernel.explain()
    assert explanation.by_plugin().get("mcp", 0) == 0
print(sorted({"mcp", "fastmcp", "pydantic_ai.mcp", "deep_mcp.hub", "deep_mcp.servers"} & set(sys.modules)))
"""
    assert run(code) == "[]"


@pytest.mark.slow
def test_making_an_agent_with_servers_starts_none_and_loads_nothing_of_mcp(servers: Servers, project: Path) -> None:
    code = f"""
import sys
import deep_backends, deep_mcp
from deep_core import Kernel
from pydantic_ai.models.test import TestModel
config = {{"plugins": {{"mcp": {{"options": {{"servers": {{"harbor": {servers("harbor")!r}}}}}}}}}}}
with Kernel(plugins=[deep_mcp, deep_backends], discover=False, config=config) as kernel:
    kernel.create_agent(TestModel(), backend="memory")
print(sorted({{"mcp", "fastmcp", "pydantic_ai.mcp"}} & set(sys.modules)))
"""
    assert run(code) == "[]"
    assert servers.starts("harbor") == 0


@pytest.mark.slow
def test_a_request_does_not_wait_until_the_mcp_libraries_are_imported() -> None:
    """Pydantic AI's requests wait for `pydantic_ai.mcp` once its import has begun, so a client imports none of it."""
    code = """
import sys
from pathlib import Path
from deep_mcp import read_server
from deep_mcp.client import Client
Client(read_server("harbor", {"command": "true"}, "test").config, Path("log"), 1, print)
print("fastmcp.client.client" in sys.modules, "pydantic_ai.mcp" in sys.modules)
"""
    assert run(code) == "True False"
