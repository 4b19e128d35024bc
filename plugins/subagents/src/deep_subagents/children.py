"""Run a subagent: its session, its run, and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError
from pydantic_ai import Agent, ConversationTypeAdapter, DeferredToolRequests, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, RunTimedOut, ToolFailed, UsageLimitExceeded
from pydantic_ai.usage import UsageLimits
from pydantic_core import to_json

from deep_core import DeepAgentDeps, SessionState
from deep_core.plugin_api import PolicyCapability, call_path

from .approvals import answers, questions_of, waiting_metadata
from .budget import RequestBudget
from .options import SubagentsOptions
from .paused_child import PausedChild, calling_run
from .slots import PAUSED

if TYPE_CHECKING:
    import logging

    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.run import AgentRunResult

__all__ = ["Child"]

ERROR_CHARS = 500
"""Maximum characters of an error for the caller's model."""


@dataclass(frozen=True)
class Child:
    """An agent that can get a task.

    Attributes:
        name: its type.
        agent: what runs.
        prepared: whether the application created it; else it was created from a type, with its caller's policy.
        own_model: whether it has its own model; else it uses the model of its caller's run.
        options: its limits.
        logger: logs failures.
    """

    name: str
    agent: AbstractAgent[Any, Any]
    prepared: bool
    own_model: bool
    options: SubagentsOptions
    logger: logging.Logger

    async def start(self, ctx: RunContext[DeepAgentDeps[Any]], description: str) -> str:
        """Start a new task; return its report.

        Raises:
            ApprovalRequired: it waits for an approval, and can be resumed.
            ToolFailed: it failed; the text says what the caller can do.
        """
        deps = ctx.deps.clone_for_subagent()
        result = await self._continue(ctx, deps)
        if result is None:
            result = await self._run(ctx, deps, description)
        return await self._finish(ctx, deps, description, result)

    async def resume(self, ctx: RunContext[DeepAgentDeps[Any]], paused: PausedChild) -> str:
        """Resume after a wait; the decisions are in the call's metadata. Raises as `start` does."""
        try:
            conversation = ConversationTypeAdapter.validate_json(paused.conversation)
        except ValidationError as error:
            raise ToolFailed(
                f"Subagent {self.name!r} cannot resume: its stored state is not readable. Start it again."
            ) from error
        # Always restore its session from the store, so that resuming is the same in any process.
        state = SessionState(stored=paused.state, parent=ctx.deps.state)
        state.bind(ctx.deps.state.kernel)
        deps = replace(ctx.deps.clone_for_subagent(), state=state)
        requests = conversation.deferred_tool_requests or DeferredToolRequests()
        result = await self._continue(ctx, deps)
        if result is None:
            result = await self._run(
                ctx,
                deps,
                None,
                message_history=conversation.messages,
                deferred_tool_results=answers(requests, ctx.tool_call_metadata),
            )
        return await self._finish(ctx, deps, paused.description, result)

    async def _continue(self, ctx: RunContext[Any], deps: DeepAgentDeps[Any]) -> AgentRunResult[Any] | None:
        """Continue the run that the session's journal has for this call, after a crash; None if it has none."""
        journal = ctx.deps.state.get("session_journal")  # of deep-sessions
        stored = journal.unfinished_child() if journal is not None else None
        if stored is None:
            return None
        deps.state = stored.session(ctx.deps.state)
        deps.state.bind(ctx.deps.state.kernel)
        return await self._run(ctx, deps, None, message_history=stored.messages)

    async def _finish(
        self,
        ctx: RunContext[DeepAgentDeps[Any]],
        deps: DeepAgentDeps[Any],
        description: str,
        result: AgentRunResult[Any],
    ) -> str:
        while isinstance(result.output, DeferredToolRequests):
            requests = result.output
            if requests.approvals or questions_of(requests):
                self._pause(ctx, deps, description, result, requests)
            # Only other external calls wait: answer that they are impossible, and continue.
            result = await self._run(
                ctx,
                deps,
                None,
                message_history=result.all_messages(),
                deferred_tool_results=answers(requests, None),
            )
        return self._report(result.output)

    def _pause(
        self,
        ctx: RunContext[DeepAgentDeps[Any]],
        deps: DeepAgentDeps[Any],
        description: str,
        result: AgentRunResult[Any],
        requests: DeferredToolRequests,
    ) -> None:
        call_id, run = ctx.tool_call_id or "", calling_run(ctx)
        ctx.deps.state[PAUSED][call_path(str(run), call_id)] = PausedChild(
            subagent_type=self.name,
            description=description,
            conversation=ConversationTypeAdapter.dump_json(result.conversation).decode(),
            state=deps.state.dump(),
            owner=ctx.conversation_id,
            call_id=call_id,
            calling_run=run,
        )
        raise ApprovalRequired(metadata=waiting_metadata(self.name, call_id, requests))

    def _report(self, output: object) -> str:
        text = output if isinstance(output, str) else to_json(output, fallback=str, serialize_unknown=True).decode()
        limit = self.options.max_result_chars
        if len(text) > limit:
            return f"{text[:limit]}\n[{len(text) - limit} more characters of the report omitted]"
        return text.strip() or "The subagent ended without a report."

    # -- the run -------------------------------------------------------------------------------------------------------

    async def _run(
        self, ctx: RunContext[DeepAgentDeps[Any]], deps: DeepAgentDeps[Any], prompt: str | None, **how: Any
    ) -> AgentRunResult[Any]:
        how.update(self._output_type())
        if self.prepared:
            how.update(capabilities=self._capabilities(ctx))
        if not self.own_model:
            how["model"] = ctx.model
        # Cancellation passes: it is not an Exception, and it ends the child because its run is awaited here.
        try:
            return await self.agent.run(
                prompt, deps=deps, usage=ctx.usage, usage_limits=_limits(ctx), timeout=self.options.timeout, **how
            )
        except RunTimedOut as error:
            seconds = self.options.timeout
            within = f" within {seconds:g} seconds" if seconds is not None else " in time"
            raise self._failure(error, f"was stopped: it did not finish{within}") from error
        except UsageLimitExceeded as error:
            raise self._failure(error, f"was stopped: {_text(error)}") from error
        except Exception as error:  # any failure of a child is a result for its caller
            raise self._failure(error, f"failed: {type(error).__name__}: {_text(error)}") from error

    def _failure(self, error: Exception, what: str) -> ToolFailed:
        self.logger.info("subagent %s %s", self.name, what, exc_info=error)
        return ToolFailed(
            f"Subagent {self.name!r} {what}. Its changes remain. Give it a smaller or clearer task, "
            "or continue without it."
        )

    def _capabilities(self, ctx: RunContext[Any]) -> list[AbstractCapability[Any]]:
        """The caller's gate, if a prepared agent has none, and the budget."""
        out: list[AbstractCapability[Any]] = []
        if not _gates(self.agent.root_capability) and ctx.root_capability is not None:
            out += [gate.alone() for gate in _gates(ctx.root_capability)]
        if self.options.request_limit is not None:
            out.append(RequestBudget(limit=self.options.request_limit))
        return out

    def _output_type(self) -> dict[str, Any]:
        """Let an agent end with a request for approval if a caller's rules ask, even if its own never do.

        Pydantic AI rejects that with output validators.
        """
        kind: Any = self.agent.output_type
        outputs: list[Any] = list(cast("Sequence[Any]", kind)) if isinstance(kind, list | tuple) else [kind]
        has_validators = isinstance(self.agent, Agent) and cast("Any", self.agent)._output_validators
        if has_validators or DeferredToolRequests in outputs:
            return {}
        return {"output_type": [*outputs, DeferredToolRequests]}


def _gates(root: AbstractCapability[Any]) -> list[PolicyCapability]:
    """The policies among the capabilities of an agent or a run, which may have its own."""
    capabilities: list[AbstractCapability[Any]] = []
    root.apply(capabilities.append)
    return [capability for capability in capabilities if isinstance(capability, PolicyCapability)]


def _limits(ctx: RunContext[Any]) -> UsageLimits:
    """The run's limits minus one request, so that its caller can answer when a child used the rest."""
    limits = ctx.usage_limits or UsageLimits()
    if limits.request_limit is None:
        return limits
    return replace(limits, request_limit=max(0, limits.request_limit - 1))


def _text(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{text[:ERROR_CHARS]}…" if len(text) > ERROR_CHARS else text
