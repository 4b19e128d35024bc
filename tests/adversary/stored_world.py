"""Sessions that a person watches from everywhere: what was asked, what was answered, and what ran.

One store; agents of two processes, the page and clients of AG-UI and Vercel AI over HTTP, a terminal and an editor in
their modes; and beside it the tools as an MCP server (`served_tools.py`). What the person allowed is kept here, by
rules of its own: nothing of the policy decides what may run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, Literal

import deep_backends
import deep_durable
import deep_sessions
import deep_web
import httpx
from acp.exceptions import RequestError
from acp.helpers import text_block
from deep_acp.session import EditorSession
from deep_backends import MemoryBackend
from deep_cli.run.approval import Answer, ApprovalMode, Approver, questions
from deep_cli.run.approval import Question as Shown
from deep_sessions import (
    AgentChoice,
    AgentDeps,
    AgentError,
    DeepAgent,
    Fold,
    MemoryStore,
    SessionNotFound,
    Sessions,
    WaitingCalls,
    load_session,
)
from deep_sessions.decisions import waiting_calls
from deep_web import Site, create_app
from deep_web.clients import name_of
from pydantic_ai import DeferredToolRequests, DeferredToolResults, FunctionToolset, RunContext, Tool, ToolApproved
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from deep_core import Ask, Kernel, ToolCall
from deep_core.plugin_api import Reason, call_path, reasons_of
from tests.adversary.served_tools import Served, serving
from tests.plugins_by_hand import plugin

__all__ = ["ALWAYS_COVERS", "Agents", "World", "current"]

IDS = ("c1", "c/1", "c")
"""Ids of calls: providers choose them, and give one twice."""
TOKEN = "t" * 43
ALWAYS_COVERS = {"rule", "tool", "command", "write"}
Where = Literal["agent", "worker", "page", "terminal", "client", "editor", "served"]


@dataclass(frozen=True)
class Allowed:
    """What one yes is for: this call in this session, its arguments, the tool as it was, and the reasons."""

    session: str
    call_id: str
    tool: str
    args: tuple[tuple[str, Any], ...]
    words: int
    reasons: frozenset[Reason]

    @property
    def path(self) -> str:
        """The call's name for interfaces."""
        return call_path(self.call_id)


@dataclass(frozen=True)
class Asked:
    """A question as an interface showed it."""

    session: str
    approval: str
    calls: tuple[Allowed, ...]


