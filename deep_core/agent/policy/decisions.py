"""The two verbs of a policy: `decide` on a call outside everything, `verify` at the tool that it is still that call."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import ValidationError
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
from tool_expressions import RULE, SAYS, Reason, identity_of, reasons_of, tool_facts, words_of

from ...errors import reraise_control
from ...plugins.contributions import Deny, Predicate, StateSlot, ToolCall
from ..run.observers import Observers, where
from ..run.session import session
from .approvals import Question, args_in_history, copy_args, digest_args, jsonable, remember_question, take_question
from .catalog import Asks, Catalog
from .rules import Rules

if TYPE_CHECKING:
    from pydantic_ai import ToolDefinition

    from ..run.session import Args, Ctx

CHANGED = "the tool changed after you were asked"
NO_CALL_WAITS = "a rule asks for approval, and with interrupt_on=False no call can wait for it"
STANDING = ("rule", "write", "command", "tool")
"""The classes of what is true of every call of a tool, which says nothing of this one."""
Said = Literal["asked", "approved", "denied"]
CheckCall: TypeAlias = "Callable[[Ctx, ToolCall], Awaitable[Deny | list[Reason]]]"


@dataclass(eq=False)
class Decision:
    """A call that `decide` let through, for `verify`.

    Attributes:
        policy: who decided.
        call_id: the call's id.
        tool: `plugin:tool`.
        digests: of the arguments that it may run with.
        answered: the question that a person answered with yes, whose call runs only once; None for any other call.
        reasons: why it asks.
        used: whether it has run.
        asked: digests of arguments that `verify` asked about.
    """

    policy: Policy
    call_id: str
    tool: str
    digests: frozenset[str]
    answered: Question | None = None
    reasons: tuple[Reason, ...] = ()
    used: bool = False
    asked: set[str] = field(default_factory=set[str])

    def covers(self, policy: Policy, call_id: str, tool: str, digest: str) -> bool:
        """Whether this is the call that was decided on, and an approved one has not run yet."""
        same = self.policy is policy and self.call_id == call_id and self.tool == tool
        return same and digest in self.digests and not (self.answered and self.used)


decided: ContextVar[Decision | None] = ContextVar("deep_decided", default=None)
"""What `decide` said of the call in this task."""


@dataclass(eq=False, repr=False)
class RunCalls:
    """The calls of one run.

    Attributes:
        run_id: the run.
        policy: the run's policy; None without a run.
        above: the policies of its callers that this one does not include.
        own: final name -> the definition that the kernel attributed for this run.
        answers: approved call -> the arguments that the person wrote instead, as JSON; None for the original ones.
        handed: call that was given to a named approver -> its arguments, as JSON.
    """

    run_id: str = ""
    policy: Policy | None = None
    above: tuple[Policy, ...] = ()
    own: dict[str, ToolDefinition] = field(default_factory=dict[str, "ToolDefinition"])
    answers: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    handed: dict[str, str] = field(default_factory=dict[str, str])


NO_RUN = RunCalls()
"""Of every session between its runs. Nothing is written to it: `calls_of` gives it to nobody."""
RUN: StateSlot[RunCalls] = StateSlot("deep_run", RunCalls, RunCalls, persist=False)
"""The calls of the run that holds the session; an empty record without one."""


def calls_of(ctx: Ctx) -> RunCalls:
    """Return the run's record; outside a run an empty one, because nothing is approved there."""
    calls = session(ctx).state[RUN]
    return calls if calls.policy is not None and calls.run_id == ctx.run_id else RunCalls()


