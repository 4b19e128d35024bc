"""A home and a project of the test's own, real MCP servers, and agents that use them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import deep_backends
import deep_mcp
import pytest
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import Kernel, create_default_deps

SERVER = Path(__file__).with_name("server.py")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep tests away from the servers and the memory of the user who runs them."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONFIG", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / f".{name.lower()}"))
    return home


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / ".git").mkdir()
    monkeypatch.chdir(project)
    return project


class Servers:
    """Entries of servers that run `server.py`, each with a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def state(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def __call__(self, name: str, *more: str, **settings: Any) -> dict[str, Any]:
        command, *args = sys.executable, str(SERVER), str(self.state(name)), *more
        return {"command": command, "args": args, **settings}

    def lines(self, name: str, file: str) -> list[str]:
        path = self.state(name) / file
        return path.read_text().split() if path.exists() else []

    def starts(self, name: str) -> int:
        return len(self.lines(name, "starts"))

    def calls(self, name: str) -> list[str]:
        return self.lines(name, "calls")

    def running(self, name: str) -> list[int]:
        """The processes of a server that still run."""
        return [pid for pid in map(int, self.lines(name, "starts")) if is_running(pid)]

    async def wait_until_ended(self, name: str) -> None:
        """Wait until none of its processes runs: a server ends soon after what started it."""
        with anyio.move_on_after(60):
            while self.running(name):
                await anyio.sleep(0.02)
            return
        raise AssertionError(f"{name} still runs: {self.running(name)}")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def servers(tmp_path: Path) -> Servers:
    return Servers(tmp_path / "servers")


@pytest.fixture
def make_kernel() -> Iterator[Callable[..., Kernel]]:
    """`make_kernel(servers, wait=…)`: a kernel with these servers; `settings` are of `[plugins.mcp]`."""
    made: list[Kernel] = []

    def make(servers: Any = None, *, settings: Any = None, plugins: tuple[Any, ...] = (), **options: Any) -> Kernel:
        section = {**(settings or {}), "options": {"servers": servers or {}, "wait": 60, **options}}
        config = {"plugins": {"mcp": section}}
        made.append(Kernel(plugins=[deep_mcp, deep_backends, *plugins], discover=False, config=config))
        return made[-1]

    yield make
    for kernel in made:
        kernel.close()


class Caller:
    """A model that makes calls one after another, and remembers which tools each request offered."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = calls
        self.requests: list[AgentInfo] = []

    def model(self) -> FunctionModel:
        return FunctionModel(self._respond)

    def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(info)
        done = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
        if done < len(self.calls):
            return ModelResponse(parts=[ToolCallPart(*self.calls[done], tool_call_id=f"call-{done}")])
        return ModelResponse(parts=[TextPart("done")])

    @property
    def tools(self) -> dict[str, Any]:
        """The tools of the first request, deferred ones too."""
        return {tool.name: tool for tool in self.requests[0].model_request_parameters.function_tools}


Play = Callable[..., Any]


@pytest.fixture
def play() -> Play:
    """`await play(kernel, (tool, args), …)`: run an agent; returns the caller and the results, `outcome: text`."""

    async def run(kernel: Kernel, *calls: tuple[str, dict[str, Any]], **how: Any) -> tuple[Caller, list[str]]:
        caller = Caller(*calls)
        agent: Agent[Any, Any] = kernel.create_agent(caller.model(), backend="memory", **how)
        result = await agent.run("go", deps=create_default_deps(kernel=kernel))
        if isinstance(result.output, DeferredToolRequests):
            return caller, [f"asks: {call.tool_name}" for call in result.output.approvals]
        parts = [part for message in result.all_messages() for part in message.parts]
        return caller, [f"{part.outcome}: {part.content}" for part in parts if isinstance(part, ToolReturnPart)]

    return run