@dataclass
class World:
    """The sessions of one sequence.

    Attributes:
        words: the version of every tool's description.
        guard: what a guard asks; "" if it does not.
        rule: whether writing asks.
        session: the one that the person looks at.
        allowed: each yes that no call has used.
        always: by where it was said: the tools of which the person approved every call, or, in the editor, every call
            about one file.
        shown: every question that was shown, also those that are answered.
        ran: how many calls ran.
        problems: calls that ran without permission. A process may hide the error that says it.
    """

    agents: Agents = field(repr=False)
    words: int = 0
    guard: str = ""
    rule: bool = True
    mode: str = "ask"
    session: str = ""
    sessions: list[str] = field(default_factory=list[str])
    allowed: list[Allowed] = field(default_factory=list[Allowed])
    always: dict[str, set[tuple[str, int, str]]] = field(default_factory=lambda: {"ask": set(), "accept": set()})
    shown: list[Asked] = field(repr=False, default_factory=list[Asked])
    asked_at: dict[tuple[str, str], int] = field(repr=False, default_factory=dict[tuple[str, str], int])
    kept: list[Fold] = field(repr=False, default_factory=list[Fold])
    ran: int = 0
    approvers: dict[str, Approver] = field(repr=False, default_factory=dict[str, Approver])
    answer: Answer = "yes"
    heard: set[str] = field(default_factory=set[str])
    """The calls about which the terminal or the editor asked the person in this step."""
    problems: list[str] = field(default_factory=list[str])
    editors: dict[str, EditorSession] = field(repr=False, default_factory=dict[str, EditorSession])
    chosen: str | None = None
    """What the person chooses in the editor, if it asks: an option, or None to stop the turn."""
    choices: dict[str, str] = field(default_factory=dict[str, str])
    """By call: what the person chose in the editor in this step."""
    served: Served = field(repr=False, default_factory=lambda: Served(current))

    # -- what runs -----------------------------------------------------------------------------------------------------

    def run(self, session: str, call_id: str, tool: str, args: Mapping[str, Any]) -> None:
        """A call runs: it asks for no reason, or a person allowed it, as it is, for these reasons, once."""
        self.ran += 1
        reasons = {"tool"} if tool == "act" else {"write"} if self.rule else set[str]()
        if not reasons and not self.guard:
            return
        for yes in self.allowed:
            same = (yes.session, yes.call_id, yes.tool, dict(yes.args)) == (session, call_id, tool, dict(args))
            kinds = {reason.kind for reason in yes.reasons}
            heard = not self.guard or Reason("guard", self.guard, "guard") in yes.reasons
            if same and yes.words == self.words and reasons <= kinds and heard:
                self.allowed.remove(yes)
                return
        self.problems.append(f"no person allowed {tool} {dict(args)} as {call_id} in {session}: {self}")

    # -- what is asked -------------------------------------------------------------------------------------------------

    async def look(self) -> WaitingCalls | None:
        """Look at what waits in the session, as every interface does."""
        found = await load_session(self.agents.store, self.session)
        self.kept.append(found)
        run = found.run
        requests = waiting_calls(run)
        if requests is None or run is None or run.status != "paused":
            return None
        words = self.asked_at.setdefault((self.session, requests.approval), self.words)
        calls = [self._asked(requests, call, words) for call in requests.approvals]
        asked = Asked(self.session, requests.approval, (*calls,))
        if asked not in self.shown[-1:]:
            if all(each.approval != asked.approval for each in self.shown):
                self._forget(self.session)  # what was answered before was not enough
            self.shown.append(asked)
        return requests

    def _asked(self, requests: DeferredToolRequests, call: ToolCallPart, words: int) -> Allowed:
        about = requests.metadata.get(call.tool_call_id, {})
        args = about.get("args", call.args_as_dict())
        reasons = frozenset(reasons_of(about))
        return Allowed(self.session, call.tool_call_id, call.tool_name, (*args.items(),), words, reasons)

    # -- the steps -----------------------------------------------------------------------------------------------------

    async def step(self, what: str, where: Where, number: int) -> None:
        """Take a step. What an interface refuses has no effect, also not on what is allowed."""
        if where == "served" and what in ("ask", "approve", "deny", "rewrite"):
            await self.served.step(await self.agents.server(self), what, number, self.guard)
        else:
            with suppress(AgentError):
                await getattr(self, f"_{what}")(where, number)
            await self.agents.settle(self.session)
            await self.look()
        assert [*self.problems, *self.served.problems] == []

    async def begin(self) -> None:
        """Begin with a session."""
        await self._new(self.agents.new_id())
        await self.step("ask", "agent", 1)

    async def _new(self, session: str) -> None:
        self.session = session
        self.sessions.append(session)

    async def _ask(self, where: Where, number: int) -> None:
        prompt = f"{('act', 'save')[number % 2]} {number % 4} {IDS[number % 3]}"
        agent = await self.agents.of(self, where)
        if where == "page":
            body = {"id": f"message-{next(self.agents.numbers):08}", "text": prompt}
            await agent.post(f"/api/sessions/{self.session}/messages", body)
        elif where == "worker":
            await self.agents.store.release(await self.agents.store.acquire(self.session))
            await self.agents.store.post(self.session, "prompt", deep_sessions.write_prompt(prompt))
            await agent.work(self.session)
        elif where == "client":
            text = {"type": "text", "text": prompt}
            message = {"id": f"message-{next(self.agents.numbers):08}", "role": "user", "parts": [text]}
            body = {"trigger": "submit-message", "id": self.session, "messages": [message]}
            await agent.post("/vercel", body)
        elif where == "editor":
            await self._prompt(prompt, (None, "allow", "reject")[number % 3])
        else:
            await agent.deep.run(prompt, session_id=self.session)

    async def _approve(self, where: Where, number: int) -> None:
        await self._decide(where, number, approve=True)

    async def _deny(self, where: Where, number: int) -> None:
        await self._decide(where, number, approve=False)

    async def _decide(self, where: Where, number: int, *, approve: bool) -> None:
        agent = await self.agents.of(self, where)
        if where == "editor":
            choice = ("always_tool", "allow", "always_path")[len(self.shown) % 3]
            await self._prompt("/retry", choice if approve else "reject")
            return
        if where == "client":
            await self._answer_as_client(agent, number, approve=approve)
            return
        if where == "page":  # a tab that is late answers what it shows
            if self.shown:
                asked = self.shown[-1 - number % len(self.shown)]
                verdicts = {call.path: {"approve": approve} for call in asked.calls}
                body = {"approval": asked.approval, "verdicts": verdicts}
                # What the person sees, and so allows: an answer that is refused allows nothing.
                grants = asked.calls if approve and await self._waits(asked) else ()
                self.allowed += grants
                if await agent.post(f"/api/sessions/{asked.session}/decisions", body) >= 300:
                    self.take_back(grants)
                await self.agents.settle(asked.session)
            return
        requests = await self.look()
        if requests is None:
            return
        if where == "terminal":
            await self._answer_in_terminal(agent, requests, approve=approve)
            return
        grants = self.shown[-1].calls if approve else ()
        self.allowed += grants
        results = DeferredToolResults(approvals={call.tool_call_id: approve for call in requests.approvals})
        await self._record(agent, results, grants, requests.approval)
        await (agent.work(self.session) if where == "worker" else agent.deep.resume(self.session))

    async def _answer_as_client(self, agent: Member, number: int, *, approve: bool) -> None:
        """A client of AG-UI or of Vercel AI answers what it shows, which may be late."""
        asked = self.shown[-1 - number % len(self.shown)] if self.shown else None
        if asked is None:
            return
        grants = asked.calls if approve and await self._waits(asked) else ()
        self.allowed += grants
        names = {name_of(asked.approval, call.path): call for call in asked.calls}
        if number % 2:
            body = {"threadId": asked.session, "runId": "r", "state": {}, "tools": [], "context": []}
            payload = {"approved": approve}
            resume = [{"interruptId": f"int-{name}", "status": "resolved", "payload": payload} for name in names]
            await agent.post("/ag-ui", {**body, "messages": [], "forwardedProps": {}, "resume": resume})
        else:
            parts = [
                {"type": f"tool-{call.tool}", "toolCallId": call.path, "state": "approval-responded"}
                | {"input": {"x": 7}, "approval": {"id": name, "approved": approve}}  # its copy counts for nothing
                for name, call in names.items()
            ]
            message = {"id": "m", "role": "assistant", "parts": parts}
            body = {"trigger": "submit-message", "id": asked.session, "messages": [message]}
            await agent.post("/vercel", body)
        await self.agents.settle(asked.session)
        if await self._waits(asked):  # it was refused
            self.take_back(grants)

    # -- the editor ----------------------------------------------------------------------------------------------------

    async def _prompt(self, text: str, choice: str | None) -> None:
        """Send a message in the editor, where the person makes this choice, if asked."""
        editor = await self._editor()
        self.chosen = choice
        self.choices.clear()
        with suppress(RequestError):
            await editor.prompt([text_block(text)])

    async def _editor(self) -> EditorSession:
        """The editor's view of the session, with what it was told to do before."""
        if self.session not in self.editors:
            project: Any = _Project(self)
            person: Any = SimpleNamespace(ask=self._choose, update=_see)
            self.editors[self.session] = editor = EditorSession(self.session, project, person, AgentChoice("scripted"))
            with suppress(SessionNotFound):
                await editor.open(replay=False)
        return self.editors[self.session]

    async def _choose(self, session: str, call: Any, options: Any) -> str | None:
        """The person reads the question, and chooses."""
        await self.look()
        [shown] = self.shown[-1].calls
        assert call.raw_input == dict(shown.args)
        words = "".join(each.content.text for each in call.content if each.type == "content")
        assert all((reason.text or reason.kind) in words for reason in shown.reasons)
        offered = [option.option_id for option in options]
        choice = self.chosen if self.chosen in (*offered, None) else "allow"
        if choice is None:
            self._forget(session)
        else:
            self.choices[shown.path] = choice
        return choice

    async def judge(self, requests_of: str, results: DeferredToolResults) -> tuple[Allowed, ...]:
        """Check what the editor decided, by itself or as the person said; return what is allowed with it."""
        await self.look()
        asked = self.shown[-1]
        assert asked.session == requests_of
        always = self.always.setdefault(f"editor {requests_of}", set())
        for call in asked.calls:
            kinds = {reason.kind for reason in call.reasons}
            edits = self.editors[requests_of].mode == "accept-edits"
            args = dict(call.args)
            said = edits and kinds == {"write"} and "x" not in args
            said = said or ((call.tool, call.words, "") in always and bool(kinds) and kinds <= ALWAYS_COVERS)
            file = (call.tool, call.words, args.get("path", ""))
            said = said or (file in always and "x" not in args and bool(kinds) and kinds <= ALWAYS_COVERS - {"command"})
            if call.path in self.choices:
                assert not said, f"the editor asked about what it was told: {self}"
                said = self.choices[call.path] != "reject"
                if self.choices[call.path].startswith("always_"):
                    always.add(file if self.choices[call.path] == "always_path" else (call.tool, call.words, ""))
            assert (results.approvals.get(call.call_id) is True) is said, f"the editor decided on {call}: {self}"
        self.choices.clear()  # the next question of this turn is another one
        grants = tuple(call for call in asked.calls if results.approvals.get(call.call_id) is True)
        self.allowed += grants
        return grants

    async def _waits(self, asked: Asked) -> bool:
        now = waiting_calls((await load_session(self.agents.store, asked.session)).run)
        return now is not None and now.approval == asked.approval

    async def _record(
        self, agent: Member, results: DeferredToolResults, grants: tuple[Allowed, ...], approval: str
    ) -> None:
        try:
            await agent.deep.decide(self.session, results, approval=approval)
        except AgentError:
            self.take_back(grants)
            raise

    def take_back(self, grants: tuple[Allowed, ...]) -> None:
        """Forget what was allowed by an answer that was refused."""
        for grant in grants:
            if grant in self.allowed:
                self.allowed.remove(grant)

    async def _rewrite(self, where: Where, number: int) -> None:
        requests = await self.look()
        agent = await self.agents.of(self, "agent")
        if requests is None:
            return
        grants: list[Allowed] = []
        approvals: dict[str, Any] = {}
        for shown in self.shown[-1].calls:
            args = {**dict(shown.args), "x": number}
            grants.append(Allowed(**{**vars(shown), "args": (*args.items(),)}))
            approvals[shown.call_id] = ToolApproved(override_args=args)
        self.allowed += grants
        await self._record(agent, DeferredToolResults(approvals=approvals), (*grants,), requests.approval)
        await agent.deep.resume(self.session)

    async def _answer_in_terminal(self, agent: Member, requests: WaitingCalls, *, approve: bool) -> None:
        mode = self.mode
        self.answer = "no" if not approve else "always" if len(self.shown) % 3 == 0 else "yes"
        self.heard.clear()
        if mode not in self.approvers:
            kind: ApprovalMode = "ask" if mode == "accept" else mode  # type: ignore[assignment]
            self.approvers[mode] = Approver(kind, self._hear, lambda decision: None)
            self.approvers[mode].accepts_edits = mode == "accept"
        results = self.approvers[mode].decide(requests, await questions(requests, None))
        grants = tuple(call for call in self.shown[-1].calls if results.approvals.get(call.call_id) is True)
        for call in self.shown[-1].calls:
            kinds = {reason.kind for reason in call.reasons}
            every = (call.tool, call.words, "") in self.always.get(mode, ())
            by_mode = mode == "accept" and kinds == {"write"}
            by_rule = every and bool(kinds) and kinds <= ALWAYS_COVERS
            if call.path in self.heard:
                said = approve
                if self.answer == "always":
                    self.always[mode].add((call.tool, call.words, ""))
            else:
                said = mode == "allow" or (mode != "deny" and (by_mode or by_rule))
            assert (call in grants) is said, f"mode {mode} answered {call}: {self}"
        self.allowed += grants
        await self._record(agent, results, grants, requests.approval)
        await agent.deep.resume(self.session)

    def _hear(self, question: Shown) -> Answer:
        self.heard.add(question.call_id)
        return self.answer

    async def _resume(self, where: Where, number: int) -> None:
        agent = await self.agents.of(self, where)
        if where == "editor":
            await self._prompt("/retry", "reject")
        elif where in ("page", "client"):
            await agent.post(f"/api/sessions/{self.session}/resume", {})
        elif where == "worker":
            await agent.work(self.session)
        else:
            await agent.deep.resume(self.session)

    async def _leave(self, where: Where, number: int) -> None:
        """Answer, and let someone else go on later: the answer waits in the session."""
        requests = await self.look()
        if requests is None:
            return
        grants = self.shown[-1].calls
        self.allowed += grants
        results = DeferredToolResults(approvals={call.tool_call_id: True for call in requests.approvals})
        await self._record(await self.agents.of(self, "agent"), results, grants, requests.approval)

    async def _stop(self, where: Where, number: int) -> None:
        agent = await self.agents.of(self, "page")
        self._forget(self.session)
        await agent.post(f"/api/sessions/{self.session}/stop", {})

    def _forget(self, session: str) -> None:
        self.allowed[:] = [yes for yes in self.allowed if yes.session != session]

    async def _fork(self, where: Where, number: int) -> None:
        at = await self._entry(number)
        if where in ("page", "client"):
            agent = await self.agents.of(self, "page")
            new = await agent.fork(self.session, at)
        else:
            new = await deep_sessions.fork(self.agents.store, self.session, at=at, new_id=self.agents.new_id())
        if new:
            await self._new(new)

    async def _rewind(self, where: Where, number: int) -> None:
        at = await self._entry(number)
        await deep_sessions.rewind(self.agents.store, self.session, to=at or 1)
        self._forget(self.session)

    async def _entry(self, number: int) -> int | None:
        last = (await self.agents.store.info(self.session)).seq
        return 1 + (last * (number + 1) // 8) % last if last else None

    async def _import(self, where: Where, number: int) -> None:
        """A conversation from elsewhere: as it was stored, without its state, or its messages alone."""
        old = self.kept[-1 - number % len(self.kept)]
        new = self.agents.new_id()
        slots, run = (old.root.slots, old.run) if number % 3 == 0 else ({}, old.run if number % 3 == 1 else None)
        await deep_sessions.create(self.agents.store, new, old.messages(), slots=slots, run=run)
        waited, waits = waiting_calls(run), waiting_calls((await load_session(self.agents.store, new)).run)
        if waited is not None and waits is not None:  # as it did: whoever is asked sees the tool of then
            then = self.asked_at.get((old.info.id, waited.approval), self.words)
            self.asked_at[new, waits.approval] = then
        await self._new(new)

    async def _switch(self, where: Where, number: int) -> None:
        self.session = self.sessions[number % len(self.sessions)]

    async def _change(self, where: Where, number: int) -> None:
        """Change a tool's description, the guard's question or the rule."""
        if number % 4 < 2:
            self.words = number % 4
        elif number % 4 == 2:
            self.guard = ("", "dear", "dearer")[number % 3]
        else:
            self.rule = number % 8 == 3

    async def _mode(self, where: Where, number: int) -> None:
        if where == "editor":
            await (await self._editor()).set_mode(("ask", "accept-edits")[number % 2])
        else:
            self.mode = ("ask", "accept", "allow", "deny")[number % 4]


# -- the processes -----------------------------------------------------------------------------------------------------


@dataclass
class Member:
    """One process: an agent, and for the page its application."""

    deep: DeepAgent
    client: httpx.AsyncClient | None = None
    runs: Sessions | None = None

    async def post(self, path: str, body: Mapping[str, Any]) -> int:
        """Ask the page's server."""
        assert self.client is not None
        answer = await self.client.post(path, json=dict(body), headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code < 500, answer.text
        return answer.status_code

    async def fork(self, session: str, at: int | None) -> str | None:
        """Fork on the page; return the new session."""
        assert self.client is not None
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = await self.client.post(f"/api/sessions/{session}/fork", json={"at": at}, headers=headers)
        return answer.json()["id"] if answer.status_code == 201 else None

    async def work(self, session: str) -> None:
        """Do what waits, as a worker."""
        await deep_durable.finish(self.deep, session)


current: list[World] = []
"""The world in which the tools of all processes act; the last one counts."""


class Agents:
    """The processes on one store, made once: what changes around them is looked up when it matters."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.numbers = count(1)
        self._members: dict[tuple[str, int, bool], Member] = {}
        self._servers: dict[tuple[int, bool], Any] = {}
        self._open = AsyncExitStack()

    def new_id(self) -> str:
        """Return an id for a session."""
        return f"session-{next(self.numbers)}"

    async def of(self, world: World, where: Where) -> Member:
        """Return the process of an interface, with the tools and rules of now."""
        kind = {"terminal": "one", "agent": "one", "served": "one", "client": "page"}.get(where, where)
        key = (kind, world.words, world.rule)
        if key not in self._members:
            self._members[key] = await self._made(*key)
        return self._members[key]

    async def server(self, world: World) -> Any:
        """Return the client of the tools as an MCP server, with the tools and rules of now."""
        key = (world.words, world.rule)
        if key not in self._servers:
            self._servers[key] = await self._open.enter_async_context(serving(current, *key))
        return self._servers[key]

    async def _made(self, kind: str, words: int, rule: bool) -> Member:
        def act(ctx: RunContext[Any], x: int) -> str:
            current[-1].run(ctx.deps.session_id, ctx.tool_call_id or "", "act", {"x": x})
            return "did"

        def save(ctx: RunContext[Any], path: str, content: str, x: int = -1) -> str:
            args = {"path": path, "content": content} | ({"x": x} if x >= 0 else {})
            current[-1].run(ctx.deps.session_id, ctx.tool_call_id or "", "save", args)
            return "saved"

        def check(call: ToolCall, context: Any) -> Ask | None:
            return Ask(current[-1].guard) if current[-1].guard else None

        tools = [
            Tool(act, description=f"Acts, as of {words}.", requires_approval=True),
            Tool(save, description=f"Saves, as of {words}.", metadata={"tags": ["write"]}),
        ]
        acting = plugin("acting", toolsets=[FunctionToolset(tools, id="acting")])
        plugins = [deep_sessions, deep_backends, deep_web, acting, plugin("guard", check_call=check)]
        kernel = Kernel(plugins=plugins, discover=False)
        self._open.callback(kernel.close)
        deps = AgentDeps(model=_model(), session_store=self.store, kernel=kernel)
        deep = await DeepAgent.create(deps=deps, interrupt_on={"save": True} if rule else {})
        self._open.push_async_callback(deep.close)
        if kind not in ("page", "editor"):
            return Member(deep)
        runs = await self._open.enter_async_context(Sessions(deep))
        if kind == "editor":
            return Member(deep, None, runs)
        app = create_app(partial(_opened, Site(runs, kernel, _workspace)), token=TOKEN)
        await self._open.enter_async_context(app.router.lifespan_context(app))
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
        return Member(deep, await self._open.enter_async_context(client), runs)

    async def settle(self, session: str) -> None:
        """Wait until no process runs the session."""
        for member in self._members.values():
            if member.runs is not None and session:
                try:
                    await member.runs.wait(session)
                except AgentError:
                    continue

    async def close(self) -> None:
        """End the processes."""
        await self._open.aclose()


class _Project:
    """What an editor's session needs of its folder: the agent of now, and its decisions seen."""

    folder = "/work"
    models = ("scripted",)

    def __init__(self, world: World) -> None:
        self._world = world
        self.store = world.agents.store
        self.plugin = SimpleNamespace(listeners=dict[str, Any]())
        self.agents = SimpleNamespace(labels=lambda choice: {})  # pyright: ignore[reportUnknownLambdaType]

    async def sessions(self, choice: AgentChoice) -> Any:
        """Return the sessions."""
        member = await self._world.agents.of(self._world, "editor")
        assert member.runs is not None
        return _Watched(self._world, member.runs)

    def backend_of(self, session: str) -> MemoryBackend:
        """Return the files."""
        return MemoryBackend()

    def model_of(self, runs: Any) -> None:
        """Return the model: none that says what it takes."""

    def commands(self) -> Mapping[str, Any]:
        """Return the commands of plugins."""
        return {}


class _Watched:
    """Sessions whose decisions the world judges before they count."""

    def __init__(self, world: World, runs: Sessions) -> None:
        self._world = world
        self._runs = runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)

    async def decide(self, session: str, results: DeferredToolResults, *, approval: str) -> None:
        """Judge, and decide."""
        try:
            grants = await self._world.judge(session, results)
        except AssertionError as error:  # the editor would say that the run failed
            self._world.problems.append(str(error))
            raise
        try:
            await self._runs.decide(session, results, approval=approval)
        except AgentError:
            self._world.take_back(grants)
            raise


async def _see(session: str, update: Any) -> None:
    """The editor shows an update."""


@asynccontextmanager
async def _opened(site: Site) -> AsyncGenerator[Site]:
    yield site


@asynccontextmanager
async def _workspace(session: str) -> AsyncGenerator[MemoryBackend]:
    yield MemoryBackend()


def _said(messages: list[ModelMessage]) -> ToolCallPart | str:
    last = messages[-1].parts[-1]
    if last.part_kind != "user-prompt" or not isinstance(last.content, str) or last.content.count(" ") != 2:
        return "done"
    tool, number, call_id = last.content.split(" ")
    args = {"x": int(number)} if tool == "act" else {"path": f"file{number}", "content": "words"}
    return ToolCallPart(tool, args, call_id)


def _model() -> FunctionModel:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = _said(messages)
        return ModelResponse([TextPart(said) if isinstance(said, str) else said])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        said = _said(messages)
        if isinstance(said, str):
            yield said
        else:
            yield {0: DeltaToolCall(said.tool_name, said.args_as_json_str(), tool_call_id=said.tool_call_id)}

    return FunctionModel(answer, stream_function=stream, model_name="scripted")
