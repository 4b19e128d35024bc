"""The one point that nothing goes around: which tools are shown, which calls ask, which are refused.

The capability `deep.policy` is outermost and decides on every call before any other capability sees it; the same
decision is made again innermost, with the arguments that the tool is about to get (`PluginToolset.call_tool`), so a
call that something inside answered, changed or let through does not reach a gated tool.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Never, TypeAlias, cast

from pydantic import ValidationError
from pydantic_ai import ToolDefinition
from pydantic_ai.capabilities import (
    AbstractCapability,
    CapabilityOrdering,
    CombinedCapability,
    HandleDeferredToolCalls,
    Hooks,
    WrapperCapability,
)
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.tools import DeferredToolRequests, RunContext
from pydantic_ai.toolsets import AbstractToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool
from pydantic_core import from_json, to_json

from .contributions import Allow, Ask, Deny, StateSlot, ToolCall, Verdict
from .errors import PluginError, suggest
from .expressions import ToolExpression, ToolSubject, as_expression, check_matches
from .state import session
from .tools import ToolRules, subject_of

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult

__all__ = ["APPROVALS", "InterruptOn", "Policy", "PolicyCapability", "approves", "vet"]

Predicate: TypeAlias = Callable[[ToolCall], bool | Awaitable[bool]]
InterruptOn: TypeAlias = "bool | str | ToolExpression | Mapping[str, bool | Predicate]"
"""What `interrupt_on` takes: tool name -> True, False or a predicate; or one expression; False un-asks all."""

APPROVALS: StateSlot[dict[str, str]] = StateSlot("deep_approvals", dict[str, str], dict[str, str])
"""`call id plugin:tool` -> digest of the arguments that a person was asked about. The last `REMEMBERED` of them."""
REMEMBERED = 200


@dataclass
class RunCalls:
    """What one run needs to tell an approved call from a forged or changed one.

    Attributes:
        shown: call id -> (tool, arguments) as a person saw them: pending when the run began, or asked about since.
        raw: call id -> arguments of an approved call, before any hook could change them.
    """

    shown: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    raw: dict[str, str] = field(default_factory=dict[str, str])


CALLS: StateSlot[dict[str, RunCalls]] = StateSlot("deep_calls", dict[str, RunCalls], dict[str, RunCalls], persist=False)
"""Run id -> its calls, while it runs."""

_passed: ContextVar[tuple[object, str, str, str] | None] = ContextVar("deep_policy_passed", default=None)
"""(policy, call id, plugin:tool, digest of the arguments) that the outer gate let through in this task."""


def _raw(args: str | Mapping[str, Any] | None) -> str:
    return args if isinstance(args, str) else to_json(args or {}).decode()


def _written(ctx: RunContext[Any], call_id: str) -> str | None:
    """The arguments of a call as the conversation has them now."""
    for message in reversed(ctx.messages):
        for part in message.parts:
            if isinstance(part, ToolCallPart) and part.tool_call_id == call_id:
                return _raw(part.args)
    return None


def _digest(args: Mapping[str, Any]) -> str:
    return sha256(to_json(args, fallback=repr, serialize_unknown=True)).hexdigest()


@dataclass(eq=False)
class Policy:
    """The rules of one agent, and the decision on a call.

    Attributes:
        interrupt_on: see `InterruptOn`.
        shown: only what these all match is shown and executed.
        ask_by_default: every tool asks.
        narrowing: further `interrupt_on` rules (of untrusted layers): they can only add.
        check_call: asks the plugins' `deep_check_call`; None where none implements it.
        on_decision: told (ctx, call, decision, reason), for events.
    """

    interrupt_on: InterruptOn = field(default_factory=dict[str, Any])
    shown: tuple[ToolExpression, ...] = ()
    ask_by_default: bool = False
    narrowing: tuple[InterruptOn, ...] = ()
    check_call: Callable[[ToolCall], Awaitable[Verdict]] | None = None
    on_decision: Callable[[RunContext[Any], ToolCall, str, str], Awaitable[None]] | None = None
    _replaced: dict[tuple[str, str], ToolDefinition] = field(default_factory=dict[Any, Any])
    _replacers: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict[Any, Any])
    _pending: dict[str, list[ToolDefinition]] | None = field(default_factory=dict[Any, Any])
    own: dict[str, ToolDefinition] = field(default_factory=dict[str, ToolDefinition])
    """Final name -> the definition as attributed here, whatever other capabilities made of it."""
    _static: dict[str, tuple[ToolDefinition, bool, str]] = field(default_factory=dict[Any, Any])

    def __post_init__(self) -> None:
        self._rules: list[Mapping[str, bool | Predicate] | ToolExpression | bool] = [
            self._rule(rule) for rule in (self.interrupt_on, *self.narrowing)
        ]

    @staticmethod
    def _rule(rule: InterruptOn) -> Mapping[str, bool | Predicate] | ToolExpression | bool:
        return as_expression(rule) if isinstance(rule, str | ToolExpression) else rule

    @property
    def asks(self) -> bool:
        """Whether any call can ever wait for a person. `interrupt_on=False` un-asks all."""
        return self.interrupt_on is not False or bool(self.narrowing)

    @property
    def has_rules(self) -> bool:
        """Whether any rule names tools, and so must be checked against those there are."""
        return (
            bool(self.shown)
            or any(rule for rule in self._rules if not isinstance(rule, bool | ToolExpression))
            or any(isinstance(rule, ToolExpression) for rule in self._rules)
        )

    # -- what there is -------------------------------------------------------------------------------------------

    def replacing(self, plugin: str, replaced: Iterable[tuple[str, str]]) -> None:
        """Note that `plugin`'s tools take the places of (plugin, original name), keeping their approvals."""
        self._replacers[plugin] = tuple(replaced)

    def replaced(self, plugin: str, definition: ToolDefinition) -> None:
        """Note what a replaced tool was."""
        self._replaced[plugin, (definition.metadata or {})["original"]] = definition

    def seen(self, plugin: str, definitions: Sequence[ToolDefinition]) -> None:
        """Collect what is listed until the rules have been checked against it once."""
        if self._pending is not None:
            self._pending[plugin] = list(definitions)

    def trust_names(self) -> None:
        """Do not check the rules: they were checked where they were written."""
        self._pending = None

    def check_listed(self, definitions: Sequence[ToolDefinition]) -> None:
        """`check_names` for a run's tools, once, where construction could not know them all."""
        if self._pending is not None:
            listed = [definition for plugin in self._pending.values() for definition in plugin]
            self.check_names([*definitions, *listed])

    def check_names(self, definitions: Sequence[ToolDefinition]) -> None:
        """Every rule must match some tool: a misspelt rule would be an open door.

        Raises:
            UserError: with a suggestion.
        """
        self._pending = None
        # A replaced tool is not there, but its approvals are: rules may be about it.
        subjects = [subject_of(definition) for definition in (*definitions, *self._replaced.values())]
        for expression in self.shown:
            check_matches(expression, subjects, where="tool_filter")
        for rule in self._rules:
            if isinstance(rule, ToolExpression):
                check_matches(rule, subjects, where="interrupt_on")
            elif isinstance(rule, Mapping):
                known = {name for subject in subjects for name in subject.names}
                for name in rule:
                    if name not in known:
                        have = f" Tools: {', '.join(sorted(known))}." if known else " There are no tools."
                        raise UserError(f"interrupt_on: there is no tool {name!r}.{suggest(name, known) or have}")

    def shows(self, definition: ToolDefinition) -> bool:
        """Whether the model is shown the tool, and may call it."""
        subject = subject_of(definition)
        return all(expression.matches(subject) for expression in self.shown)

    # -- what is decided -----------------------------------------------------------------------------------------

    def asks_statically(self, definition: ToolDefinition) -> str:
        """`never`, `always`, or `depends` (on the call's arguments)."""
        cached = self._static.get(definition.name)
        if cached is None or (cached[0] is not definition and cached[0] != definition):
            self._static[definition.name] = cached = (definition, self.shows(definition), self._decide(definition))
        return cached[2]

    def _decide(self, definition: ToolDefinition) -> str:
        subjects = [subject_of(definition)]
        metadata = definition.metadata or {}
        asks = bool(metadata.get("approval")) or self.ask_by_default
        for plugin, original in self._replacers.get(metadata.get("plugin", ""), ()):
            old = self._replaced.get((plugin, original))
            if original in subjects[0].names and old is not None:
                subjects.append(subject_of(old))
                asks = asks or bool((old.metadata or {}).get("approval"))
        if self.interrupt_on is False and not self.narrowing:
            return "never"
        answers = [self._answer(rule, subjects) for rule in self._rules]
        if answers[0] is False and not any(answers[1:]):
            return "never"
        if asks or any(answer is True for answer in answers):
            return "always"
        return "depends" if any(callable(answer) for answer in answers) else "never"

    @staticmethod
    def _answer(
        rule: Mapping[str, bool | Predicate] | ToolExpression | bool, subjects: Sequence[ToolSubject]
    ) -> bool | Predicate | None:
        """True, a predicate, False (an explicit no), or None: the rule does not speak of this tool."""
        if isinstance(rule, bool):
            return rule
        if isinstance(rule, ToolExpression):
            return True if any(rule.matches(subject) for subject in subjects) else None
        said = [rule[name] for subject in subjects for name in subject.names if name in rule]
        asking = [answer for answer in said if answer is not False]
        return asking[0] if asking else (False if said else None)

    async def verdict(self, call: ToolCall, definition: ToolDefinition) -> Verdict:
        """What becomes of one call: the strictest of the rules and of every plugin's check."""
        if not self.shows(definition):
            return Deny(f"tool {call.tool!r} is not available in this run")
        checked = await self.check_call(call) if self.check_call is not None else Allow()
        if isinstance(checked, Deny):
            return checked
        how = self.asks_statically(definition)
        if how == "always":
            return Ask(checked.reason)
        if how == "depends":
            for rule in self._rules:
                answer = self._answer(rule, [subject_of(definition)])
                if callable(answer) and await _true(answer, call):
                    return Ask("interrupt_on")
        if isinstance(checked, Ask) and self.interrupt_on is False:
            return Deny(checked.reason or "a plugin asks for approval, and interrupt_on=False leaves nobody to ask")
        return checked

    async def admit(
        self, ctx: RunContext[Any], definition: ToolDefinition, args: dict[str, Any], call: ToolCallPart | None = None
    ) -> str:
        """Let a call through, or raise.

        Args:
            ctx: the call's context.
            definition: the attributed tool.
            args: the validated arguments that the tool will get.
            call: the call as the model (or the person who changed it) wrote it; None at the inner gate.

        Returns:
            The digest of the arguments, empty where nothing can object to this tool.

        Raises:
            ApprovalRequired: a person must decide.
            ToolFailed: refused; the model reads why.
        """
        how = self.asks_statically(definition)
        if how == "never" and self.check_call is None and self._static[definition.name][1]:
            return ""
        metadata = definition.metadata or {}
        digest, call_id = _digest(args), ctx.tool_call_id or ""
        tool = f"{metadata.get('plugin', 'app')}:{metadata.get('original', definition.name)}"
        if call is None and _passed.get() == (self, call_id, tool, digest):
            return digest
        described = ToolCall(
            tool=definition.name,
            original=metadata.get("original", definition.name),
            plugin=metadata.get("plugin", "app"),
            tags=subject_of(definition).tags,
            args=args,
            call_id=call_id,
            depth=session(ctx).depth,
        )
        verdict = await self.verdict(described, definition)
        if isinstance(verdict, Deny):
            await self._tell(ctx, described, "denied", verdict.reason)
            raise ToolFailed(f"Denied: {verdict.reason}")
        if isinstance(verdict, Ask):
            if ctx.tool_call_approved and self._is_approved(ctx, definition, f"{call_id} {tool}", digest, call):
                await self._tell(ctx, described, "approved", verdict.reason)
            else:
                await self._tell(ctx, described, "asked", verdict.reason)
                self._ask(ctx, definition, described, f"{call_id} {tool}", digest, call, verdict.reason)
        return digest

    def _ask(
        self,
        ctx: RunContext[Any],
        definition: ToolDefinition,
        described: ToolCall,
        key: str,
        digest: str,
        call: ToolCallPart | None,
        reason: str,
    ) -> Never:
        deps = session(ctx)
        asked = deps.state[APPROVALS]
        asked.pop(key, None)
        asked[key] = digest
        for old in list(asked)[:-REMEMBERED]:
            del asked[old]
        about: dict[str, Any] = {"plugin": described.plugin}
        if reason:
            about["reason"] = reason
        written = _written(ctx, described.call_id)
        if written is not None and ctx.run_id in deps.state[CALLS]:
            deps.state[CALLS][ctx.run_id].shown[described.call_id] = (definition.name, written)
        if call is None or written is None or self._validated(ctx, definition, written) != digest:
            # Something changed the arguments that the conversation shows: tell what would run, and ask about that.
            about["args"] = from_json(to_json(described.args, fallback=repr, serialize_unknown=True))
        raise ApprovalRequired(metadata=about)

    def _is_approved(
        self, ctx: RunContext[Any], definition: ToolDefinition, key: str, digest: str, call: ToolCallPart | None
    ) -> bool:
        """Whether what is about to run is what a person approved.

        Either exactly this was asked about, or the call waited for an approval and its arguments are what plain
        validation makes of what the person saw, or wrote instead (`override_args`).
        """
        deps, call_id = session(ctx), ctx.tool_call_id or ""
        if deps.state[APPROVALS].get(key) == digest:
            return True
        calls = deps.state[CALLS].get(ctx.run_id or "")
        shown = calls.shown.get(call_id) if calls is not None else None
        if call is None or calls is None or shown is None or shown[0] != definition.name or call_id not in calls.raw:
            return False
        if _written(ctx, call_id) != shown[1]:
            return False  # the conversation no longer says what the person saw
        return self._validated(ctx, definition, calls.raw[call_id]) == digest

    def honours(self, ctx: RunContext[Any], definition: ToolDefinition) -> bool:
        """Whether an approval of this call can be real: it waited for one, or was asked about in this run."""
        deps, call_id, metadata = session(ctx), ctx.tool_call_id or "", definition.metadata or {}
        key = f"{call_id} {metadata.get('plugin', 'app')}:{metadata.get('original', definition.name)}"
        calls = deps.state[CALLS].get(ctx.run_id or "")
        shown = calls.shown.get(call_id) if calls is not None else None
        return key in deps.state[APPROVALS] or (shown is not None and shown[0] == definition.name)

    def asked_by_tool(self, ctx: RunContext[Any], definition: ToolDefinition) -> None:
        """Note that a tool asked by itself (it raised `ApprovalRequired`)."""
        calls = session(ctx).state[CALLS].get(ctx.run_id or "")
        written = _written(ctx, ctx.tool_call_id or "")
        if calls is not None and written is not None:
            calls.shown[ctx.tool_call_id or ""] = (definition.name, written)

    @staticmethod
    def _validated(ctx: RunContext[Any], definition: ToolDefinition, raw: str) -> str | None:
        """Digest of what plain validation makes of a call's arguments, None where they are not valid."""
        tool = ctx.tool_manager.tools.get(definition.name) if ctx.tool_manager and ctx.tool_manager.tools else None
        if tool is None:
            return None
        try:
            return _digest(tool.args_validator.validate_json(raw or "{}", context=ctx.validation_context))
        except ValidationError:
            return None  # something made valid arguments of a call that is not: the person has not seen those

    async def _tell(self, ctx: RunContext[Any], call: ToolCall, decision: str, reason: str) -> None:
        if self.on_decision is not None:
            await self.on_decision(ctx, call, decision, reason)


