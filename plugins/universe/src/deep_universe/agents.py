"""The tools of an agent outside its conversations: listed, and called one by one under the agent's policy."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from pydantic_ai import Agent, DeferredToolRequests, ToolDefinition, ToolDenied
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import MultiModalContent, ToolCallPart, ToolReturnPart
from pydantic_ai.run import AgentRunResult
from pydantic_ai.usage import UsageLimits
from pydantic_ai.workspaces import WorkspaceBackend

from deep_core import DeepAgentDeps, create_default_deps
from deep_core.plugin_api import Reason, describe_error, reasons_of, suggest, words_of

from .errors import ToolNotFoundError
from .scripted import Script, ScriptedModel

__all__ = ["AgentTools", "Approve", "CallOutcome", "ToolSession", "WaitingCall", "agent_tools"]

NOT_HERE = "Not executed: the application runs this tool, and it is not here."
UNANSWERED = (
    "This call needs an approval, and nobody is here who can give it. Do not repeat it; continue without it, or say "
    "what remains."
)
REFUSED = "The user refused this call. Do not repeat it; continue without it, or say what you need."


@dataclass(frozen=True, kw_only=True)
class WaitingCall:
    """A call that waits for an approval.

    Attributes:
        tool: the tool.
        plugin: its plugin; `app` for the application's own.
        arguments: the arguments that the call would run with.
        reasons: why it asks, each with its class.
        subagent: the type of the subagent that makes the call, outermost first (`reviewer > explorer`); empty for a
            call of the agent itself.
        identity: the tool as it is now; empty if nothing says it.
    """

    tool: str
    plugin: str
    arguments: Mapping[str, Any]
    reasons: tuple[Reason, ...] = ()
    subagent: str = ""
    identity: str = ""

    @property
    def reason(self) -> str:
        """All reasons, in words."""
        return words_of(self.reasons)


@dataclass(frozen=True, kw_only=True)
class CallOutcome:
    """What came of one call.

    Attributes:
        tool: the tool.
        status: `done`; `failed` (also by policy, or by wrong arguments); `refused` (an approval was denied or nobody
            was asked); `waiting` (for an approval: `ToolSession.decide` continues).
        text: what a model would read; empty while the call waits.
        value: what the tool returned, after the plugins that redact; None if it failed.
        files: images, audio and other files that the tool returned.
        waiting: the calls that wait for a decision: the call itself, or those of its subagent.
        error: the exception that ended the run; None for results that a model would read.
        paused: the run that waits; for `ToolSession.decide`.
    """

    tool: str
    status: Literal["done", "failed", "refused", "waiting"]
    text: str = ""
    value: Any = None
    files: Sequence[MultiModalContent] = ()
    waiting: Sequence[WaitingCall] = ()
    error: Exception | None = None
    paused: Paused | None = field(default=None, repr=False, compare=False)


Approve: TypeAlias = Callable[[CallOutcome], Awaitable[bool | str]]
"""Decides on an outcome that waits: True approves, False refuses, a text refuses with this reason for the model."""


@dataclass(frozen=True)
class Paused:
    """A run that waits for a decision. It continues once."""

    session: ToolSession
    script: Script
    result: AgentRunResult[Any]
    requests: DeferredToolRequests


class AgentTools:
    """The tools of one agent.

    Attributes:
        agent: the agent.
        definitions: every tool that it offers, those on demand included.
        backend: the workspace of all its sessions; None if the agent has none.
    """

    def __init__(
        self, agent: Agent[Any, Any], definitions: Sequence[ToolDefinition], backend: WorkspaceBackend | None
    ) -> None:
        self.agent = agent
        self.definitions = tuple(definitions)
        self.backend = backend

    def session(self, deps: object = None) -> ToolSession:
        """Begin a session: what tools remember, such as todos, lasts as long as it does.

        Args:
            deps: the agent's deps; None makes a session of its own, in the shared workspace.
        """
        return ToolSession(self, create_default_deps(self.backend) if deps is None else deps)

    def require(self, name: str) -> ToolDefinition:
        """Return a tool.

        Raises:
            ToolNotFoundError: the agent offers no such tool.
        """
        for definition in self.definitions:
            if definition.name == name:
                return definition
        hint = suggest(name, [definition.name for definition in self.definitions])
        raise ToolNotFoundError(f"the agent has no tool {name!r}.{hint}")


@asynccontextmanager
async def agent_tools(agent: Agent[Any, Any], deps: object = None) -> AsyncGenerator[AgentTools]:
    """List the tools of an agent, and keep its toolsets open, such as connections to MCP servers.

    Args:
        agent: of `create_deep_agent`, or any other.
        deps: the deps of the run that lists the tools; None makes a session.

    Raises:
        Exception: whatever a run of the agent raises before its first request.
    """
    async with agent:
        script = Script()
        used = create_default_deps() if deps is None else deps
        await _run(agent, script, "List the tools.", deps=used)
        yield AgentTools(agent, script.offered, used.backend if isinstance(used, DeepAgentDeps) else None)


class ToolSession:
    """Calls in one session of the agent. Calls at the same time wait for each other: a session has one run at a time.

    Attributes:
        tools: the agent's tools.
        deps: the session.
    """

    def __init__(self, tools: AgentTools, deps: object) -> None:
        self.tools = tools
        self.deps = deps
        self._one_run = asyncio.Lock()

    async def call(self, name: str, arguments: Mapping[str, Any], approve: Approve | None = None) -> CallOutcome:
        """Call a tool as the agent's model would: validation, policy, approvals, events and redaction apply.

        Args:
            name: the tool.
            arguments: its arguments, not validated.
            approve: decides on calls that ask; without it the outcome is `waiting`.

        Raises:
            ToolNotFoundError: the agent offers no such tool.
        """
        self.tools.require(name)
        script = Script(name, arguments, f"call-{uuid.uuid4().hex}")
        outcome = await self._continue(script, name, f"Call {name}.")
        while approve is not None and outcome.status == "waiting":
            outcome = await self.decide(outcome, await approve(outcome))
        return outcome

    async def decide(self, outcome: CallOutcome, decision: bool | str) -> CallOutcome:
        """Continue a call that waits.

        Args:
            outcome: of this session, with the status `waiting`. Decide once.
            decision: True approves, False refuses, a text refuses with this reason.

        Raises:
            ValueError: the call does not wait, or waits in another session.
        """
        paused = outcome.paused
        if paused is None or paused.session is not self:
            raise ValueError(f"the call of {outcome.tool} does not wait in this session")
        answer = True if decision is True else ToolDenied(decision if isinstance(decision, str) else REFUSED)
        results = paused.requests.build_results(
            approvals={call.tool_call_id: answer for call in paused.requests.approvals},
            calls={call.tool_call_id: NOT_HERE for call in paused.requests.calls},
        )
        return await self._continue(
            paused.script,
            outcome.tool,
            None,
            message_history=paused.result.all_messages(),
            deferred_tool_results=results,
            usage=paused.result.usage,
        )

    async def refuse(self, outcome: CallOutcome, reason: str = UNANSWERED) -> CallOutcome:
        """Refuse a call that waits, and whatever it then asks for."""
        while outcome.status == "waiting":
            outcome = await self.decide(outcome, reason)
        return outcome

    async def _continue(self, script: Script, name: str, prompt: str | None, **more: Any) -> CallOutcome:
        async with self._one_run:
            try:
                result = await _run(self.tools.agent, script, prompt, deps=self.deps, **more)
            except Exception as error:  # noqa: BLE001 - the outcome holds the error that ended the run
                return CallOutcome(tool=name, status="failed", text=_explain(error), error=error)
        if isinstance(result.output, DeferredToolRequests):
            requests = result.output
            paused = Paused(self, script, result, requests)
            if not requests.approvals:
                return await self.decide(CallOutcome(tool=name, status="waiting", paused=paused), True)
            return CallOutcome(tool=name, status="waiting", waiting=tuple(_waiting(requests)), paused=paused)
        return _outcome(name, script)


async def _run(agent: Agent[Any, Any], script: Script, prompt: str | None, **more: Any) -> AgentRunResult[Any]:
    return await agent.run(
        prompt,
        model=ScriptedModel(script, agent.model),
        # The script ends with a text, whatever the agent's own output is.
        output_type=[str, DeferredToolRequests],
        usage_limits=UsageLimits(request_limit=None),
        **more,
    )


def _outcome(name: str, script: Script) -> CallOutcome:
    part = script.answer
    if part is None:
        hint = suggest(name, [definition.name for definition in script.offered])
        return CallOutcome(tool=name, status="failed", text=f"The agent does not offer {name!r} now.{hint}")
    if not isinstance(part, ToolReturnPart):  # older versions of Pydantic AI: a prompt to try again
        return CallOutcome(tool=name, status="failed", text=str(cast("Any", part).model_response()))
    text = part.model_response_str(wrap_if_error=False)
    if part.outcome != "success":
        return CallOutcome(tool=name, status="refused" if part.outcome == "denied" else "failed", text=text)
    return CallOutcome(tool=name, status="done", text=text, value=part.content, files=tuple(part.files))


def _explain(error: Exception) -> str:
    # With retries=0, a tool that asks for a retry ends the run: the exception's name says nothing about it.
    return str(error) if isinstance(error, UnexpectedModelBehavior) else describe_error(error)


def _waiting(requests: DeferredToolRequests) -> Iterator[WaitingCall]:
    for call in requests.approvals:
        yield from _leaves(_facts(call, requests.metadata.get(call.tool_call_id, {})))


def _facts(call: ToolCallPart, metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    # If a hook changed the arguments, the kernel puts those that would run under `args`.
    return {"args": call.args_as_dict(), **metadata, "tool": call.tool_name}


def _leaves(call: Mapping[str, Any], above: str = "") -> Iterator[WaitingCall]:
    """List the calls to decide: a `task` call waits for those of its subagent (`deep_subagents.decide`)."""
    if "subagent" in call:
        below = f"{above} > {call['subagent']}" if above else str(call["subagent"])
        for inner in call["calls"]:
            yield from _leaves(inner, below)
        return
    yield WaitingCall(
        tool=call["tool"],
        plugin=str(call.get("plugin", "app")),
        arguments=call["args"],
        reasons=reasons_of(call),
        identity=str(call.get("identity", "")),
        subagent=above,
    )
