"""Commands that stay, as the model has them: offered once there is one, asked for as commands, and read in pieces."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import pytest
from deep_backends import end_commands, local_backend, memory_backend
from deep_filesystem.background import background_commands, keep_command, plain, stop_command
from pydantic_ai import DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.workspaces import LocalWorkspaceBackend, Workspace, WorkspaceBackend

from deep_core import DeepAgentDeps, Kernel
from plugins.filesystem.tests.conftest import Session

pytestmark = pytest.mark.anyio
LATER = ["read_output", "send_input", "stop_command"]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
async def session(root: Path, new_session: Any) -> AsyncIterator[Session]:
    made = new_session(Workspace(local_backend(root)))
    yield made
    end_commands(made.deps.session_id, kept=True)


# -- what the model reads ----------------------------------------------------------------------------------------------


async def test_output_is_read_once_waited_for_and_read_again_by_its_tail(session: Session) -> None:
    started = await session.ok("execute", "echo one; read x; echo two $x; read; echo three", background=True)
    assert started.startswith("c1 is running; its log: .deep/sessions/")
    # What came before the first look counts: nobody waits for a line that was there.
    assert await session.ok("read_output", "c1", wait=60, until="^one$") == "c1 is running.\none"
    assert await session.ok("read_output", "c1") == "c1 is running.\n[no new output]"
    assert await session.ok("send_input", "c1", "more", until="two") == "c1 is running.\ntwo more"
    assert await session.ok("read_output", "c1", tail=1) == "c1 is running.\ntwo more"
    missed = await session.ok("read_output", "c1", wait=1, until="four")
    assert missed == "c1 is running; no line has 'four' yet.\n[no new output]"
    assert await session.ok("send_input", "c1", "", wait=60, until="three") != ""
    assert await session.ok("read_output", "c1", wait=60) == "c1 exited with code 0.\n[no new output]"
    log = started.rpartition("; its log: ")[2]
    assert await session.ok("grep", "tw.", log, output_mode="content") == f"{log}:2: two more"


async def test_a_command_that_ends_at_once_says_how(session: Session) -> None:
    ended = await session.ok("execute", "echo no port >&2; exit 3", background=True)
    assert ended == "c1 exited with code 3.\nno port"
    assert "c1 exited with code 3." in await session.failed("send_input", "c1", "x")
    assert await session.ok("stop_command", "c1") == "c1 exited with code 3.\n[no new output]"


async def test_a_repl_answers(session: Session) -> None:
    await session.ok("execute", f"exec {sys.executable} -q", background=True)
    assert "\n>>> 42" in await session.ok("send_input", "c1", "6 * 7", wait=60, until="42")
    await session.ok("send_input", "c1", "def double(x):\n    return 2 * x\n\n", wait=60)
    assert "18" in await session.ok("send_input", "c1", "double(9)", wait=60, until="18")
    await session.ok("send_input", "c1", "import time; time.sleep(3600)", wait=0)
    assert "KeyboardInterrupt" in await session.ok("send_input", "c1", "\x03", wait=60, until="KeyboardInterrupt")
    # Python exits with 130 at the end of its input, if that was the last thing it did.
    assert "43" in await session.ok("send_input", "c1", "42 + 1", wait=60, until="43")
    assert "c1 exited with code 0" in await session.ok("send_input", "c1", "\x04", wait=60)


async def test_a_flood_is_cut_and_does_not_hold_the_call(session: Session) -> None:
    await session.ok("execute", "yes 'a line of a flood'", background=True)
    text = await session.ok("read_output", "c1", wait=1)
    assert len(text) < 21_000
    assert "characters omitted" in text
    assert "; all of it: .deep/sessions/" in text
    stopped = await session.ok("stop_command", "c1")
    assert stopped.startswith("c1 was stopped (exit code 143).")
    assert len(stopped) < 3_000


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("read_output", ("c2",), "There is no command 'c2'. Commands: c1."),
        ("stop_command", ("../c1",), "There is no command '../c1'."),
        ("send_input", ("c1", "x" * 5000), "A terminal takes lines of 4,095 bytes, 65,536 at once. Write a file"),
        ("read_output", ("c1", 1, "("), "invalid regular expression"),
    ],
)
async def test_a_mistake_says_what_to_do(session: Session, tool: str, arguments: tuple[Any, ...], says: str) -> None:
    await session.ok("execute", "read", background=True)
    assert says in await session.failed(tool, *arguments)


@pytest.mark.parametrize("make", [memory_backend, LocalWorkspaceBackend], ids=["memory", "a third party's"])
async def test_a_backend_that_cannot_says_so_in_a_sentence(root: Path, new_session: Any, make: Any) -> None:
    backend: WorkspaceBackend = make(root) if make is LocalWorkspaceBackend else make()
    session = new_session(Workspace(backend))
    said = await session.failed("execute", "x", background=True)
    assert said == "This workspace cannot keep a command running: run it without background."


async def test_limits_are_the_options(root: Path, new_session: Any) -> None:
    few = new_session(Workspace(local_backend(root)), background_commands=1)
    await few.ok("execute", "read", background=True)
    assert await few.failed("execute", "read", background=True) == "1 background commands run already: stop one first."
    short = new_session(Workspace(local_backend(root)), background_seconds=1)
    await short.ok("execute", "read", background=True)
    assert "its time was over" in await short.ok("read_output", "c1", wait=60)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[32mgreen\x1b[0m \x1b]0;title\x07x", "green x"),
        (b"10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
        (b"caf\xc3\xa9 \xff", "café �"),
        (b"\x1b[?2004h$ ls\x1b[K\r\n", "$ ls\n"),
    ],
)
def test_what_a_terminal_shows_is_text(data: bytes, text: str) -> None:
    assert plain(data) == text


# -- in an agent -------------------------------------------------------------------------------------------------------


class Calls:
    """A model that makes these calls, one a request. It keeps the names that each request offers."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.offered: list[list[str]] = []
        self._calls = calls
        self.model = FunctionModel(self._answer)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.offered.append([tool.name for tool in info.function_tools])
        returns = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        if len(returns) < len(self._calls):
            return ModelResponse(parts=[ToolCallPart(*self._calls[len(returns)])])
        return ModelResponse(parts=[TextPart("\n".join(str(part.content) for part in returns))])