async def _true(predicate: Predicate, call: ToolCall) -> bool:
    try:
        result = predicate(call)
        return bool(await result if inspect.isawaitable(result) else result)
    except Exception as error:
        # Fails closed: a predicate that cannot decide leaves the decision to a person.
        error.add_note(f"interrupt_on predicate for {call.tool}; the call asks")
        import logging

        logging.getLogger("deep_core").warning("interrupt_on predicate for %s failed", call.tool, exc_info=error)
        return True


# -- capabilities ----------------------------------------------------------------------------------------------------


@dataclass
class InnerGate(WrapperToolset[Any]):
    """All function tools of a run, inside what other capabilities wrap around them: attributed, and gated again."""

    policy: Policy
    owners: Mapping[str, str]
    """Capability id -> the plugin that contributed it."""
    foreign: ToolRules = field(default_factory=lambda: ToolRules("a capability"))

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """All tools, those of capabilities attributed too."""
        tools = dict(await self.wrapped.get_tools(ctx))
        for name, tool in tools.items():
            if "plugin" not in (tool.tool_def.metadata or {}) and name not in self.policy.own:
                owner = self.owners.get(tool.tool_def.capability_id or "", "app")
                definition = self.foreign.attribute(owner, tool.tool_def)
                self.policy.own[name] = definition
                tools[name] = replace(tool, tool_def=definition)
        return tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Gate the call with the arguments that come in here."""
        await self.policy.admit(ctx, self.policy.own.get(name, tool.tool_def), tool_args)
        return await self.wrapped.call_tool(name, tool_args, ctx, tool)


@dataclass
class ShownToolset(WrapperToolset[Any]):
    """What the filter leaves of a run's function tools."""

    policy: Policy

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools that the filter leaves."""
        tools = await self.wrapped.get_tools(ctx)
        own = [self.policy.own.get(name, tool.tool_def) for name, tool in tools.items()]
        self.policy.check_listed(own)
        if not self.policy.shown:
            return tools
        return {name: tool for (name, tool), known in zip(tools.items(), own, strict=True) if self.policy.shows(known)}


@dataclass
class PolicyCapability(AbstractCapability[Any]):
    """The outer gate: first in the chain, around every other capability."""

    policy: Policy = field(default_factory=Policy)
    native_tools: frozenset[str] = frozenset()
    approvers: tuple[AbstractCapability[Any], ...] = ()
    on_refused: Callable[[str], None] = field(default=lambda kind: None)

    def get_ordering(self) -> CapabilityOrdering:
        """Outside every capability there is, the outermost ones included."""
        return CapabilityOrdering(position="outermost", wraps=[AbstractCapability])

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Not made from a spec: it belongs to its agent."""
        return None

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]) -> Any:
        """Vet what this run brought, and note which calls wait for an approval, before any other hook runs."""
        self._vet_run(ctx)
        calls = session(ctx).state[CALLS]
        calls[ctx.run_id or ""] = RunCalls(shown=_unanswered(ctx.messages))
        try:
            return await handler()
        finally:
            del calls[ctx.run_id or ""]

    async def handle_deferred_tool_calls(self, ctx: RunContext[Any], *, requests: DeferredToolRequests) -> None:
        """Answer nothing. First in the chain: vet again, for an approver that has appeared since the run began."""
        self._vet_run(ctx)

    async def wrap_tool_validate(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
        handler: Callable[[str | dict[str, Any]], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Note an approved call's arguments before any other hook can change them."""
        if ctx.tool_call_approved:
            calls = session(ctx).state[CALLS].get(ctx.run_id or "")
            if calls is not None:
                calls.raw[call.tool_call_id] = _raw(call.args)
        return await handler(args)

    def _vet_run(self, ctx: RunContext[Any]) -> None:
        root = ctx.root_capability
        if root is None:
            return
        leaves: list[AbstractCapability[Any]] = []
        root.apply(leaves.append)
        for leaf in leaves:
            if leaf is not self and approves(leaf) and not self._named(leaf):
                raise UserError(
                    f"capability {type(leaf).__name__} could approve tool calls in this run, and nobody named it as an "
                    "approver. Pass it to create_deep_agent(capabilities=[…]), or name its plugin in approvers=[…]."
                )

    def _named(self, leaf: AbstractCapability[Any]) -> bool:
        # By identity, or by id and class where `for_run` made this run's own instance of it.
        return any(
            leaf is known or (leaf.id is not None and leaf.id == known.id and type(leaf) is type(known))
            for known in self.approvers
        )

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        """Filter every function tool of the run."""
        return ShownToolset(toolset, self.policy)

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Decide before anything inside can answer."""
        definition = self.policy.own.get(tool_def.name, tool_def)
        digest = await self.policy.admit(ctx, definition, args, call)
        if not digest:
            return await handler(args)
        metadata = definition.metadata or {}
        tool = f"{metadata.get('plugin', 'app')}:{metadata.get('original', definition.name)}"
        token = _passed.set((self.policy, ctx.tool_call_id or "", tool, digest))
        try:
            return await handler(args)
        finally:
            _passed.reset(token)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Take out the provider's own tools that nobody named: their calls run where no gate is."""
        parameters = request_context.model_request_parameters
        refused = [t for t in parameters.native_tools if t.kind not in self.native_tools and t.kind != "tool_search"]
        if refused:
            for tool in refused:
                self.on_refused(tool.kind)
            kept = [tool for tool in parameters.native_tools if tool not in refused]
            request_context.model_request_parameters = replace(parameters, native_tools=kept)
        return request_context


def _unanswered(messages: Sequence[ModelMessage]) -> dict[str, tuple[str, str]]:
    """Calls without a return, at the end of a history: id -> (tool, arguments)."""
    last = next((i for i in range(len(messages) - 1, -1, -1) if isinstance(messages[i], ModelResponse)), None)
    if last is None:
        return {}
    answered = {p.tool_call_id for m in messages[last:] for p in m.parts if isinstance(p, ToolReturnPart)}
    calls = [part for part in messages[last].parts if isinstance(part, ToolCallPart)]
    return {c.tool_call_id: (c.tool_name, _raw(c.args)) for c in calls if c.tool_call_id not in answered}


def approves(capability: AbstractCapability[Any]) -> bool:
    """Whether a capability (or one that it wraps) could answer approval requests."""
    method = type(capability).handle_deferred_tool_calls
    if getattr(capability.handle_deferred_tool_calls, "__func__", None) is not method:
        return True  # the instance has its own
    if method is AbstractCapability.handle_deferred_tool_calls:
        return False
    if isinstance(capability, HandleDeferredToolCalls):
        return True
    if method is WrapperCapability.handle_deferred_tool_calls:
        return approves(cast("WrapperCapability[Any]", capability).wrapped)
    if method is CombinedCapability.handle_deferred_tool_calls:
        return any(approves(child) for child in cast("CombinedCapability[Any]", capability).capabilities)
    if method is Hooks.handle_deferred_tool_calls:
        return bool(cast("Hooks[Any]", capability)._get("handle_deferred_tool_calls"))  # pyright: ignore[reportPrivateUsage]
    return True


def vet(capability: AbstractCapability[Any], label: str, *, approver: bool, native_tools: Iterable[str]) -> None:
    """Check one capability that a plugin returned, before an agent is made with it.

    Raises:
        PluginError: it takes a reserved id, could approve calls, or adds a native tool that nobody named.
    """
    leaves: list[AbstractCapability[Any]] = []
    capability.apply(leaves.append)
    for leaf in (capability, *leaves):
        name = type(leaf).__name__
        if leaf.id in ("deep", "deep.policy"):
            raise PluginError(f"{label}: capability {name} takes the id {leaf.id!r}, which is the kernel's own")
        ordering = leaf.get_ordering()
        for ref in ordering.wraps if ordering is not None else ():
            if isinstance(ref, type) and issubclass(PolicyCapability, ref):
                raise PluginError(f"{label}: capability {name} asks to stand outside the policy; nothing does")
        if approves(leaf) and not approver:
            raise PluginError(
                f"{label}: capability {name} overrides handle_deferred_tool_calls, so it could approve calls. If it "
                "should, name the plugin: create_deep_agent(approvers=[…]) or approvers in [agent]."
            )
        for tool in leaf.get_native_tools():
            kind = getattr(tool, "kind", None)
            if kind is not None and kind not in native_tools:
                raise PluginError(
                    f"{label}: capability {name} adds the provider's own tool {kind!r}, which runs where no policy "
                    f"gates it. To allow it: native_tools = [{kind!r}] in [agent] or create_deep_agent."
                )
