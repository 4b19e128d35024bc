"""The tools of the sequences as an MCP server: a client of today's protocol, which answers when and what it likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import mcp_types as types
from deep_universe.agents import agent_tools
from deep_universe.mcp_server import make_mcp_server
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic_ai import FunctionToolset, Tool
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from deep_core import Ask, Kernel, ToolCall
from tests.plugins_by_hand import plugin

__all__ = ["Served", "Server", "serving"]

GUARDS = ("dear", "dearer")


class Server(NamedTuple):
    """One server, and the version of its tools."""

    session: Any
    words: int


@dataclass(frozen=True)
class Question:
    """What a client was asked: the call, the version of the tool, and what the person read."""

    server: Server = field(repr=False)
    tool: str
    args: tuple[tuple[str, Any], ...]
    text: str
    state: str

    @property
    def guard(self) -> str:
        """The guard's question, as it was shown."""
        return next((guard for guard in reversed(GUARDS) if f"; {guard}" in self.text or f": {guard}" in self.text), "")


@dataclass
class Served:
    """What a person asked, allowed and saw run through MCP.

    Attributes:
        worlds: whose guard counts: that of the last.
        questions: all that were asked, also those that are answered.
        open: the states of those without an answer.
        allowed: the question that is being answered with yes.
        problems: calls that ran without permission.
    """

    worlds: Sequence[Any] = field(repr=False)
    questions: list[Question] = field(default_factory=list[Question])
    open: set[str] = field(default_factory=set[str])
    allowed: list[Question] = field(default_factory=list[Question])
    ran: int = 0
    problems: list[str] = field(default_factory=list[str])

    def run(self, tool: str, args: Mapping[str, Any], words: int, rule: bool) -> None:
        """A call runs: it asks for no reason, or it is the one that was answered with yes, as it was asked."""
        self.ran += 1
        guard = self.worlds[-1].guard
        if tool != "act" and not rule and not guard:
            return
        for question in self.allowed:
            same = (question.tool, dict(question.args), question.server.words) == (tool, dict(args), words)
            if same and guard in ("", question.guard):
                self.allowed.remove(question)
                return
        self.problems.append(f"no person allowed {tool} {dict(args)} through MCP: {self}")

    async def step(self, server: Server, what: str, number: int, guard: str) -> None:
        """Call a tool, or answer a question: also one that is answered already, or about another call."""
        if what == "ask":
            tool = ("act", "save")[number % 2]
            args = {"x": number % 4} if tool == "act" else {"path": f"file{number % 4}", "content": "words"}
            await self._send(server, tool, args)
            return
        if not self.questions:
            return
        question = self.questions[-1 - number % len(self.questions)]
        content: dict[str, str | int | float | bool | list[str] | None] = {"approve": what != "deny"}
        answer = {"approval": types.ElicitResult(action="accept", content=content)}
        args = dict(question.args) | ({"x": 6} if what == "rewrite" else {})
        if what == "approve" and question.state in self.open:
            self.allowed.append(question)
        self.open.discard(question.state)
        with suppress(MCPError):  # it was answered before
            await self._send(question.server, question.tool, args, input_responses=answer, request_state=question.state)
        self.allowed.clear()

    async def _send(self, server: Server, tool: str, args: Mapping[str, Any], **more: Any) -> None:
        result = await server.session.call_tool(tool, {**args}, allow_input_required=True, **more)
        if isinstance(result, types.InputRequiredResult):
            assert result.input_requests
            assert result.request_state
            asked: Any = result.input_requests["approval"]
            self.questions.append(Question(server, tool, (*args.items(),), asked.params.message, result.request_state))
            self.open.add(result.request_state)


@asynccontextmanager
async def serving(worlds: Sequence[Any], words: int, rule: bool) -> AsyncGenerator[Server]:
    """Serve the tools, in a task of their own: steps of many tasks use them."""
    ready: asyncio.Future[Server] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def serve() -> None:
        def act(x: int) -> str:
            worlds[-1].served.run("act", {"x": x}, words, rule)
            return "did"

        def save(path: str, content: str) -> str:
            worlds[-1].served.run("save", {"path": path, "content": content}, words, rule)
            return "saved"

        def check(call: ToolCall, context: Any) -> Ask | None:
            return Ask(worlds[-1].guard) if worlds[-1].guard else None

        async def never(ctx: Any, params: Any) -> types.ElicitResult:
            raise AssertionError("the client answers with its next call")

        tools = [
            Tool(act, description=f"Acts, as of {words}.", requires_approval=True),
            Tool(save, description=f"Saves, as of {words}.", metadata={"tags": ["write"]}),
        ]
        plugins = [plugin("acting", toolsets=[FunctionToolset(tools, id="acting")]), plugin("guard", check_call=check)]
        model = FunctionModel(lambda messages, info: ModelResponse([TextPart("done")]))
        with Kernel(plugins=plugins, discover=False) as kernel:
            agent = kernel.create_agent(model, backend=None, interrupt_on={"save": True} if rule else {})
            async with (
                agent_tools(agent) as known,
                Client(make_mcp_server(known), mode="auto", elicitation_callback=never) as client,
            ):
                ready.set_result(Server(client.session, words))
                await over.wait()

    task = asyncio.create_task(serve())
    await asyncio.wait([ready, task], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    try:
        yield ready.result()
    finally:
        over.set()
        await task
