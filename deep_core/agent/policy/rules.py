"""The policy of one agent: which tools the model sees, which calls ask, which are denied. `gates.py` applies it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias, cast

from pydantic import ValidationError
from pydantic_ai import ToolDefinition
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed, UserError
from pydantic_ai.tools import RunContext
from tool_expressions import ToolExpression, as_expression, check_atoms, check_matches, find_slips, tool_facts

from ...errors import reraise_control, suggest, warn
from ...plugins.contributions import Allow, Ask, Deny, ToolCall, Verdict
from ..run.session import session
from .approvals import (
    Admission,
    RunCalls,
    args_in_history,
    copy_args,
    digest_args,
    jsonable,
    remember_question,
    take_question,
)

NO_CALL_WAITS = "a rule asks for approval, and with interrupt_on=False no call can wait for it"

Predicate: TypeAlias = Callable[[ToolCall], bool | Awaitable[bool]]
InterruptOn: TypeAlias = "bool | str | ToolExpression | Mapping[str, bool | Predicate]"
"""Which calls ask: tool name -> True, False or a predicate; or one expression; False for none."""

admitted_call: ContextVar[Admission | None] = ContextVar("deep_admitted_call", default=None)
"""The call that the outer gate admitted in this task."""


async def _tell_no_one(event: str, ctx: RunContext[Any], **about: Any) -> None:
    return


@dataclass(eq=False, repr=False)
class Policy:
    """The rules of one agent, and the decision on a call.

    Attributes:
        interrupt_on: see `InterruptOn`.
        shown: the model sees, and may call, only tools that all of these match.
        ask_by_default: every tool asks.
        narrowing: `interrupt_on` rules of untrusted layers, which can only add.
        check_call: calls the plugins' `deep_check_call`; None if none implements it.
        emit: sends events to the plugins that listen, as `Assembly.emit` does.
        parent: of a subagent that a kernel made: its caller's policy, whose rules this one includes.
    """

    interrupt_on: InterruptOn = field(default_factory=dict[str, Any])
    shown: tuple[ToolExpression, ...] = ()
    ask_by_default: bool = False
    narrowing: tuple[InterruptOn, ...] = ()
    check_call: Callable[[RunContext[Any], ToolCall], Awaitable[Verdict]] | None = None
    emit: Callable[..., Awaitable[None]] = _tell_no_one
    parent: Policy | None = None
    _replaced: dict[tuple[str, str], ToolDefinition] = field(default_factory=dict[Any, Any])
    _replacers: dict[str, list[tuple[str, str]]] = field(default_factory=dict[Any, Any])
    _pending: dict[tuple[str, str], list[ToolDefinition]] | None = field(default_factory=dict[Any, Any])
    _static: dict[str, tuple[ToolDefinition, bool, str]] = field(default_factory=dict[Any, Any])

    def __post_init__(self) -> None:
        self._rules: list[Mapping[str, bool | Predicate] | ToolExpression | bool] = [
            self._rule(rule) for rule in (self.interrupt_on, *self.narrowing)
        ]

    @staticmethod
    def _rule(rule: object) -> Mapping[str, bool | Predicate] | ToolExpression | bool:
        if isinstance(rule, str | ToolExpression):
            return as_expression(rule)
        # Any other true value would look like a rule and ask about nothing.
        if not isinstance(rule, bool | Mapping):
            raise UserError(
                "interrupt_on is {tool name: True, False or a predicate}, one expression, or False; this is of type "
                f"{type(rule).__name__}"
            )
        for name, answer in cast("Mapping[object, object]", rule).items() if isinstance(rule, Mapping) else ():
            if not isinstance(name, str) or not (isinstance(answer, bool) or callable(answer)):
                raise UserError(f"interrupt_on: {name!r}: {answer!r} is not True, False or a predicate on the call")
        return cast("Mapping[str, bool | Predicate] | bool", rule)

    @property
    def asks(self) -> bool:
        """Whether a call can wait for approval. With `interrupt_on=False` none can: a call that would ask is denied."""
        return self.interrupt_on is not False

    @property
    def has_rules(self) -> bool:
        """Whether a rule names tools, so that it must be checked against the existing ones."""
        expressions = bool(self.shown) or any(isinstance(rule, ToolExpression) for rule in self._rules)
        return expressions or any(rule for rule in self._rules if isinstance(rule, Mapping))

    # -- what there is -------------------------------------------------------------------------------------------

    def replacing(self, plugin: str, other: str, tool: str) -> None:
        """Record that `plugin`'s tool replaces `other`'s of that original name, whose approval rules still apply."""
        self._replacers.setdefault(plugin, []).append((other, tool))

    def replaced(self, plugin: str, definition: ToolDefinition) -> None:
        """Record the definition of a replaced tool."""
        self._replaced[plugin, tool_facts(definition).original] = definition

    def seen(self, toolset: tuple[str, str], definitions: Sequence[ToolDefinition]) -> None:
        """Collect the tools of a toolset (plugin, label) until the rules have been checked once."""
        pending = self._pending  # read once: a run in another thread may finish the check meanwhile
        if pending is not None:
            pending[toolset] = list(definitions)

    @property
    def is_checked(self) -> bool:
        """Whether the rules have been checked against the tools."""
        return self._pending is None

    def trust_names(self) -> None:
        """Skip the check: the parent agent has checked these rules."""
        self._pending = None

    def check_listed(self, definitions: Sequence[ToolDefinition]) -> None:
        """Run `check_names` with a run's tools until it passes once: some tools are known only in a run."""
        pending = self._pending
        if pending is not None:
            listed = [definition for definitions in [*pending.values()] for definition in definitions]
            self.check_names([*definitions, *listed])

    def check_names(self, definitions: Sequence[ToolDefinition]) -> None:
        """Check that every rule, and each part of an `interrupt_on` rule, matches a tool: a misspelt one does nothing.

        Raises:
            UserError: a rule matches no tool; with a suggestion.
        """
        # Rules may name a replaced tool: its approvals still apply.
        subjects = [tool_facts(definition) for definition in (*definitions, *self._replaced.values())]
        for expression in self.shown:
            check_matches(expression, subjects, where="tool_filter")
            for slip in find_slips(expression, subjects, where="tool_filter"):
                warn(slip)
        for rule in self._rules:
            if isinstance(rule, ToolExpression):
                check_matches(rule, subjects, where="interrupt_on")
                check_atoms(rule, subjects, where="interrupt_on")
            elif isinstance(rule, Mapping):
                known = {name for subject in subjects for name in subject.names}
                for name in rule:
                    if name not in known:
                        have = f" Tools: {', '.join(sorted(known))}." if known else " There are no tools."
                        raise UserError(f"interrupt_on: there is no tool {name!r}.{suggest(name, known) or have}")
        self._pending = None  # only now: a rule that matches nothing must also stop the next run

    def shows(self, definition: ToolDefinition) -> bool:
        """Whether the model sees the tool and may call it."""
        # The search only finds what is shown, and what it finds is gated itself.
        known = tool_facts(definition)
        return known.searches or all(expression.matches(known) for expression in self.shown)

    # -- what is decided -----------------------------------------------------------------------------------------

    def asks_statically(self, definition: ToolDefinition) -> str:
        """Return `never`, `always`, `depends` (on the arguments), or `denied`: it would ask, and no call can wait."""
        how = self._facts(definition)[1]
        return "denied" if how == "always" and not self.asks else how

    def _facts(self, definition: ToolDefinition) -> tuple[bool, str]:
        """Return whether the tool is shown, and how it asks. Caches the last definition of each name."""
        cached = self._static.get(definition.name)
        if cached is None or (cached[0] is not definition and cached[0] != definition):
            self._static[definition.name] = cached = (definition, self.shows(definition), self._decide(definition))
        return cached[1:]

    def _decide(self, definition: ToolDefinition) -> str:
        tools = self._stands_for(definition)
        if tool_facts(definition).searches or (self.interrupt_on is False and not self.narrowing):
            return "never"
        first, *further = self._answers(tools)
        if first and not any(first) and not any(map(any, further)):
            return "never"
        said = [answer for answers in (first, *further) for answer in answers]
        marked = any(tool_facts(tool).asks for tool in tools)
        if self.ask_by_default or marked or any(answer is True for answer in said):
            return "always"
        return "depends" if any(map(callable, said)) else "never"

    def _stands_for(self, definition: ToolDefinition) -> list[ToolDefinition]:
        """Return the tool and the tools that it replaces: rules for either apply."""
        known = tool_facts(definition)
        pairs = self._replacers.get(known.plugin, ())
        return [definition, *(self._replaced[p] for p in pairs if p[1] in known.names and p in self._replaced)]

    def _answers(self, tools: Sequence[ToolDefinition]) -> list[list[bool | Predicate]]:
        """Return each rule's answers for the tools, by any of their names: True, a predicate, or an explicit False."""
        subjects = [tool_facts(tool) for tool in tools]
        names = [name for subject in subjects for name in subject.names]
        out: list[list[bool | Predicate]] = []
        for rule in self._rules:
            if isinstance(rule, bool):
                out.append([rule])
            elif isinstance(rule, ToolExpression):
                out.append([True] if any(map(rule.matches, subjects)) else [])
            else:
                out.append([rule[name] for name in names if name in rule])
        return out

    async def verdict(self, ctx: RunContext[Any], call: ToolCall, definition: ToolDefinition) -> Verdict:
        """Decide on one call: the strictest answer of the rules and of every plugin's check."""
        answer = await self._strictest(ctx, call, definition)
        if isinstance(answer, Ask) and not self.asks:
            return Deny(answer.reason or NO_CALL_WAITS)
        return answer

    async def _strictest(self, ctx: RunContext[Any], call: ToolCall, definition: ToolDefinition) -> Verdict:
        if not self.shows(definition):
            return Deny(f"tool {call.tool!r} is not available in this run")
        checked = await self.check_call(ctx, call) if self.check_call is not None else Allow()
        if isinstance(checked, Deny):
            return checked
        how = self.asks_statically(definition)
        if how in ("always", "denied"):
            return Ask(checked.reason)
        if how == "depends":
            for answer in (answer for answers in self._answers(self._stands_for(definition)) for answer in answers):
                if callable(answer) and await _true(answer, call):
                    return Ask("interrupt_on")
        return checked

    async def admit(
        self,
        ctx: RunContext[Any],
        calls: RunCalls,
        definition: ToolDefinition,
        args: dict[str, Any],
        *,
        outer: bool = False,
    ) -> Admission | None:
        """Admit a call, or raise.

        Args:
            ctx: the call's context.
            calls: the run's calls.
            definition: the attributed tool.
            args: the validated arguments that the tool will receive.
            outer: whether this is the outer gate. Only the outer gate uses an approval.

        Returns:
            The admission; None if no rule can apply to this tool.

        Raises:
            ApprovalRequired: a person must decide.
            ToolFailed: the call is denied; the model reads the reason.
        """
        shown, how = self._facts(definition)
        is_free = shown and how == "never" and self.check_call is None and not calls.above
        if is_free and not ctx.tool_call_approved:
            return None
        tool, call_id, digest = tool_facts(definition).key, ctx.tool_call_id or "", digest_args(args)
        admitted = admitted_call.get()
        if not outer and admitted is not None and admitted.covers(self, call_id, tool, digest):
            return admitted
        digests = self._approved(ctx, calls, definition, tool, digest) if outer else frozenset[str]()
        admission = Admission(self, call_id, tool, digests or frozenset((digest,)), approved=bool(digests))
        if not is_free:
            call = ToolCall.of(tool_facts(definition), copy_args(args), call_id, session(ctx).depth)
            verdicts = [await policy.verdict(ctx, call, definition) for policy in (self, *calls.above)]
            verdict = next((each for kind in (Deny, Ask) for each in verdicts if isinstance(each, kind)), verdicts[0])
            if isinstance(verdict, Deny):
                await self._tell(ctx, call, "denied", verdict.reason)
                raise ToolFailed(f"Denied: {verdict.reason}")
            if isinstance(verdict, Ask):
                await self._tell(ctx, call, "approved" if digests else "asked", verdict.reason)
                if not digests:
                    self._ask(ctx, call, definition, digest, verdict.reason, None if outer else admitted)
        return admission

    def _ask(
        self,
        ctx: RunContext[Any],
        call: ToolCall,
        definition: ToolDefinition,
        digest: str,
        reason: str,
        outer: Admission | None,
    ) -> NoReturn:
        """Record the question, and raise it."""
        if outer is None:
            remember_question(ctx, tool_facts(definition).key, [digest])
        else:
            outer.asked.add(digest)  # the outer gate records it with the arguments that it admitted
        about: dict[str, Any] = {"plugin": call.plugin}
        if reason:
            about["reason"] = reason
        if self._validated(ctx, definition, args_in_history(ctx)) != digest:
            about["args"] = jsonable(call.args)  # the call would run with other arguments than shown
        raise ApprovalRequired(metadata=about)

    def _approved(
        self, ctx: RunContext[Any], calls: RunCalls, definition: ToolDefinition, tool: str, digest: str
    ) -> frozenset[str]:
        """Return the digests that a person approved for this call; none unless the session recorded the question."""
        call_id = ctx.tool_call_id or ""
        if not ctx.tool_call_approved or call_id not in calls.answers or args_in_history(ctx) is None:
            return frozenset()
        instead = calls.answers.pop(call_id)
        # Of two calls with this id, the person wrote over the one that the history shows.
        wanted = digest if instead is None else self._validated(ctx, definition, args_in_history(ctx))
        asked = take_question(ctx, tool, wanted)
        if instead is not None and (asked or take_question(ctx, tool, None)):
            asked = frozenset(filter(None, [self._validated(ctx, definition, instead)]))
        return asked if digest in asked else frozenset()

    @staticmethod
    def _validated(ctx: RunContext[Any], definition: ToolDefinition, args: str | None) -> str | None:
        """Return the digest of validated arguments; None if they are invalid or absent."""
        tool = ctx.tool_manager.tools.get(definition.name) if ctx.tool_manager and ctx.tool_manager.tools else None
        if tool is None or args is None:
            return None
        try:
            return digest_args(tool.args_validator.validate_json(args or "{}", context=ctx.validation_context))
        except ValidationError:
            return None

    async def _tell(self, ctx: RunContext[Any], call: ToolCall, decision: str, reason: str) -> None:
        about = {"tool": call.tool, "plugin": call.plugin, "call_id": call.call_id}
        await self.emit("ApprovalEvent", ctx, decision=decision, reason=reason, **about)


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