async def test_three_tools_are_offered_from_the_first_command_on_and_typing_asks_as_a_command(root: Path) -> None:
    calls = Calls(
        ("execute", {"command": "cat", "background": True}),
        ("send_input", {"id": "c1", "input": "hello", "until": "hello"}),
        ("read_output", {"id": "c1"}),
        ("stop_command", {"id": "c1"}),
    )
    with Kernel(plugins=[deep_backends, deep_filesystem], discover=False, strict=True) as kernel:
        agent = kernel.create_agent(calls.model)
        deps = DeepAgentDeps[Any](backend=local_backend(root))
        deps.state.bind(kernel)
        result = await agent.run("go", deps=deps)
        asked = list[str]()
        while isinstance(result.output, DeferredToolRequests):
            (call,) = result.output.approvals
            (reason,) = result.output.metadata[call.tool_call_id]["reasons"]
            asked.append(f"{call.tool_name}: {reason['kind']}")
            assert (call.tool_name in LATER) == (LATER[1] in calls.offered[-1])
            deps = kernel.load_deps(deps.dump(), backend=deps.backend)  # another process
            results = DeferredToolResults(approvals={call.tool_call_id: True})
            history = result.all_messages()
            result = await agent.run(deps=deps, message_history=history, deferred_tool_results=results)
        assert asked == ["execute: command", "send_input: command"]
        assert [name for name in calls.offered[0] if name in LATER] == []
        assert [name for name in calls.offered[-1] if name in LATER] == LATER
        assert "hello" in str(result.output)
        assert "was stopped" in str(result.output)


async def test_a_kernel_that_closes_ends_them_and_a_person_keeps_or_stops_one(root: Path) -> None:
    calls = Calls(*[("execute", {"command": "read", "background": True})] * 3)
    with Kernel(plugins=[deep_backends, deep_filesystem], discover=False, strict=True) as kernel:
        agent = kernel.create_agent(calls.model, interrupt_on=False)
        deps = DeepAgentDeps[Any](backend=local_backend(root))
        await agent.run("go", deps=deps)
        assert not (await stop_command(deps, "c1")).is_running
        await keep_command(deps, "c3")
    assert [each.is_running for each in await background_commands(deps)] == [False, False, True]
    other = DeepAgentDeps[Any](backend=deps.backend)
    assert [each.name for each in await background_commands(other)] == ["c3"]
    end_commands(deps.session_id, kept=True)
    assert await background_commands(other) == []