@dataclass(eq=False, repr=False)
class Policy:
    """The policy of one agent.

    Attributes:
        rules: what the application and the configuration say.
        tools: the agent's tools, as the rules see them.
        check_call: calls the plugins' `deep_check_call`; None if none implements it.
        check_asking: the same, of plugins that ask inside of a call: only of calls that ask or were approved.
        observers: hear who was asked, and what was approved or denied.
        parent: of a subagent that a kernel made: its caller's policy, whose rules this one includes.
    """

    rules: Rules
    tools: Catalog
    check_call: CheckCall | None = None
    observers: Observers = field(default_factory=Observers)
    parent: Policy | None = None
    check_asking: CheckCall | None = None

    @property
    def asks(self) -> bool:
        """Whether a call can wait for approval. With `interrupt_on=False` none can: a call that would ask is denied."""
        return self.rules.asks

    def asks_statically(self, definition: ToolDefinition) -> Asks:
        """Return how a tool asks, as far as its call does not matter."""
        return self.tools.of(definition).how

    async def decide(self, ctx: Ctx, calls: RunCalls, definition: ToolDefinition, args: Args) -> Decision | None:
        """Decide on a call, outside everything that could change or answer it. Only here an approval counts.

        Args:
            ctx: the call's context.
            calls: the run's calls.
            definition: the attributed tool.
            args: the validated arguments that the tool would receive.

        Returns:
            What `verify` compares the call with; None if no rule can apply to this tool.

        Raises:
            ApprovalRequired: a person must decide.
            ToolFailed: the call is denied; the model reads the reason.
        """
        if not ctx.tool_call_approved and self._is_free(definition, calls):
            return None
        tool, digest = tool_facts(definition).key, digest_args(args)
        asked = self._answered(ctx, calls, definition, digest)
        decision = Decision(self, ctx.tool_call_id or "", tool, frozenset(asked.digests if asked else (digest,)))
        if asked is not None and asked.tool != identity_of(definition):
            decision.reasons = (Reason("changed", CHANGED, tool_facts(definition).plugin),)
        else:
            decision.answered = asked
        decided.set(decision)
        await self._judge(ctx, calls, definition, args, decision, None)
        return decision

    async def verify(self, ctx: Ctx, calls: RunCalls, definition: ToolDefinition, args: Args) -> Decision | None:
        """Verify, at the tool, that this is the call that was decided on: that tool, those arguments, this once.

        Any other call is decided on here, and no approval counts for it.

        Returns:
            The decision; None if no rule can apply to this tool.

        Raises:
            ApprovalRequired: a person must decide.
            ToolFailed: the call is denied; the model reads the reason.
        """
        if not ctx.tool_call_approved and self._is_free(definition, calls):
            return None
        known, digest, call_id = decided.get(), digest_args(args), ctx.tool_call_id or ""
        tool = tool_facts(definition).key
        if known is None or not known.covers(self, call_id, tool, digest):
            outer, known = known, Decision(self, call_id, tool, frozenset((digest,)))
            await self._judge(ctx, calls, definition, args, known, outer)
        known.used = True
        return known

    def _is_free(self, definition: ToolDefinition, calls: RunCalls) -> bool:
        """Whether no rule and no check can apply to a tool, whatever its arguments."""
        said = self.tools.of(definition)
        return said.shown and said.how == "never" and self.check_call is None and not calls.above

    async def _judge(
        self, ctx: Ctx, calls: RunCalls, tool: ToolDefinition, args: Args, decision: Decision, outer: Decision | None
    ) -> None:
        """Ask all rules and checks about a call, and raise if it may not run, or not yet."""
        if decision.answered is None and not decision.reasons and self._is_free(tool, calls):
            return
        call = ToolCall.of(tool_facts(tool), copy_args(args), decision.call_id, session(ctx).depth)
        reasons = [*decision.reasons]
        for policy in (self, *calls.above):
            verdict = await policy.verdict(ctx, call, tool, answered=decision.answered is not None)
            if isinstance(verdict, Deny):
                await self.tell(ctx, call.tool, call.plugin, call.call_id, "denied", verdict.reason)
                raise ToolFailed(f"Denied: {verdict.reason}")
            reasons += verdict
        if not reasons:
            return
        decision.reasons = (*dict.fromkeys(reasons),)
        covered = decision.answered is not None and {*decision.reasons} <= {*decision.answered.reasons}
        said = "approved" if covered else "asked"
        await self.tell(ctx, call.tool, call.plugin, call.call_id, said, words_of(decision.reasons))
        if covered:
            return
        if outer is not None:
            outer.asked |= decision.digests  # the outer gate records them with the arguments that it decided on
        about: dict[str, object] = {"reasons": [reason._asdict() for reason in decision.reasons]}
        if _validated(ctx, tool, args_in_history(ctx)) not in decision.digests:
            about["args"] = jsonable(call.args)  # the call would run with other arguments than shown
        raise ApprovalRequired(about)

    async def verdict(
        self, ctx: Ctx, call: ToolCall, definition: ToolDefinition, *, answered: bool
    ) -> Deny | list[Reason]:
        """Return why a call asks: all reasons of the rules and of every plugin's check. With no way to ask, deny.

        Args:
            ctx: the call's context.
            call: the call.
            definition: its tool.
            answered: whether a person approved it. What was asked inside of the call is asked here then.
        """
        said = self.tools.of(definition)
        if not said.shown:
            return Deny(f"tool {call.tool!r} is not available in this run")
        reasons = [*said.reasons, *[Reason("rule", RULE) for each in said.predicates if await _true(each, call)][:1]]
        for check in (self.check_call, self.check_asking):
            if check is not None and (check is self.check_call or reasons or answered):
                more = await check(ctx, call)
                if isinstance(more, Deny):
                    return more
                reasons += more
        if self.asks or not reasons:
            return reasons
        return Deny(words_of([each for each in reasons if each.kind not in STANDING]) or NO_CALL_WAITS)

    def question(
        self, ctx: Ctx, definition: ToolDefinition, args: Args, decision: Decision | None, asks: ApprovalRequired
    ) -> ApprovalRequired:
        """Record the question that a call raised, its rules or its own code, and return it with every reason."""
        said, plugin, before = asks.metadata, tool_facts(definition).plugin, ()
        digests, identity = {digest_args(args)}, identity_of(definition)
        if decision is not None:
            digests, before = {*decision.digests, *decision.asked}, decision.reasons
        own = (Reason("tool", SAYS["tool"], plugin),) if said is None else reasons_of({"plugin": plugin, **said})
        reasons = [*dict.fromkeys((*before, *own))]
        remember_question(ctx, identity, digests, reasons)
        about: dict[str, object] = {"plugin": plugin, "identity": identity, "reason": words_of(reasons)}
        about["reasons"] = [each._asdict() for each in reasons]
        return ApprovalRequired({**about, **(said or {}), **about} if reasons else said)

    def _answered(self, ctx: Ctx, calls: RunCalls, definition: ToolDefinition, digest: str) -> Question | None:
        """Return the question that a person answered with yes for this call; None unless the session recorded it."""
        call_id, key, shown = ctx.tool_call_id or "", tool_facts(definition).key, args_in_history(ctx)
        if not ctx.tool_call_approved or call_id not in calls.answers or shown is None:
            return None
        instead = calls.answers.pop(call_id)
        # Of two calls with this id, the person wrote over the one that the history shows.
        asked = take_question(ctx, key, digest if instead is None else _validated(ctx, definition, shown))
        if instead is not None and (asked := asked or take_question(ctx, key, None)):
            asked = asked._replace(digests=[*filter(None, [_validated(ctx, definition, instead)])])
        return asked if asked is not None and digest in asked.digests else None

    async def tell(self, ctx: Ctx, tool: str, plugin: str, call_id: str, decision: Said, reason: str) -> None:
        """Tell the observers what was decided about a call."""
        if self.observers.listeners:
            from ..run.events import ApprovalEvent

            event = ApprovalEvent(
                **where(ctx), tool=tool, plugin=plugin, call_id=call_id, decision=decision, reason=reason
            )
            await self.observers.send(event)


def _validated(ctx: Ctx, definition: ToolDefinition, args: str | None) -> str | None:
    """Return the digest of validated arguments; None if they are invalid or absent."""
    tool = ctx.tool_manager.tools.get(definition.name) if ctx.tool_manager and ctx.tool_manager.tools else None
    if tool is None or args is None:
        return None
    try:
        return digest_args(tool.args_validator.validate_json(args or "{}", context=ctx.validation_context))
    except ValidationError:
        return None


async def _true(predicate: Predicate, call: ToolCall) -> bool:
    try:
        result = predicate(call)
        return bool(await result if inspect.isawaitable(result) else result)
    except BaseException as error:
        reraise_control(error)
        # Fail closed: if a predicate raises, a person decides.
        error.add_note(f"interrupt_on predicate for {call.tool}; the call asks")
        logging.getLogger("deep_core").warning("interrupt_on predicate for %s failed", call.tool, exc_info=error)
        return True
